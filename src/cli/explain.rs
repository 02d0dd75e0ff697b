use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use super::print_page;
use crate::engine::Explanation;
use crate::policy::{self, Faults, Loaded, Policy, Visible, readable};
use crate::settings::PolicySettings;

#[derive(Args, Debug)]
pub(super) struct ExplainSettings {
    #[command(flatten)]
    policy: PolicySettings,

    /// The domain that Envoy's rate limit filter names [default: the policy's, if it has only one]
    #[arg(long, value_name = "NAME")]
    domain: Option<OsString>,

    /// Answer in JSON, for programs
    #[arg(long)]
    pub(super) json: bool,

    /// The entries of one descriptor, in order; all after the first = is the value, taken as it is
    #[arg(value_name = "KEY=VALUE", required = true)]
    entries: Vec<OsString>,
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unexplained {
    #[error("{0}")]
    Faults(Faults),
    #[error("\"{0}\" is no entry: write KEY=VALUE, such as tenant=acme")]
    NotAnEntry(String),
    #[error("the policy has no domains: there is nothing to explain")]
    NoDomains,
    #[error("the policy has several domains: say which with --domain NAME; there are {0}")]
    SeveralDomains(policy::Candidates),
    #[error("the answer cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

pub(super) fn run(settings: &ExplainSettings) -> ExitCode {
    match explain(settings) {
        Ok(explanation) => {
            print_page(&explanation);
            ExitCode::SUCCESS
        }
        Err(Unexplained::Faults(faults)) => {
            print_page(&format!("{faults}\n"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn explain(settings: &ExplainSettings) -> Result<String, Unexplained> {
    answer(settings, || policy::load(&settings.policy.path, &settings.policy.defaults.defaults()))
}

/// Explains the descriptor by the policy that is loaded, if the question makes sense.
pub(super) fn answer(
    settings: &ExplainSettings,
    load: impl FnOnce() -> Result<Loaded, Faults>,
) -> Result<String, Unexplained> {
    let entries = settings.entries.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    let policy = load().map_err(Unexplained::Faults)?.policy;
    let domain = match &settings.domain {
        Some(domain) => domain.as_encoded_bytes(),
        None => only_domain(&policy)?.as_bytes(),
    };
    let explanation = Explanation::of(&policy, domain, &entries);
    Ok(if settings.json { serde_json::to_string_pretty(&explanation)? + "\n" } else { explanation.to_string() })
}

/// An argument as key and value. The bytes are what the shell gave, UTF-8 or not.
fn entry(argument: &OsString) -> Result<(&[u8], &[u8]), Unexplained> {
    let bytes = argument.as_encoded_bytes();
    let not_an_entry = || Unexplained::NotAnEntry(Visible(&readable(bytes)).to_string());
    let at = bytes.iter().position(|byte| *byte == b'=').ok_or_else(not_an_entry)?;
    Ok((&bytes[..at], &bytes[at + 1..]))
}

fn only_domain(policy: &Policy) -> Result<&str, Unexplained> {
    let domains = policy.domains_like(b"");
    policy.only_domain().ok_or(if domains.count == 0 {
        Unexplained::NoDomains
    } else {
        Unexplained::SeveralDomains(domains)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use clap::Parser;
    use tempfile::TempDir;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: ExplainSettings,
    }

    fn policy(text: &str) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("policy.yaml"), text).unwrap();
        directory
    }

    /// What the arguments answer, without the directory's own path.
    fn answer(directory: &TempDir, arguments: &[&str]) -> Result<String, String> {
        let path = directory.path().to_str().unwrap();
        let line = ["explain", "--policy", path].into_iter().chain(arguments.iter().copied());
        let answer = explain(&Line::parse_from(line).settings);
        let without_path = |text: String| text.replace(path, "DIR");
        answer.map(without_path).map_err(|error| without_path(error.to_string()))
    }

    const ONE: &str = "domain: api\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 5, unit: hour}}]";

    #[test]
    fn the_only_domain_need_not_be_named() {
        let directory = policy(ONE);
        let short = answer(&directory, &["k=a=b"]);
        assert_eq!(short, answer(&directory, &["--domain", "api", "k=a=b"]));
        insta::assert_snapshot!(short.unwrap());
    }

    #[test]
    fn of_several_domains_one_must_be_named() {
        let directory = policy(ONE);
        std::fs::write(directory.path().join("other.yaml"), "domain: other").unwrap();
        insta::assert_snapshot!(answer(&directory, &["k=a"]).unwrap_err());
    }

    #[test]
    fn the_defaults_are_those_of_the_command_line() {
        let arguments = ["--default-algorithm", "fixed_window", "--overdraft", "--json", "k=a"];
        insta::assert_snapshot!(answer(&policy(ONE), &arguments).unwrap());
    }

    #[test]
    fn what_is_no_question_says_what_to_write() {
        insta::assert_snapshot!(answer(&policy(ONE), &["k=a", "tenant\u{1b}"]).unwrap_err());
    }

    #[test]
    fn what_is_no_question_is_repeated_so_that_nothing_of_it_is_hidden() {
        // The vowel sign would stand on the letter before it.
        let error = answer(&policy(ONE), &["x\u{5a6}\"\u{202e}"]).unwrap_err();
        assert!(error.starts_with("\"x\\u{5a6}\"\\u{202e}\" is no entry"), "{error}");
    }

    #[test]
    fn a_policy_with_faults_explains_nothing() {
        insta::assert_snapshot!(answer(&policy("domain: api\nlimits: []\n"), &["k=a"]).unwrap_err());
    }

    #[test]
    fn bytes_that_are_not_text_are_taken_as_they_are() {
        let argument = OsString::from_vec(b"k=\xff".to_vec());
        assert_eq!(entry(&argument).unwrap(), (&b"k"[..], &b"\xff"[..]));
    }
}

//! The command line: one file a subcommand.

mod check;
mod explain;
mod schema;
mod serve;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::policy::Policy;
use crate::settings::ServeSettings;

/// Rate limit service for Envoy: exact across replicas, local in latency.
///
/// Without a command and without options it does what `comporta serve` does: it serves the policy in ./config.
#[derive(Debug, Parser)]
#[command(name = "comporta", version, override_usage = "comporta [COMMAND]")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer Envoy's questions until told to stop
    Serve(Box<ServeSettings>),
    /// Check policy files and print every fault
    ///
    /// Exits with 0 when the policy could be served, and with 1 otherwise.
    Check(check::CheckSettings),
    /// Say which limits count for a request's descriptor, and why
    ///
    /// Exits with 0 when there is an answer, even if it is that no limit counts, with 1 when the policy has faults, and
    /// with 2 when the question makes no sense.
    Explain(explain::ExplainSettings),
    /// Print the JSON Schema of policy files, for editors
    #[command(after_help = schema::HELP)]
    Schema,
}

/// Runs the command that the process was started with.
#[must_use]
pub fn run() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.len() < 2 {
        arguments.push("serve".into());
    }
    match Cli::parse_from(arguments).command {
        Command::Serve(settings) => serve::run(&settings),
        Command::Check(settings) => check::run(&settings),
        Command::Explain(settings) => explain::run(&settings),
        Command::Schema => schema::run(),
    }
}

/// What a policy consists of, for one line of output.
fn summary(policy: &Policy) -> String {
    let counted = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
    let (files, domains) = (counted(policy.files().len(), "file"), counted(policy.domain_count(), "domain"));
    format!("{files}, {domains}, {}", counted(policy.rule_count(), "rule"))
}

/// Prints to stdout. A reader that has seen enough, as in `comporta check . | head`, is no fault.
fn print_page(page: &str) {
    if let Err(error) = io::stdout().write_all(page.as_bytes())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("error: cannot write to stdout: {error}");
    }
}

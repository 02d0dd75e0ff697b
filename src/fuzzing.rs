//! What `fuzz/` feeds with bytes that nobody would write. For tests alone, and no part of the library.
//!
//! Each function reads its input as the service would and asserts what must hold whatever it is, so that a finding is a
//! panic. It stands beside what it feeds; an ordinary test feeds the inputs that are kept in `fuzz/corpus`.

mod input;

pub use crate::cli::fuzzing::explain;
pub use crate::engine::fuzzing::store_answers;
pub use crate::policy::fuzzing::policy;
pub use crate::server::fuzzing::{admin_query, first_bytes, grpc_request, grpc_timeout, json_request};
pub use crate::store::redis::fuzzing::{redis_reply, redis_url};
pub use crate::tls::fuzzing::tls_files;
pub use crate::trace::fuzzing::traceparent;

pub(crate) use input::Input;

/// What is fed.
pub type Target = fn(&[u8]);

/// Every function above, by the name that it has in `fuzz/`.
pub const TARGETS: [(&str, Target); 12] = [
    ("admin_query", admin_query),
    ("explain", explain),
    ("first_bytes", first_bytes),
    ("grpc_request", grpc_request),
    ("grpc_timeout", grpc_timeout),
    ("json_request", json_request),
    ("policy", policy),
    ("redis_reply", redis_reply),
    ("redis_url", redis_url),
    ("store_answers", store_answers),
    ("tls_files", tls_files),
    ("traceparent", traceparent),
];

/// A policy that has something of everything.
pub(crate) const POLICY: &str = include_str!("fuzzing/policy.yaml");

/// Asserts that nothing in a text is hidden or obeyed by a terminal.
pub(crate) fn assert_printable(text: &str) {
    for line in text.lines() {
        assert_eq!(crate::policy::Visible(line).to_string(), line, "this is not printable");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::TARGETS;

    fn entries(directory: &str) -> Vec<PathBuf> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(directory);
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn stems(directory: &str) -> BTreeSet<String> {
        let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        entries(directory).into_iter().map(stem).collect()
    }

    #[test]
    fn what_was_fed_once_is_fed_again() {
        for (name, target) in TARGETS {
            let inputs = entries(&format!("corpus/{name}"));
            assert!(!inputs.is_empty(), "fuzz/corpus/{name} is empty");
            for input in inputs {
                eprintln!("{}", input.display());
                target(&fs::read(&input).unwrap());
            }
        }
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(stems("fuzz_targets"), names);
        assert_eq!(stems("corpus"), names);
        let manifest = include_str!("../fuzz/Cargo.toml");
        for name in names {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml has no {name}");
        }
    }
}

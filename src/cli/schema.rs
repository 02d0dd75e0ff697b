use std::io::{self, Write};
use std::process::ExitCode;

use crate::policy;

pub(super) const HELP: &str = "\
An editor that knows the schema completes keys and marks faults while you type. Write it to
a file once:

    comporta schema > policy.schema.json

and name that file in the first line of a policy. Editors with yaml-language-server, such as
VS Code with the YAML extension, Neovim, Helix and Emacs, read it there:

    # yaml-language-server: $schema=./policy.schema.json

A schema cannot compare one part of a policy with another; `comporta check` does.";

pub(super) fn run() -> ExitCode {
    match io::stdout().write_all(policy::SCHEMA.as_bytes()) {
        // The reader of a pipe may have seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write the schema: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

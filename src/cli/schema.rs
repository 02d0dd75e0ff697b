use std::process::ExitCode;

use super::print_page;
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
    print_page(policy::SCHEMA);
    ExitCode::SUCCESS
}

//! The command line: one file a subcommand.

mod check;
mod explain;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod healthcheck;
mod overlooked;
mod reload;
mod schema;
mod serve;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::policy::{Policy, PolicyFiles, Visible};
use crate::settings::{HttpSettings, ServeSettings};

/// Rate limit service for Envoy: exact across replicas, local in latency.
///
/// Without a command it does what `comporta serve` does, which takes the policy in ./config if told no other.
#[derive(Debug, Parser)]
#[command(name = "comporta", version, override_usage = "comporta [COMMAND] [OPTIONS]")]
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
    /// Ask the service on this machine whether it is ready
    ///
    /// For images without a shell. Prints what /readyz answers, and exits with 0 if it is ready and with 1 otherwise.
    Healthcheck(HttpSettings),
    /// Print the JSON Schema of policy files, for editors
    #[command(after_help = schema::HELP)]
    Schema,
}

/// Runs the command that the process was started with.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = with_command(std::env::args_os().collect());
    let mut cli = Cli::command();
    let told = match cli.try_get_matches_from_mut(&arguments) {
        Ok(told) => told,
        Err(error) => return refuse(&error, overlooked::variable_of(&error, &cli, &arguments)),
    };
    let command = match Cli::from_arg_matches(&told) {
        Ok(read) => read.command,
        Err(error) => return refuse(&error.format(&mut cli), None),
    };
    match command {
        Command::Serve(settings) => {
            let serve = told.subcommand().and_then(|(name, told)| Some((cli.find_subcommand(name)?, told)));
            let warnings = serve.map(|(serve, told)| overlooked::warnings(serve, told, std::env::vars_os()));
            serve::run(&settings, &warnings.unwrap_or_default())
        }
        Command::Check(settings) => check::run(&settings),
        Command::Explain(settings) => explain::run(&settings),
        Command::Healthcheck(http) => healthcheck::run(&http),
        Command::Schema => schema::run(),
    }
}

/// Prints what is wrong with the command line, or the help that was asked for. A wrong value may come from a variable.
fn refuse(error: &clap::Error, variable: Option<String>) -> ExitCode {
    if error.print().is_ok()
        && let Some(variable) = variable
    {
        eprintln!("\nThe value is that of the environment variable {variable}.");
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The arguments, with `serve` where no command is given.
fn with_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let first = arguments.get(1).map(|argument| argument.to_string_lossy());
    let is_about_the_binary = |option: &str| matches!(option, "-h" | "--help" | "-V" | "--version");
    if first.is_none_or(|first| first.starts_with('-') && !is_about_the_binary(&first)) {
        arguments.insert(1.min(arguments.len()), "serve".into());
    }
    arguments
}

/// What there is to say of files that have the name of a policy, and are none that could be read to its end.
fn passed_over(files: &PolicyFiles) -> Vec<String> {
    let told = |path: &PathBuf| format!("{} is no regular file, and is passed over", Visible(&path.to_string_lossy()));
    files.passed_over().iter().map(told).collect()
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

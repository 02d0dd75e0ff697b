//! The command line, and what the documentation says of it.

use clap::{Arg, CommandFactory};

use super::{Cli, with_command};

const OPERATIONS: &str = include_str!("../../docs/operations.md");

/// The row of the table of settings that begins with this flag.
fn row_of(flag: &str) -> Option<&'static str> {
    OPERATIONS
        .lines()
        .find(|line| line.strip_prefix("| `").is_some_and(|row| row.split([' ', '`']).next() == Some(flag)))
}

/// What is wrong with the documentation of a setting.
fn undocumented(setting: &Arg) -> Option<String> {
    let flag = format!("--{}", setting.get_long()?);
    let Some(row) = row_of(&flag) else { return Some(format!("{flag} has no row")) };
    let variable = setting.get_env().map(|name| name.to_string_lossy().into_owned());
    let defaults = setting.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
    let missing = variable.into_iter().chain(defaults).find(|word| !row.contains(&format!("`{word}`")));
    missing.map(|word| format!("the row of {flag} does not name `{word}`"))
}

#[test]
fn operations_md_names_every_setting_with_its_variable_and_default() {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve").unwrap();
    let undocumented: Vec<String> = serve.get_arguments().filter_map(undocumented).collect();
    assert_eq!(undocumented, [""; 0]);
}

#[test]
fn operations_md_names_no_setting_that_there_is_not() {
    let cli = Cli::command();
    let flags: Vec<String> = cli
        .find_subcommand("serve")
        .unwrap()
        .get_arguments()
        .filter_map(|setting| Some(format!("--{}", setting.get_long()?)))
        .collect();
    let rows = OPERATIONS.lines().filter_map(|line| line.strip_prefix("| `--")?.split([' ', '`', '=']).next());
    for row in rows {
        assert!(flags.contains(&format!("--{row}")), "there is no --{row}");
    }
}

#[test]
fn without_a_command_the_options_are_those_of_serve() {
    let completed = |arguments: &[&str]| with_command(arguments.iter().map(Into::into).collect());
    assert_eq!(completed(&["comporta"]), ["comporta", "serve"]);
    assert_eq!(completed(&["comporta", "--shadow-mode"]), ["comporta", "serve", "--shadow-mode"]);
    for asked in
        [&["comporta", "--help"][..], &["comporta", "-V"], &["comporta", "check", "--help"], &["comporta", "x"]]
    {
        assert_eq!(completed(asked), asked);
    }
}

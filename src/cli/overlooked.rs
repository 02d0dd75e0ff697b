//! What of the command line and the environment has no effect, or comes from where nobody looks for it.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use crate::policy::{Visible, nearest};
use crate::settings::StoreSettings;

/// What settings in the environment begin with.
const PREFIX: &str = "COMPORTA_";

/// What there is to warn of, when `serve` was told this.
pub(super) fn warnings(
    serve: &Command,
    told: &ArgMatches,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let without_redis =
        idle_without_redis(told).map(|flags| format!("without --redis-url these have no effect: {flags}"));
    let unknown = unknown_variables(serve, environment);
    let unknown =
        unknown.map(|names| format!("no setting has the name of these variables, so they have no effect: {names}"));
    without_redis.into_iter().chain(unknown).collect()
}

fn idle_without_redis(told: &ArgMatches) -> Option<String> {
    let is_given = |id: &&str| told.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
    if is_given(&"redis_url") {
        return None;
    }
    let flags: Vec<_> = StoreSettings::IDLE_WITHOUT_REDIS
        .iter()
        .filter(|id| is_given(id))
        .map(|id| format!("--{}", id.replace('_', "-")))
        .collect();
    (!flags.is_empty()).then(|| flags.join(", "))
}

fn unknown_variables(serve: &Command, environment: impl Iterator<Item = (OsString, OsString)>) -> Option<String> {
    let known: Vec<_> =
        serve.get_arguments().filter_map(|setting| Some(setting.get_env()?.to_string_lossy().into_owned())).collect();
    let mut unknown: Vec<_> = environment
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, value)| name.starts_with(PREFIX) && !known.contains(name) && !is_of_kubernetes(name, value))
        .map(|(name, _)| {
            let shown = Visible(&name);
            let names = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
            let meant = name.strip_prefix(PREFIX).and_then(|name| nearest(name, names));
            meant.map_or_else(|| shown.to_string(), |meant| format!("{shown} (is {PREFIX}{meant} meant?)"))
        })
        .collect();
    unknown.sort_unstable();
    (!unknown.is_empty()).then(|| unknown.join(", "))
}

/// Kubernetes gives a pod such variables for each Service in its namespace, also for one that is called like us.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_part_of_address =
        ["_PROTO", "_PORT", "_ADDR"].iter().any(|end| name.ends_with(end)) && name.contains("_PORT_");
    is_address || is_part_of_address || name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT")
}

/// The environment variable that a value comes from which cannot be read, if it does not come from a flag.
pub(super) fn variable_of(error: &clap::Error, command: &Command, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = shown.split([' ', '[', '=']).next()?;
    let subcommand = command.find_subcommand(arguments.get(1)?)?;
    let setting = subcommand.get_arguments().find(|setting| setting.get_long() == flag.strip_prefix("--"))?;
    let is_flag = |argument: &OsString| argument.to_string_lossy().split('=').next() == Some(flag);
    if arguments.iter().any(is_flag) {
        return None;
    }
    setting.get_env().map(|variable| variable.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Cli;
    use super::*;

    fn warned(arguments: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
        let arguments = ["comporta", "serve"].iter().chain(arguments);
        let told = Cli::command().try_get_matches_from(arguments).unwrap();
        let command = Cli::command();
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        warnings(command.find_subcommand("serve").unwrap(), told.subcommand().unwrap().1, environment)
    }

    #[test]
    fn settings_that_need_a_redis_are_told_where_there_is_none() {
        assert_eq!(warned(&[], &[]), [""; 0]);
        let given = ["--replicas=3", "--redis-key-prefix=a:", "--failure-mode=local"];
        let told = "without --redis-url these have no effect: --redis-key-prefix, --failure-mode, --replicas";
        assert_eq!(warned(&given, &[]), [told]);
        assert_eq!(warned(&[&given[..], &["--redis-url=redis://127.0.0.1"]].concat(), &[]), [""; 0]);
    }

    #[test]
    fn variables_that_are_no_settings_are_told_and_those_of_kubernetes_are_not() {
        let ours = [("COMPORTA_POLICY", "a"), ("PATH", "b"), ("COMPORTA_REDIS_URL", "c")];
        assert_eq!(warned(&[], &ours), [""; 0]);
        let of_kubernetes = [
            ("COMPORTA_SERVICE_HOST", "10.0.0.1"),
            ("COMPORTA_SERVICE_PORT_GRPC", "8081"),
            ("COMPORTA_PORT", "tcp://10.0.0.1:8081"),
            ("COMPORTA_PORT_8081_TCP", "tcp://10.0.0.1:8081"),
            ("COMPORTA_PORT_8081_TCP_ADDR", "10.0.0.1"),
            ("COMPORTA_PORT_8081_TCP_PROTO", "tcp"),
            ("COMPORTA_PORT_8081_TCP_PORT", "8081"),
        ];
        assert_eq!(warned(&[], &of_kubernetes), [""; 0]);
        let unknown = [("COMPORTA_WHATEVER_THIS_IS", "secret"), ("COMPORTA_REDIS_URI", "secret")];
        let told = "no setting has the name of these variables, so they have no effect: COMPORTA_REDIS_URI (is \
                    COMPORTA_REDIS_URL meant?), COMPORTA_WHATEVER_THIS_IS";
        assert_eq!(warned(&[], &unknown), [told]);
    }
}

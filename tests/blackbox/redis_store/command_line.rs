//! What the command line takes.

use std::fs;

use tempfile::TempDir;

use crate::harness::{Setup, command, free_address, run};

#[test]
fn a_wrong_url_is_told_what_to_write_and_not_repeated() {
    let folder = TempDir::new().unwrap();
    for (url, advice) in [
        ("http://me:hunter2@redis", "give redis://HOST:PORT, rediss://HOST:PORT for TLS, unix:///PATH"),
        ("redis://hunter2@redis", "write USER:PASSWORD@HOST"),
        ("redis://me:hunter2/x@redis", "all special characters of user and password as in %40 for @"),
        ("redis://me:1#hunter2@redis", "write %23"),
    ] {
        let output = run(folder.path(), ["serve", "--redis-url", url]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.starts_with("error: --redis-url: ") && error.contains(advice), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn the_help_shows_no_password_of_the_environment() {
    let output =
        command().args(["serve", "--help"]).env("COMPORTA_REDIS_URL", "redis://:hunter2@redis").output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(help.contains("--redis-url <URL>") && help.contains("COMPORTA_REDIS_URL"), "{help}");
    assert!(!help.contains("hunter2"), "{help}");
}

#[test]
fn a_time_without_a_unit_and_a_prefix_with_a_brace_are_told_what_to_write() {
    let folder = TempDir::new().unwrap();
    for (flag, value, advice) in [
        ("--redis-timeout", "10", "such as 10ms, 0.5s or 2s"),
        ("--redis-connect-timeout", "0ms", "from 1ms to 60s"),
        ("--redis-key-prefix", "{a}:", "without space, { and }"),
    ] {
        let output = run(folder.path(), ["serve", flag, value]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(flag) && error.contains(advice), "{error}");
    }
}

#[test]
fn settings_that_do_not_go_together_are_told() {
    let folder = TempDir::new().unwrap();
    let url = "--redis-url=redis://redis";
    for (flags, advice) in [
        (&["--redis-auth=hunter2"][..], "--redis-auth is of no use without --redis-url"),
        (&["--redis-type=cluster"], "--redis-type is of no use without --redis-url"),
        (&["--redis-url=a:1,b:1"], "it names several servers: give redis-sentinel://"),
        (&["--redis-url=a:1,b:1", "--redis-type=sentinel"], "the Sentinels' name for the primary is missing"),
        (&[url, "--redis-type=cluster"], "its scheme says something else than --redis-type"),
        (&["--redis-url=redis://:hunter2@redis", "--redis-auth=other"], "--redis-auth is another: give one of them"),
        (&[url, "--redis-auth=a", "--redis-auth-file=b"], "cannot be used with"),
        (&[url, "--redis-auth=hunter2:"], "--redis-auth: it is empty"),
        (&[url, "--redis-tls-ca=ca.pem"], "write rediss in place of redis there"),
        (&[url, "--redis-tls"], "--redis-tls is for TLS, and --redis-url is not"),
        (&["--ready-requires-redis"], "--ready-requires-redis is of no use without --redis-url"),
        (&["--redis-tls"], "--redis-tls is of no use without --redis-url"),
        (&["--redis-sentinel-auth-file=a"], "--redis-sentinel-auth-file is of no use without --redis-url"),
        (&["--redis-url=redis:1", "--redis-tls-server-name=a"], "or give --redis-tls if it has no scheme"),
        (&[url, "--redis-tls-cert=crt"], "--redis-tls-key"),
        (&[url, "--redis-sentinel-auth=hunter2"], "of no use without Sentinels"),
        (&[url, "--redis-tls-server-name=a b"], "give a host name or an IP address"),
    ] {
        let output = run(folder.path(), ["serve"].iter().chain(flags).copied());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(error.starts_with("error: ") && error.contains(advice), "{flags:?}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_login_file_that_cannot_be_used_stops_the_start() {
    let folder = TempDir::new().unwrap();
    for (name, text) in [("policy.yaml", "domain: d\n"), ("empty", "\n"), ("lines", "me:hunter2\nme:hunter2\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    // One that takes no place.
    fs::File::create(folder.path().join("large")).unwrap().set_len(1 << 30).unwrap();
    let (policy, addresses) = ("--policy=policy.yaml", [(); 3].map(|()| free_address().to_string()));
    for (file, told) in
        [("nowhere", "No such file"), ("empty", "it is empty: give PASSWORD"), ("lines", "give one line")]
    {
        let file = format!("--redis-auth-file={file}");
        let mut arguments = vec!["serve", policy, "--redis-url=redis://127.0.0.1:1", &file];
        for (flag, address) in ["--grpc-addr", "--http-addr", "--admin-addr"].into_iter().zip(&addresses) {
            arguments.extend([flag, address]);
        }
        let output = run(folder.path(), arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("error: --redis-auth-file: ") && error.contains(told), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_password_in_a_flag_is_warned_of_and_one_in_the_environment_is_not() {
    for (flags, environment, warnings) in [
        (vec!["--redis-url=redis://:hunter2@127.0.0.1:1"], None, 1),
        (vec!["--redis-url=redis://127.0.0.1:1", "--redis-auth=hunter2"], None, 1),
        (vec!["--redis-url=redis://127.0.0.1:1"], Some(("COMPORTA_REDIS_AUTH", "hunter2")), 0),
        (vec![], Some(("COMPORTA_REDIS_URL", "redis://:hunter2@127.0.0.1:1")), 0),
    ] {
        let setup = Setup::new("domain: d\n").flags(flags).environment(environment);
        let comporta = setup.start();
        let log = comporta.log();
        assert_eq!(log.matches("everybody on this machine can read").count(), warnings, "{log}");
        assert!(!log.contains("hunter2"), "{log}");
    }
}

//! What the command line takes.

use tempfile::TempDir;

use crate::harness::{command, run};

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

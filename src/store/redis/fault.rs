//! What an error of Redis means to the one who called.

use redis::ServerError;

use crate::policy::Visible;
use crate::store::StoreError;

/// The server answered, and the answer is that it did nothing, or that it holds something else.
///
/// Our scripts read before they write, and each of the errors for which nothing ran comes before a script begins or at
/// its first write.
pub(super) fn answered(error: &ServerError) -> StoreError {
    let text = in_words(error);
    match code(error) {
        "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "READONLY" => StoreError::Misrouted(text),
        // The script was begun, and may have written before it met a command that the user may not run.
        "NOPERM" if text.contains("script") => StoreError::Malformed(text),
        "ERR" if text.contains("can't run this command") => {
            StoreError::Malformed(format!("{text}; the user lacks a right that scripts need: docs/redis.md lists them"))
        }
        "NOAUTH" | "NOPERM" | "LOADING" | "BUSY" | "OOM" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" => {
            StoreError::Refused(text)
        }
        _ => StoreError::Malformed(text),
    }
}

/// The words of the server.
pub(super) fn in_words(error: &ServerError) -> String {
    match error.details() {
        _ if error.code() == "NOAUTH" => "it wants a password".to_owned(),
        Some(details) => one_line(&format!("{} {details}", error.code())),
        None => one_line(error.code()),
    }
}

/// A text of somebody else, fit for a line of the log.
pub(super) fn one_line(text: &str) -> String {
    const MOST: usize = 300;
    Visible(&text.chars().take(MOST).collect::<String>()).to_string()
}

/// Whether this server will not do what we need, and another under the same name may.
pub(super) fn is_read_only(error: &ServerError) -> bool {
    code(error) == "READONLY"
}

/// The word that says what kind of error it is. Before version 7, Redis wraps an error that a script meets:
/// `ERR Error running script (call to f_…): @user_script:4: @user_script: 4: -READONLY You can't write…`.
pub(super) fn code(error: &ServerError) -> &str {
    let wrapped = error.details().filter(|details| details.starts_with("Error running script"));
    match wrapped.and_then(|details| details.rsplit_once(": -")) {
        Some((_, met)) => met.split(' ').next().unwrap_or_default(),
        None => error.code(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use redis::Value;

    use super::*;

    pub(in super::super) fn server_error(line: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error,
            other => panic!("{line} is read as {other:?}"),
        }
    }

    #[test]
    fn a_server_that_did_nothing_is_told_from_one_that_holds_something_else() {
        let kind = |line: &str| match answered(&server_error(line)) {
            StoreError::Misrouted(_) => "misrouted",
            StoreError::Refused(_) => "refused",
            StoreError::Malformed(_) => "malformed",
            StoreError::Unreachable(_) | StoreError::Lost(_) => "not answered",
        };
        for line in [
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN The cluster is down",
            "READONLY You can't write against a read only replica. script: 6b81, on @user_script:1.",
            "ERR Error running script (call to f_6b81): @user_script:4: @user_script: 4: -READONLY You can't write.",
        ] {
            assert_eq!(kind(line), "misrouted", "{line}");
        }
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "NOAUTH Authentication required.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "NOREPLICAS Not enough good replicas to write.",
        ] {
            assert_eq!(kind(line), "refused", "{line}");
        }
        for line in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR user_script:1: oops",
            "ERR Error running script (call to f_6b81): @user_script:4: oops",
            "X",
            "",
        ] {
            assert_eq!(kind(line), "malformed", "{line}");
        }
    }

    #[test]
    fn an_error_is_told_in_the_words_of_the_server() {
        let error = answered(&server_error("BUSY Redis is busy"));
        assert_eq!(error, StoreError::Refused("BUSY Redis is busy".to_owned()));
    }

    #[test]
    fn what_a_terminal_would_obey_does_not_reach_the_log() {
        let error = server_error("BUSY \u{1b}[31m\u{202e}");
        assert_eq!(in_words(&error), "BUSY \\u{1b}[31m\\u{202e}");
        let malformed = crate::store::scripts::reply(&Value::ServerError(error), 0).unwrap_err().to_string();
        assert!(malformed.contains("\\u{1b}[31m\\u{202e}") && !malformed.contains('\u{1b}'), "{malformed}");
    }
}

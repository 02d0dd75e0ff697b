//! What an error of Redis means to the one who called.

use redis::ServerError;

use crate::store::StoreError;

/// The server answered, and the answer is that it did nothing, or that it holds something else.
///
/// Our scripts read before they write, and each of the errors for which nothing ran comes before a script begins or at
/// its first write.
pub(super) fn answered(error: &ServerError) -> StoreError {
    let text = in_words(error);
    match error.code() {
        "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "READONLY" => StoreError::Misrouted(text),
        "NOAUTH" => StoreError::Refused(format!("{text}; give a password, as in redis://:PASSWORD@HOST")),
        "LOADING" | "BUSY" | "OOM" | "NOPERM" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" => StoreError::Refused(text),
        _ => StoreError::Malformed(text),
    }
}

/// The words of the server.
pub(super) fn in_words(error: &ServerError) -> String {
    match error.details() {
        Some(details) => one_line(&format!("{} {details}", error.code())),
        None => one_line(error.code()),
    }
}

/// A text of somebody else, fit for a line of the log.
pub(super) fn one_line(text: &str) -> String {
    const MOST: usize = 300;
    text.chars().take(MOST).map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Whether this server will not do what we need, and another under the same name may.
pub(super) fn is_read_only(error: &ServerError) -> bool {
    error.code() == "READONLY"
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn server_error(line: &str) -> ServerError {
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
            "READONLY You can't write against a read only replica.",
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
        for line in
            ["WRONGTYPE Operation against a key holding the wrong kind of value", "ERR user_script:1: oops", "X", ""]
        {
            assert_eq!(kind(line), "malformed", "{line}");
        }
    }

    #[test]
    fn an_error_is_told_in_the_words_of_the_server() {
        let error = answered(&server_error("BUSY Redis is busy"));
        assert_eq!(error, StoreError::Refused("BUSY Redis is busy".to_owned()));
    }
}

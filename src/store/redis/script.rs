use std::fmt;

use redis::{Cmd, ToRedisArgs};

/// A script, which has one key, and the name under which Redis keeps it.
pub(super) struct PreparedScript {
    text: &'static str,
    /// SHA-1 of the text, in hexadecimal.
    hash: String,
}

impl PreparedScript {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// The command that makes Redis keep it.
    pub(super) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.text);
        command
    }
}

impl fmt::Debug for PreparedScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedScript").field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// A script that is to run on one key.
#[derive(Debug)]
pub(super) struct Invocation<'a, A> {
    pub(super) script: &'a PreparedScript,
    pub(super) key: &'a str,
    pub(super) arguments: &'a [A],
}

impl<A: ToRedisArgs> Invocation<'_, A> {
    /// The command that runs it if Redis has it.
    pub(super) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.hash)
    }

    /// The command that runs it and makes Redis keep it.
    pub(super) fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.text)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(1).arg(self.key).arg(self.arguments);
        command
    }
}

use std::fmt;

use redis::{Cmd, ToRedisArgs};

use super::heartbeat;
use crate::store::scripts::Script;

/// Our scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptName {
    TokenBucket,
    FixedWindow,
    Heartbeat,
}

impl ScriptName {
    pub(super) const ALL: [Self; 3] = [Self::TokenBucket, Self::FixedWindow, Self::Heartbeat];

    /// Its name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::FixedWindow => "fixed_window",
            Self::Heartbeat => "heartbeat",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::TokenBucket => Script::TokenBucket.text(),
            Self::FixedWindow => Script::FixedWindow.text(),
            Self::Heartbeat => heartbeat::SCRIPT,
        }
    }
}

/// A script, which has one key, and the hash by which Redis knows it.
pub(super) struct PreparedScript {
    pub(super) name: ScriptName,
    text: &'static str,
    /// SHA-1 of the text, in hexadecimal.
    hash: String,
}

impl PreparedScript {
    pub(super) fn new(name: ScriptName) -> Self {
        let text = name.text();
        Self { name, text, hash: redis::Script::new(text).get_hash().to_owned() }
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
        f.debug_struct("PreparedScript").field("name", &self.name).finish_non_exhaustive()
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

use redis::Cmd;

/// A script of `lua/`, and the name under which Redis keeps it.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    /// SHA-1 of the text, in hexadecimal.
    hash: String,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// The command that runs it if Redis has it.
    pub(super) fn by_hash(&self, key: &str, arguments: &[Vec<u8>]) -> Cmd {
        invocation("EVALSHA", &self.hash, key, arguments)
    }

    /// The command that runs it and makes Redis keep it.
    pub(super) fn by_text(&self, key: &str, arguments: &[Vec<u8>]) -> Cmd {
        invocation("EVAL", self.text, key, arguments)
    }

    /// The command that makes Redis keep it.
    pub(super) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.text);
        command
    }
}

fn invocation(name: &str, script: &str, key: &str, arguments: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(1).arg(key).arg(arguments);
    command
}

//! A server that runs the scripts.

use std::path::PathBuf;
use std::process::Command;

use redis::{Connection, RedisResult};
use tempfile::TempDir;

use crate::harness::{Process, project_path, wait_for};

/// The kinds of server that Comporta is made for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Redis,
    Valkey,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Redis, Self::Valkey];

    fn program(self) -> PathBuf {
        match self {
            Self::Redis => "redis-server".into(),
            Self::Valkey => project_path("target/tools/valkey-server"),
        }
    }
}

/// A running server, on a unix socket. Dropped, it is killed and reaped.
#[derive(Debug)]
pub(super) struct Server {
    _process: Process,
    folder: TempDir,
}

impl Server {
    pub(super) fn start(kind: Kind) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(kind.program());
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(folder.path().join("socket"));
        let process = Process::start("the store", &mut command, folder.path().join("log"));
        let server = Self { _process: process, folder };
        wait_for("the store to listen", || server.try_connect().ok());
        server
    }

    pub(super) fn connect(&self) -> Connection {
        self.try_connect().unwrap()
    }

    fn try_connect(&self) -> RedisResult<Connection> {
        redis::Client::open(format!("unix://{}", self.folder.path().join("socket").display()))?.get_connection()
    }
}

//! The two servers that are measured in turn.

use std::env;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use comporta::server::BoxError;
use tempfile::TempDir;

use super::cases::Case;
use super::process::{Process, free_address};
use super::processors::Processors;
use super::redis_server::start_redis;

#[derive(Debug)]
pub(crate) enum Rival {
    /// See [`null_server`](super::null_server).
    NullServer,
    /// This program, a build of the service.
    Service(PathBuf),
}

/// Who is measured, and how they are started.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) baseline: Rival,
    pub(crate) measured: Rival,
    pub(crate) threads: usize,
    pub(crate) processors: Processors,
}

/// A server that runs, and what it needs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) store: Option<Process>,
    _folder: TempDir,
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NullServer => f.write_str("null server"),
            Self::Service(program) => write!(f, "{}", program.display()),
        }
    }
}

impl Servers {
    pub(crate) fn start(&self, rival: &Rival, case: &Case) -> Result<Running, BoxError> {
        self.processors.leave_to_server()?;
        let (folder, address) = (TempDir::new()?, free_address()?);
        let mut store = None;
        let mut command = match rival {
            Rival::NullServer => self.null_server(case, address)?,
            Rival::Service(program) => {
                let policy = folder.path().join("policy.yaml");
                fs::write(&policy, &case.policy)?;
                let mut command = Command::new(program);
                for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("COMPORTA_")) {
                    command.env_remove(name);
                }
                command.arg("serve").arg("--policy").arg(policy).args(["--grpc-addr", &address.to_string()]);
                command.args(["--http-addr", &free_address()?.to_string()]);
                command.args(["--admin-addr", &free_address()?.to_string()]);
                command.args(["--threads", &self.threads.to_string()]);
                if case.has_store {
                    let redis_address = free_address()?;
                    store = Some(start_redis(redis_address, folder.path(), &[])?);
                    command.args(["--redis-url", &format!("redis://{redis_address}")]);
                }
                command
            }
        };
        let process = self.processors.as_server(|| Process::start(&mut command, address))??;
        Ok(Running { process, address, store, _folder: folder })
    }

    fn null_server(&self, case: &Case, address: SocketAddr) -> Result<Command, BoxError> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--null-server", &address.to_string(), "--threads", &self.threads.to_string()]);
        command.args(case.is_refused.then_some("--refuse"));
        Ok(command)
    }
}

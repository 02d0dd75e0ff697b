//! A real Envoy.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::process::Process;
use super::{http, project_path, wait_for, write_file};

/// A running Envoy.
#[derive(Debug)]
pub(crate) struct Envoy {
    process: Process,
    _folder: TempDir,
}

impl Envoy {
    /// Starts one with this configuration, whose `admin` address is given, and waits until it listens.
    pub(crate) fn start(config: &str, admin: SocketAddr) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("envoy.yaml");
        write_file(&path, config);
        let mut command = envoy_command(&path);
        // Several Envoys may run at once, and each needs shared memory of its own.
        command.args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"]);
        // Access logs are written at once, and not every ten seconds.
        command.args(["--file-flush-interval-msec", "10"]);
        let mut process = Process::start("envoy", &mut command, folder.path().join("log"));
        wait_for("envoy to be ready", || {
            let exit = process.has_exited();
            assert!(exit.is_none(), "envoy ended before it was ready: {}", exit.unwrap());
            http::get(admin, "/ready").is_ok_and(|response| response.status == 200).then_some(())
        });
        Self { process, _folder: folder }
    }

    /// All that it has printed so far, its access log included when that goes to stdout.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }
}

/// `envoy -c PATH`: the Envoy of the environment variable `COMPORTA_TEST_ENVOY`, or the one that `scripts/test` installs.
pub(crate) fn envoy_command(config: &Path) -> Command {
    let binary = env::var_os("COMPORTA_TEST_ENVOY").map_or_else(|| project_path("target/tools/envoy"), PathBuf::from);
    assert!(binary.is_file(), "no Envoy at {}: run ./scripts/test, which installs it", binary.display());
    let mut command = Command::new(binary);
    command.arg("--config-path").arg(config);
    command
}

/// Puts a value in the place of each marker of a template. A marker that the template does not have fails the test: it
/// would be a test of something else.
pub(crate) fn fill_in(template: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(template.to_owned(), |text, (marker, value)| {
        assert!(text.contains(marker), "the template has no {marker}");
        text.replace(marker, value)
    })
}

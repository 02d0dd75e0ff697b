//! What the tests share: real processes that never outlive their test, addresses for them, and two small clients.

mod authority;
mod cluster;
mod collector;
mod comporta;
mod envoy;
mod forwarder;
pub(crate) mod grpc;
pub(crate) mod http;
mod process;
mod prometheus;
mod proxy;
mod redis;
mod replicated;
mod sentinel;
mod tls;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use self::redis::{Flavour, Redis, RedisSetup};
pub(crate) use authority::{Authority, Identity};
pub(crate) use cluster::{Cluster, ClusterSetup};
pub(crate) use collector::{Collector, Span};
pub(crate) use comporta::{Addresses, Comporta, Setup, command, run};
pub(crate) use envoy::{Envoy, envoy_command, fill_in};
pub(crate) use forwarder::Forwarder;
pub(crate) use prometheus::Prometheus;
pub(crate) use proxy::{Proxy, Trouble};
pub(crate) use replicated::Replicated;
pub(crate) use sentinel::{SERVICE, SentinelSetup, Sentinels};
pub(crate) use tls::TlsStream;

/// How long a test waits for something that should happen at once, on a machine that may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Asks again and again until `condition` holds, and returns what it gave. Fails the test when it never does.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// An address of this machine that nothing listens on, and that no other call of this process gets.
///
/// All of 127.0.0.0/8 is this machine. Each process has an address of its own there, so that tests that run at the same
/// time, in another checkout perhaps, never meet. The port lies below those that Linux gives to outgoing connections.
pub(crate) fn free_address() -> SocketAddr {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 1 + high % 250, middle, low);
    (0..COUNT)
        .map(|_| SocketAddr::from((own, FIRST + TAKEN.fetch_add(1, Ordering::Relaxed) % COUNT)))
        .find(|address| TcpListener::bind(address).is_ok())
        .expect("a free port")
}

/// A file of the repository.
pub(crate) fn project_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// A program, or a folder, that `scripts/test` has put into `target/tools`.
pub(crate) fn tool(name: &str) -> PathBuf {
    let path = project_path("target/tools").join(name);
    assert!(path.exists(), "no {name} at {}: run ./scripts/test, which installs it", path.display());
    path
}

/// Runs a command to its end. It must succeed; what it printed is returned.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(output.status.success(), "{command:?}:\n{printed}");
    printed
}

/// Writes a file and the folders above it.
pub(crate) fn write_file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

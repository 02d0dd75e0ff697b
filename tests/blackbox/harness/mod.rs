//! What the tests share: real processes that never outlive their test, addresses for them, and two small clients.

mod comporta;
mod envoy;
pub(crate) mod grpc;
pub(crate) mod http;
mod process;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use comporta::{Addresses, Comporta, Setup, command, run};
pub(crate) use envoy::{Envoy, envoy_command, fill_in};

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

/// An address that nothing listens on, and that no other call of this process gets. It lies below the ports that Linux
/// gives to outgoing connections, so none of those takes it before the server does.
pub(crate) fn free_address() -> SocketAddr {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(67);
    (0..COUNT)
        .map(|_| start.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % COUNT + FIRST)
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap())))
        .find(|address| TcpListener::bind(address).is_ok())
        .expect("a free port")
}

/// A file of the repository.
pub(crate) fn project_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Writes a file and the folders above it.
pub(crate) fn write_file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

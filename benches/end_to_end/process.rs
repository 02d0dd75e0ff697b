//! A program that runs while it is measured, and what Linux counts of it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use comporta::server::BoxError;

/// How often a program is looked at until it listens, and how long between.
const LOOKS: u32 = 500;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A running program. Dropped, it is killed and reaped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts a program, and waits until somebody can connect to it.
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> Result<Self, BoxError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = Self(child.map_err(|error| format!("{name} does not start: {error}"))?);
        for _ in 0..LOOKS {
            if let Some(status) = process.0.try_wait()? {
                return Err(format!("{name} ended before it listened: {status}").into());
            }
            if TcpStream::connect(address).is_ok() {
                return Ok(process);
            }
            sleep(BETWEEN_LOOKS);
        }
        Err(format!("{name} does not listen on {address}").into())
    }

    /// The most memory that it has had resident, in MB of a million bytes.
    pub(crate) fn peak_memory(&self) -> Result<f64, BoxError> {
        let kilobytes = procfs::process::Process::new(self.id()?)?
            .status()?
            .vmhwm
            .ok_or("the kernel does not tell the peak of resident memory")?;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        Ok(kilobytes as f64 * 1024.0 / 1e6)
    }

    pub(crate) fn id(&self) -> Result<i32, BoxError> {
        Ok(i32::try_from(self.0.id())?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when it has ended and been reaped, which is as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address on this machine on which nobody listens.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

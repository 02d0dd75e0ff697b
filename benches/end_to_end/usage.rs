//! Who has kept the processors busy, and for how long.

use comporta::server::BoxError;
use procfs::process::Process;

use super::busy_times::{BusyTimes, machine_seconds};
use super::rival::Running;

/// What Linux has counted up to a moment.
#[derive(Debug)]
pub(crate) struct Usage {
    server: BusyTimes,
    store: Option<BusyTimes>,
    load: BusyTimes,
    /// Seconds of all processors, for whomever.
    machine: f64,
}

/// Seconds of processors between two moments.
#[derive(Debug)]
pub(crate) struct Spent {
    pub(crate) server: f64,
    pub(crate) store: Option<f64>,
    /// Whoever has nothing to do with the measurement.
    pub(crate) others: f64,
}

impl Usage {
    pub(crate) fn until_now(running: &Running) -> Result<Self, BoxError> {
        Ok(Self {
            server: BusyTimes::of(running.process.id()?)?,
            store: running.store.as_ref().map(|store| BusyTimes::of(store.id()?)).transpose()?,
            load: BusyTimes::of_myself()?,
            machine: machine_seconds()?,
        })
    }

    pub(crate) fn since(&self, earlier: &Self) -> Spent {
        let server = self.server.seconds_since(&earlier.server);
        let store = self.store.as_ref().zip(earlier.store.as_ref()).map(|(now, earlier)| now.seconds_since(earlier));
        let load = self.load.seconds_since(&earlier.load);
        let others = (self.machine - earlier.machine - server - store.unwrap_or(0.0) - load).max(0.0);
        Spent { server, store, others }
    }
}

/// The most memory that a process has had resident, in MB of a million bytes.
pub(crate) fn peak_memory(process: i32) -> Result<f64, BoxError> {
    let kilobytes =
        Process::new(process)?.status()?.vmhwm.ok_or("the kernel does not tell the peak of resident memory")?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    Ok(kilobytes as f64 * 1024.0 / 1e6)
}

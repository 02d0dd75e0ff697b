//! Who has kept the processors busy, and for how long.

use std::collections::HashMap;
use std::time::Duration;

use comporta::server::BoxError;
use procfs::{CurrentSI, KernelStats, process};

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
            load: BusyTimes::of(process::Process::myself()?.pid)?,
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

/// Time that each thread of a process has run, in nanoseconds, by the thread's number.
#[derive(Debug)]
struct BusyTimes(HashMap<i32, u64>);

impl BusyTimes {
    fn of(process: i32) -> Result<Self, BoxError> {
        let mut times = HashMap::new();
        for task in process::Process::new(process)?.tasks()? {
            let task = task?;
            // A thread may have ended meanwhile.
            if let Ok(statistics) = task.schedstat() {
                times.insert(task.tid, statistics.sum_exec_runtime);
            }
        }
        Ok(Self(times))
    }

    /// What a thread did that has ended meanwhile is missing.
    fn seconds_since(&self, earlier: &Self) -> f64 {
        let more = self.0.iter().map(|(thread, time)| time - earlier.0.get(thread).unwrap_or(&0));
        Duration::from_nanos(more.sum()).as_secs_f64()
    }
}

fn machine_seconds() -> Result<f64, BoxError> {
    let total = KernelStats::current()?.total;
    let ticks = total.user + total.nice + total.system + total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    Ok(ticks as f64 / procfs::ticks_per_second() as f64)
}

//! Who runs on which processors.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// The server's processors and those of everybody else. Where there are more processors than the server has threads it gets
/// as many for itself, so that the load does not push it around; else all run everywhere.
#[derive(Debug)]
pub(crate) struct Processors {
    server: CpuSet,
    others: CpuSet,
}

impl Processors {
    pub(crate) fn of(threads: usize, all: usize) -> Self {
        let set = |range: std::ops::Range<usize>| {
            let mut set = CpuSet::new();
            range.for_each(|processor| set.set(processor));
            set
        };
        if threads < all {
            Self { server: set(0..threads), others: set(threads..all) }
        } else {
            Self { server: set(0..all), others: set(0..all) }
        }
    }

    /// Starts something on the server's processors: a process begins on those of the thread that starts it.
    pub(crate) fn as_server<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        sched_setaffinity(None, &self.server)?;
        let started = start();
        self.leave_to_server()?;
        Ok(started)
    }

    /// Moves this thread, and what it starts from now on, off the server's processors.
    pub(crate) fn leave_to_server(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.others)?)
    }
}

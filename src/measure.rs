//! What is counted and timed where it happens, with an atomic addition; [`telemetry`](crate::telemetry) shows it.

mod histogram;

use std::sync::atomic::{AtomicU64, Ordering};

pub use histogram::{Snapshot, TimeHistogram};

/// A number that only goes up.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

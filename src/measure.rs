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

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Level(AtomicU64);

impl Level {
    /// Adds so much, and returns what it is then.
    pub fn raise(&self, more: u64) -> u64 {
        self.0.fetch_add(more, Ordering::Relaxed) + more
    }

    /// Takes off so much of what was added.
    pub fn lower(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

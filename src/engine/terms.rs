use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::lease::{LeaseSettings, Pace};
use crate::limit::{Limit, Micros};

/// What all buckets that are borrowed from have in common.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) lease: LeaseSettings,
    /// The longest that a request waits for the store.
    pub(super) timeout: Micros,
    /// Of its part of a limit, so much passes a replica that cannot ask the store.
    local_percent: u8,
    replicas: AtomicU32,
    calls: AtomicU64,
    random: AtomicU64,
    is_ending: AtomicBool,
}

impl Terms {
    pub(super) const fn new(lease: LeaseSettings, timeout: Micros, local_percent: u8, seed: u64) -> Self {
        Self {
            lease,
            timeout,
            local_percent,
            replicas: AtomicU32::new(1),
            calls: AtomicU64::new(0),
            random: AtomicU64::new(seed),
            is_ending: AtomicBool::new(false),
        }
    }

    /// This replica's part of a limit, while it cannot ask the store.
    pub(super) fn local_part(&self, limit: &Limit) -> Limit {
        limit.share(self.replicas(), self.local_percent)
    }

    pub(super) fn replicas(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed)
    }

    pub(super) fn set_replicas(&self, replicas: u32) {
        self.replicas.store(replicas.max(1), Ordering::Relaxed);
    }

    /// Whether nothing is borrowed ahead any more, because the process is about to end.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// A name for a call.
    pub(super) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { replicas: self.replicas(), random: self.random() }
    }

    /// From 0 to 1.
    pub(super) fn random(&self) -> f64 {
        // SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
        let mut z = self.random.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        {
            (z >> 11) as f64 / (1_u64 << 53) as f64
        }
    }
}

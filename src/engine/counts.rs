use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only goes up.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(super) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the engine has decided since the process began.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests that passed.
    pub ok: Count,
    /// Requests that were refused.
    pub over_limit: Count,
    /// Requests for a domain that no policy file names; they pass.
    pub unknown_domain: Count,
}

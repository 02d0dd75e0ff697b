use std::sync::atomic::{AtomicU64, Ordering};

use crate::policy::FailureMode;
use crate::store::{Operation, Reply, StoreError};

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
    /// Limits that were decided without the store, by failure mode.
    fallback: [Count; FailureMode::ALL.len()],
    /// Calls that the store has answered.
    pub store_calls: Count,
    /// Calls that have failed.
    pub store_errors: Count,
    /// Calls that have failed and should have given hits back: these stay spent.
    pub lost_refunds: Count,
}

impl Counts {
    /// Limits that this failure mode has decided.
    #[must_use]
    pub const fn by_failure_mode(&self, mode: FailureMode) -> &Count {
        &self.fallback[mode as usize]
    }

    pub(super) fn count_call(&self, operation: &Operation, answer: &Result<Reply, StoreError>) {
        match (answer, operation) {
            (Ok(_), _) => self.store_calls.increment(),
            (Err(_), Operation::Refund { .. }) => {
                self.store_errors.increment();
                self.lost_refunds.increment();
            }
            (Err(_), _) => self.store_errors.increment(),
        }
    }
}

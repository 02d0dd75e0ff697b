use super::lease::LeaseTotals;
use crate::measure::Count;
use crate::policy::FailureMode;
use crate::store::{Operation, Reply, StoreError};

/// What the engine has decided since the process began.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests that passed.
    pub ok: Count,
    /// Requests that were refused.
    pub over_limit: Count,
    /// Requests that could not be decided, because Redis was away and a limit leaves it to Envoy then.
    pub unavailable: Count,
    /// Requests that Envoy does not send.
    pub invalid: Count,
    /// Requests for a domain that no policy file names; they pass.
    pub unknown_domain: Count,
    /// Limits that were decided without the store, by failure mode.
    fallback: [Count; FailureMode::ALL.len()],
    /// Calls to the store that have failed, sent or not, by [`StoreError::kind`].
    pub store_errors: [Count; StoreError::KINDS.len()],
    /// What became of borrowed hits.
    pub leased: Leased,
    /// Calls that have failed and should have given hits back: these stay spent.
    pub lost_refunds: Count,
}

/// Hits that were borrowed, by what became of them.
#[derive(Debug, Default)]
pub struct Leased {
    pub granted: Count,
    pub spent: Count,
    pub returned: Count,
    /// Neither spent nor returned when the lease ended.
    pub expired: Count,
}

impl Counts {
    /// Limits that this failure mode has decided.
    #[must_use]
    pub const fn by_failure_mode(&self, mode: FailureMode) -> &Count {
        &self.fallback[mode as usize]
    }

    pub(super) fn count_call(&self, operation: &Operation, answer: &Result<Reply, StoreError>) {
        if let Err(error) = answer {
            self.store_errors[error.kind_index()].increment();
        }
        match (answer, operation) {
            (Err(_), Operation::Refund { .. }) => self.lost_refunds.increment(),
            (Ok(_), Operation::Acquire { facts, .. }) => self.leased.returned.add(facts.returned()),
            // They are not told again.
            (Err(error), Operation::Acquire { facts, .. }) if !error.nothing_ran() => {
                self.leased.expired.add(facts.returned());
            }
            (_, Operation::Acquire { .. } | Operation::Refund { .. } | Operation::Debit { .. }) => {}
        }
    }

    pub(super) fn count_leased(&self, totals: LeaseTotals) {
        let LeaseTotals { granted, spent, expired } = totals;
        self.leased.granted.add(granted);
        self.leased.spent.add(spent);
        self.leased.expired.add(expired);
    }
}

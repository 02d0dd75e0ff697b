//! What came of a change of the primary.

use std::time::Duration;

use super::figures::Figures;
use super::history::History;
use super::limit::Limit;

/// So many lines may tell of a change: of the loss, of what hinders the calls, the connection and the count of replicas,
/// of the breaker, and when it has ended.
const A_HANDFUL: usize = 8;

/// What came of a change.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) limit: Limit,
    pub(super) history: History,
    pub(super) before: Part,
    /// Nothing is left of what was lent before.
    pub(super) after: Part,
    pub(super) all: Part,
    /// Decisions by failure mode between those two parts.
    pub(super) fallback_meanwhile: u64,
    /// Since the new primary could be written to.
    pub(super) time_to_use: Duration,
    /// How long two servers may have been used at once, in µs.
    pub(super) time_of_two: u64,
    /// How long the last part took, in µs.
    pub(super) time_after: u64,
    /// What each replica has logged of it.
    pub(super) logs: Vec<String>,
}

/// A part of what was asked.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) figures: Figures,
    /// Decisions by failure mode.
    pub(super) fallback: u64,
}

impl Changed {
    /// Every request was answered, the limit held before and after, and the new primary was used in time and as well as
    /// the old one.
    pub(super) fn assert_survived(&self, time_to_use: Duration) {
        let Self { limit, before, after, all, logs, .. } = self;
        assert_eq!(all.figures.failed, 0, "requests without an answer: {}", all.figures);
        assert!(self.time_to_use <= time_to_use, "the new primary was used after {:?}", self.time_to_use);
        for log in logs {
            assert!(log.lines().count() <= A_HANDFUL, "it is told again and again: {log}");
        }
        before.assert_exact(limit);
        after.assert_exact(limit);
        after.assert_decided_by_store();
        let (admitted, at_full_rate) = (after.figures.hits_admitted, limit.amount * self.time_after / limit.period());
        // However slow a machine is, what admits next to nothing has no store.
        let least = if after.figures.is_slow() { 25 } else { 90 };
        let is_used = admitted * 100 >= at_full_rate * least;
        assert!(is_used, "less than {least} % of {at_full_rate} hits after the change: {}", after.figures);
    }

    /// It was as if nothing had happened.
    pub(super) fn assert_unnoticed(&self) {
        self.assert_survived(Duration::MAX);
        self.all.assert_exact(&self.limit);
        self.all.assert_decided_by_store();
    }

    /// The old primary granted nothing any more: not more than a burst was added, of which the new one had not heard.
    pub(super) fn assert_one_burst_more_at_most(&self) {
        self.assert_more_at_most(self.limit.burst);
    }

    /// Both primaries kept the limit, each for itself: besides the burst, what the rate yielded while both were used.
    pub(super) fn assert_two_primaries_at_most(&self) {
        self.assert_more_at_most(self.limit.burst + self.limit.amount * self.time_of_two / self.limit.period() + 1);
    }

    fn assert_more_at_most(&self, hits: u64) {
        let (_, worst) = self.history.worst(&self.limit.burst(self.limit.burst + hits)).unwrap();
        assert!(!worst.is_excess(), "more than {hits} hits were added: {}", self.all.figures);
    }
}

impl Part {
    fn assert_exact(&self, limit: &Limit) {
        // A limit that admits hits without its store is exact only with it.
        if self.fallback == 0 || !limit.admits_alone() {
            self.figures.assert_exact();
        }
    }

    /// Failure modes decided no more than what a busy machine may have been late for.
    fn assert_decided_by_store(&self) {
        let Self { figures, fallback } = self;
        if figures.is_slow() {
            eprintln!("this machine is too slow to judge who decides: {figures}");
            return;
        }
        assert!(fallback * 20 <= figures.requests as u64, "{fallback} decisions without the store: {figures}");
    }
}

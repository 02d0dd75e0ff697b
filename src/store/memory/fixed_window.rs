use super::{Outcome, extra_hits};
use crate::limit::{Limit, Micros};
use crate::store::{Facts, Operation, Reply, scarce_hits};

/// So much longer than its window the store keeps a bucket, or a period if that is shorter: a clock that goes back a
/// little still finds it.
const GRACE: Micros = Micros::from_seconds(60);

/// What all replicas together have used of a fixed window, leases included.
///
/// Leases end with the window, so nothing needs to be known of them but what is returned. The window never goes back:
/// if the clock does, the window stays until that time comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFixedWindow {
    /// Hits taken in this window, leases included.
    pub used: u64,
    /// Whole periods from the Unix epoch to the window.
    pub window: u64,
}

impl SharedFixedWindow {
    /// A window that nobody has touched. It ends as soon as it is settled.
    pub const UNUSED: Self = Self { used: 0, window: 0 };

    /// The fields of the hash in Redis, by name.
    #[must_use]
    pub const fn fields(&self) -> [(&'static str, u64); 2] {
        [("used", self.used), ("window", self.window)]
    }

    /// Begins a new window if the time is past the end of this one.
    pub(super) fn settle(&mut self, limit: &Limit, now: Micros) {
        let window = now.0 / limit.period().0;
        if window > self.window {
            *self = Self { used: 0, window };
        }
    }

    /// Does what is asked. The window must be settled.
    pub(super) fn apply(&mut self, limit: &Limit, operation: &Operation, now: Micros) -> Outcome {
        match *operation {
            Operation::Acquire { needed, want, ref facts } => {
                let learned = self.learn(facts);
                let free = self.free(limit);
                if needed > free {
                    let retry_after = self.time_left(limit, now).min(Limit::LONGEST_PERIOD);
                    return Outcome { granted: false, extra: 0, retry_after, moved: learned };
                }
                let extra = extra_hits(free - needed, scarce_hits(limit), want);
                self.used += needed + extra;
                Outcome { granted: true, extra, retry_after: Micros(0), moved: learned || needed + extra > 0 }
            }
            Operation::Refund { hits } => {
                let given = self.give_back(hits);
                Outcome { granted: true, extra: given, retry_after: Micros(0), moved: given > 0 }
            }
            Operation::Debit { hits } => {
                let granted = hits <= self.free(limit);
                let moved = self.overdraw(limit, hits);
                Outcome { granted, extra: 0, retry_after: Micros(0), moved }
            }
        }
    }

    pub(super) fn reply(&self, limit: &Limit, outcome: Outcome, now: Micros) -> Reply {
        Reply {
            granted: outcome.granted,
            extra: outcome.extra,
            epoch: self.window,
            lease_time: self.time_left(limit, now),
            retry_after: outcome.retry_after,
            used: self.used,
            mark: 0,
        }
    }

    fn time_left(&self, limit: &Limit, now: Micros) -> Micros {
        Micros((self.window + 1).saturating_mul(limit.period().0)) - now
    }

    fn free(&self, limit: &Limit) -> u64 {
        u64::from(limit.amount()).saturating_sub(self.used)
    }

    /// Takes in what became of hits that were granted in this window: those that nobody will spend come back. Returns
    /// whether any do.
    fn learn(&mut self, facts: &Facts) -> bool {
        let returned = facts.leased.iter().map(|fact| (fact.epoch, fact.returned));
        let unused = facts.unused.iter().map(|fact| (fact.epoch, fact.hits));
        let mut given = 0;
        for (window, hits) in returned.chain(unused) {
            if window == self.window {
                given += self.give_back(hits);
            }
        }
        given > 0
    }

    /// Puts hits back, as far as any are used. Returns how many.
    fn give_back(&mut self, hits: u64) -> u64 {
        let given = hits.min(self.used);
        self.used -= given;
        given
    }

    /// Takes hits even if they are not free; the balance goes below zero by one amount at most. Returns whether any
    /// were taken.
    fn overdraw(&mut self, limit: &Limit, hits: u64) -> bool {
        let most = 2 * u64::from(limit.amount());
        let used = self.used.saturating_add(hits).min(most);
        let takes = used > self.used;
        self.used = self.used.max(used);
        takes
    }

    /// How long the store keeps the window, in milliseconds, rounded up.
    pub(super) fn lifetime_millis(&self, limit: &Limit, now: Micros) -> u64 {
        (self.time_left(limit, now) + limit.period().min(GRACE)).0.div_ceil(1000)
    }
}

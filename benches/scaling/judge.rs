//! Whether a limit holds: over all replicas, in every interval, exactly.

use std::collections::VecDeque;

use comporta::limit::{Algorithm, Limit};

/// Hits that were admitted at some instant between a request's arrival and its answer, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) hits: u64,
}

/// Watches the admissions of one bucket, which come in the order of their answers.
///
/// Of a token bucket no interval may admit more than its burst and what flows back. It keeps the value of the interval that
/// begins best: what it has admitted, and what had flowed before it began. All intervals that began longer ago than
/// any request waits grow by the same, so of them the best one stands for all.
#[derive(Debug)]
pub(crate) struct Judge {
    limit: Limit,
    /// The longest from arrival to answer.
    longest_wait: u64,
    best_of_old: Option<i128>,
    /// By arrival.
    recent: VecDeque<Admission>,
    /// Of a fixed window: which, and what it has admitted.
    window: (u64, u64),
    /// The most by which the limit was exceeded, in hits times the period; not above 0 if it holds.
    worst: i128,
}

impl Judge {
    pub(crate) const fn new(limit: Limit, longest_wait: u64) -> Self {
        let recent = VecDeque::new();
        Self { limit, longest_wait, best_of_old: None, recent, window: (0, 0), worst: i128::MIN }
    }

    /// Whether no interval, or no window, has admitted more than the limit allows.
    pub(crate) const fn is_content(&self) -> bool {
        self.worst <= 0
    }

    pub(crate) fn admit(&mut self, admission: Admission) {
        let excess = match self.limit.algorithm() {
            Algorithm::TokenBucket => self.excess_of_intervals(admission),
            Algorithm::FixedWindow => self.excess_of_window(admission),
        };
        self.worst = self.worst.max(excess);
    }

    /// The most that an interval exceeds that ends with this answer.
    fn excess_of_intervals(&mut self, admission: Admission) -> i128 {
        let (amount, period) = (i128::from(self.limit.amount()), i128::from(self.limit.period().0));
        let value_of = |hits: u64, begin: u64| i128::from(hits) * period + amount * i128::from(begin);
        while let Some(oldest) = self.recent.front().copied()
            && oldest.from + self.longest_wait < admission.to
        {
            let since = self.recent.iter().map(|recent| recent.hits).sum();
            let value = value_of(since, oldest.from);
            self.best_of_old = Some(self.best_of_old.map_or(value, |best| best.max(value)));
            self.recent.pop_front();
        }
        let place = self.recent.partition_point(|recent| recent.from <= admission.from);
        self.recent.insert(place, admission);
        self.best_of_old = self.best_of_old.map(|best| best + i128::from(admission.hits) * period);
        let (mut best, mut since) = (self.best_of_old, 0);
        for recent in self.recent.iter().rev() {
            since += recent.hits;
            best = best.max(Some(value_of(since, recent.from)));
        }
        let allowed = value_of(self.limit.capacity().into(), admission.to);
        best.unwrap_or(i128::MIN / 2) - allowed
    }

    /// A request that waits from one window to the next may count in either.
    fn excess_of_window(&mut self, admission: Admission) -> i128 {
        let period = self.limit.period().0;
        let window = admission.to / period;
        if window == admission.from / period {
            let before = if self.window.0 == window { self.window.1 } else { 0 };
            self.window = (window, before + admission.hits);
        }
        i128::from(self.window.1) - i128::from(self.limit.capacity())
    }
}

//! A limit, as the policy writes it and as the checker needs it.

use super::checker::Allowance;

/// It admits nothing without its store, so that nothing but the store can have admitted a hit.
const ALONE_NOTHING: &str = "closed";

/// Without its store, each replica admits its part of it.
const ALONE_ITS_PART: &str = "local";

/// Without its store, it admits everything.
const ALONE_EVERYTHING: &str = "open";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) amount: u64,
    seconds: u64,
    pub(super) burst: u64,
    pub(super) is_window: bool,
    failure_mode: &'static str,
}

impl Limit {
    /// A token bucket: so many hits in so many seconds. Its burst is the amount, until another is given.
    pub(super) const fn tokens(amount: u64, seconds: u64) -> Self {
        Self { amount, seconds, burst: amount, is_window: false, failure_mode: ALONE_NOTHING }
    }

    /// A fixed window: so many hits in so many seconds.
    pub(super) const fn window(amount: u64, seconds: u64) -> Self {
        Self { amount, seconds, burst: amount, is_window: true, failure_mode: ALONE_NOTHING }
    }

    pub(super) const fn burst(mut self, burst: u64) -> Self {
        self.burst = burst;
        self
    }

    /// Without its store, each replica admits its part of it.
    pub(super) const fn or_local(mut self) -> Self {
        self.failure_mode = ALONE_ITS_PART;
        self
    }

    /// Without its store, it admits everything.
    pub(super) const fn or_open(mut self) -> Self {
        self.failure_mode = ALONE_EVERYTHING;
        self
    }

    /// Who asks while its store is away gets no answer, so that a history tells which keys were without it.
    pub(super) const fn or_unavailable(mut self) -> Self {
        self.failure_mode = "unavailable";
        self
    }

    /// Whether it admits anything without its store.
    pub(super) fn admits_alone(&self) -> bool {
        self.failure_mode == ALONE_ITS_PART || self.failure_mode == ALONE_EVERYTHING
    }

    /// Its unit in µs.
    pub(super) const fn period(&self) -> u64 {
        self.seconds * 1_000_000
    }

    /// What may be admitted in an interval: of time in µs, or of windows.
    pub(super) const fn allowance(&self) -> Allowance {
        let period = if self.is_window { 1 } else { self.period() };
        Allowance { burst: self.burst, amount: self.amount, period }
    }

    fn yaml(&self) -> String {
        let Self { amount, seconds, burst, is_window, failure_mode } = self;
        let kind = if *is_window { "algorithm: fixed_window".to_owned() } else { format!("burst: {burst}") };
        let time = format!("unit: second, unit_multiplier: {seconds}");
        format!("{{requests_per_unit: {amount}, {time}, {kind}, failure_mode: {failure_mode}}}")
    }
}

/// A policy in which every value of `key` has a bucket of its own for each of these limits.
pub(super) fn policy(limits: &[Limit]) -> String {
    policy_of([("key", limits)])
}

/// The same for several keys, each with limits of its own.
pub(super) fn policy_of<'a>(rules: impl IntoIterator<Item = (&'a str, &'a [Limit])>) -> String {
    let rule = |(key, limits): (&str, &[Limit])| {
        let limits: Vec<_> = limits.iter().map(Limit::yaml).collect();
        format!("{{key: {key}, rate_limit: [{}]}}", limits.join(", "))
    };
    let rules: Vec<_> = rules.into_iter().map(rule).collect();
    format!("{{domain: d, descriptors: [{}]}}", rules.join(", "))
}

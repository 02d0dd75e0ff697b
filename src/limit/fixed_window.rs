use super::{Limit, Micros};

/// What one key has used of a fixed-window limit.
///
/// Time is cut into windows of one period, aligned to the Unix epoch in UTC (so a week begins on a Thursday). Each
/// window admits `amount` hits; at its end all of them come back at once. Around an edge a client may therefore send
/// twice the amount in a short time, which a [token bucket](super::TokenBucket) does not allow.
///
/// The window never goes back: if the clock does, the window stays until that time comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    /// Hits taken in this window, at most twice the amount (an overdraft).
    used: u64,
    /// When the window ends, in UTC.
    ends: Micros,
}

impl FixedWindow {
    /// A window from which nothing has been taken, and which ends as soon as it is settled.
    pub const UNUSED: Self = Self { used: 0, ends: Micros(0) };

    /// A window of which so many hits are used.
    #[must_use]
    pub const fn with_used(used: u64, ends: Micros) -> Self {
        Self { used, ends }
    }

    /// Begins a new window if `utc` is past the end of this one.
    pub fn settle(&mut self, limit: &Limit, utc: Micros) {
        if utc >= self.ends {
            let period = limit.period().0;
            *self = Self { used: 0, ends: Micros((utc.0 / period).saturating_add(1).saturating_mul(period)) };
        }
    }

    #[must_use]
    pub const fn is_unused(&self) -> bool {
        self.used == 0
    }

    /// Hits taken in this window: more than the amount if it is overdrawn.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Hits that can be taken in this window, 0 to the amount.
    #[must_use]
    pub fn free(&self, limit: &Limit) -> u64 {
        u64::from(limit.amount()).saturating_sub(self.used)
    }

    /// Takes `hits`, which must be free.
    pub fn take(&mut self, limit: &Limit, hits: u64) {
        debug_assert!(hits <= self.free(limit), "{hits} hits are not free");
        self.used += hits;
    }

    /// Takes `hits` even if they are not free; the balance goes below zero by one amount at most.
    pub fn overdraw(&mut self, limit: &Limit, hits: u64) {
        let most = 2 * u64::from(limit.amount());
        self.used = self.used.max(self.used.saturating_add(hits).min(most));
    }

    /// Takes `hits`, whether or not they are free.
    pub const fn charge(&mut self, hits: u64) {
        self.used = self.used.saturating_add(hits);
    }

    /// Puts `hits` back, as far as they have been taken in this window.
    pub fn give_back(&mut self, hits: u64) {
        self.used = self.used.saturating_sub(hits);
    }

    /// The end of the window, in UTC.
    #[must_use]
    pub const fn ends(&self) -> Micros {
        self.ends
    }
}

use std::ops::{Add, Sub};

/// A point in time or a length of it, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    #[must_use]
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// Whole seconds, rounded up: a client that waits so long has waited long enough.
    #[must_use]
    pub const fn seconds_rounded_up(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

impl From<std::time::Duration> for Micros {
    fn from(time: std::time::Duration) -> Self {
        Self(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Add for Micros {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// The time from `other` to `self`; none if `other` is later.
impl Sub for Micros {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// One reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since an arbitrary start; never goes back. Token buckets refill by it.
    pub monotonic: Micros,
    /// Since the Unix epoch; may go back when somebody sets the clock. Fixed windows are aligned to it.
    pub utc: Micros,
}

//! The only place that reads a clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::limit::{Micros, Now};

/// Tells the time, monotonic and in UTC, with one reading of the machine's clock.
///
/// UTC is the monotonic time plus an offset, which [`follow_utc`](Self::follow_utc) renews; so a clock that somebody
/// sets moves fixed windows within a second, and token buckets never.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    /// UTC at `started`, in microseconds since the Unix epoch.
    utc_at_start: AtomicU64,
}

#[expect(clippy::disallowed_methods, reason = "this is the one clock")]
impl Clock {
    #[must_use]
    pub fn start() -> Self {
        let clock = Self { started: Instant::now(), utc_at_start: AtomicU64::new(0) };
        clock.follow_utc();
        clock
    }

    #[must_use]
    pub fn now(&self) -> Now {
        self.read().now
    }

    /// The time, and a stopwatch that starts with it.
    #[must_use]
    pub fn read(&self) -> Reading {
        let at = Instant::now();
        let elapsed = at.duration_since(self.started);
        let monotonic = Micros(elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros()));
        Reading { at, now: Now { monotonic, utc: monotonic + Micros(self.utc_at_start.load(Ordering::Relaxed)) } }
    }

    /// Takes over a system time that has been set, or has drifted from the monotonic one.
    pub fn follow_utc(&self) {
        // A system time before 1970 is a clock that was never set; it counts as 1970.
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let utc = Micros(u64::try_from(utc.as_micros()).unwrap_or(u64::MAX));
        self.utc_at_start.store((utc - self.now().monotonic).0, Ordering::Relaxed);
    }
}

/// The time at one moment, and how long ago that was.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    pub now: Now,
}

impl Reading {
    /// The time since the reading; reads the clock once more.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "compared with the system's clock")]
    fn utc_is_the_system_time_and_monotonic_time_goes_on() {
        let clock = Clock::start();
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let first = clock.now();
        let apart = u128::from(first.utc.0).abs_diff(before);
        assert!(apart < 1_000_000, "{apart} µs from the system's time");
        assert!(clock.now().monotonic >= first.monotonic);
    }
}

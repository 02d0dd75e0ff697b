use std::sync::atomic::{AtomicU64, Ordering};

use crate::limit::{Micros, Now};

/// Lets through one event in a while, so that what happens often is told and does not flood the log. Without a lock:
/// refusals of all cores may come here.
#[derive(Debug)]
pub(crate) struct Throttle {
    pause: Micros,
    /// When the next event may be told.
    next: AtomicU64,
    passed_over: AtomicU64,
}

impl Throttle {
    /// At most one event in `pause`.
    #[must_use]
    pub(crate) const fn new(pause: Micros) -> Self {
        Self { pause, next: AtomicU64::new(0), passed_over: AtomicU64::new(0) }
    }

    /// Whether to tell of an event that happens now; if so, how many have been passed over since the last one.
    pub(crate) fn admit(&self, now: Now) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        let later = (now.monotonic + self.pause).0;
        let is_due = now.monotonic.0 >= next
            && self.next.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due {
            Some(self.passed_over.swap(0, Ordering::Relaxed))
        } else {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_once_in_a_while_with_its_size() {
        let throttle = Throttle::new(Micros::from_seconds(60));
        let at = |seconds| Now { monotonic: Micros::from_seconds(seconds), utc: Micros(0) };
        assert_eq!(throttle.admit(at(0)), Some(0));
        for second in 0..60 {
            assert_eq!(throttle.admit(at(second)), None);
        }
        assert_eq!(throttle.admit(at(60)), Some(60));
    }
}

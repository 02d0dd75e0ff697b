use parking_lot::Mutex;

use crate::limit::{Micros, Now};

/// Lets through one event in a while, so that what happens often is told and does not flood the log.
#[derive(Debug)]
pub(crate) struct Throttle {
    pause: Micros,
    state: Mutex<ThrottleState>,
}

#[derive(Debug, Default)]
struct ThrottleState {
    /// When the next event may be told.
    next: Micros,
    passed_over: u64,
}

impl Throttle {
    /// At most one event in `pause`.
    #[must_use]
    pub(crate) fn new(pause: Micros) -> Self {
        Self { pause, state: Mutex::default() }
    }

    /// Whether to tell of an event that happens now; if so, how many have been passed over since the last one.
    pub(crate) fn admit(&self, now: Now) -> Option<u64> {
        let mut state = self.state.lock();
        if now.monotonic < state.next {
            state.passed_over += 1;
            return None;
        }
        state.next = now.monotonic + self.pause;
        Some(std::mem::take(&mut state.passed_over))
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

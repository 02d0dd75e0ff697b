use std::time::Duration;

use crate::random;

/// How long to wait before the next attempt: not at all at first, then twice as long each time, up to a second.
///
/// The upper half of each pause is random, so that replicas which lost the same Redis do not come back as one.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(5);
    pub(super) const LONGEST: Duration = Duration::from_secs(1);

    /// The pause before the next attempt. Each call counts as one that is made.
    pub(super) fn next(&mut self) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else {
            self.failures = 1;
            return Duration::ZERO;
        };
        self.failures = self.failures.saturating_add(1);
        let longest = Self::FIRST.saturating_mul(2_u32.saturating_pow(doublings)).min(Self::LONGEST);
        random::between(longest / 2, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(), Duration::ZERO);
        let mut longest = Duration::from_millis(5);
        for _ in 0..40 {
            let pause = backoff.next();
            assert!((longest / 2..=longest).contains(&pause), "{pause:?} is not between half and all of {longest:?}");
            longest = (2 * longest).min(Duration::from_secs(1));
        }
    }
}

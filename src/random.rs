//! Randomness for jitter, names, and the seed of this process's hashes.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The standard library seeds its hash maps from the system's randomness; there is no need for another source.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().hash_one(())
}

/// A time between these two, so that replicas do not move together.
pub(crate) fn between(shortest: Duration, longest: Duration) -> Duration {
    // 32 random bits are a fraction below 1.
    let fraction = (random_u64() >> 32) as u32;
    shortest + longest.saturating_sub(shortest).mul_f64(f64::from(fraction) / f64::from(u32::MAX))
}

/// One of the first `count` numbers; 0 if there are none.
pub(crate) fn below(count: usize) -> usize {
    let place = random_u64().checked_rem(count as u64).unwrap_or(0);
    usize::try_from(place).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_a_bound_comes() {
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[below(5)] = true;
        }
        assert_eq!((seen, below(1), below(0)), ([true; 5], 0, 0));
    }

    #[test]
    fn times_spread_over_all_that_is_allowed() {
        let (shortest, longest) = (Duration::from_millis(10), Duration::from_millis(20));
        let times: Vec<Duration> = (0..1000).map(|_| between(shortest, longest)).collect();
        assert!(times.iter().all(|time| (shortest..=longest).contains(time)));
        let early = times.iter().filter(|time| **time < Duration::from_millis(15)).count();
        assert!((400..600).contains(&early), "{early} of 1000 in the first half");
        assert_eq!(between(longest, longest), longest);
    }
}

use std::str::FromStr;

use super::caller::Caller;

/// Which requests are traced: a part of them, by what the one who asks does himself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Of those that he traces.
    pub sampled: Ratio,
    /// Of those that he does not trace, and says so.
    pub not_sampled: Ratio,
    /// Of those of which nobody says anything, and of calls to the store in the background.
    pub root: Ratio,
}

impl Sampling {
    /// All that the caller traces, and so much of the rest.
    #[must_use]
    pub const fn with_ratio(ratio: Ratio) -> Self {
        Self { sampled: Ratio::ALWAYS, not_sampled: ratio, root: ratio }
    }

    pub(super) fn picks(&self, caller: &Caller) -> bool {
        let ratio = if caller.is_sampled { self.sampled } else { self.not_sampled };
        ratio.picks(caller.trace_id)
    }
}

/// A part of all traces, from 0 to 1.
///
/// Whether a trace belongs to it follows from its name, whose last 56 bits are random, so that all replicas pick the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Traces are picked whose 56 bits are not below.
    threshold: u64,
}

/// A text that is no ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a number from 0 to 1, such as 0.01 for one in a hundred")]
pub struct RatioError;

impl Ratio {
    const RANGE: u64 = 1 << 56;

    pub const NEVER: Self = Self { threshold: Self::RANGE };
    pub const ALWAYS: Self = Self { threshold: 0 };

    pub(super) fn picks(self, trace_id: u128) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "these are the bits that are wanted")]
        let random = trace_id as u64 % Self::RANGE;
        random >= self.threshold
    }
}

impl FromStr for Ratio {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<Self, RatioError> {
        let ratio: f64 = text.parse().map_err(|_| RatioError)?;
        if !(0.0..=1.0).contains(&ratio) {
            return Err(RatioError);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2^56")]
        #[expect(clippy::cast_precision_loss, reason = "a power of two is exact")]
        let picked = (ratio * Self::RANGE as f64) as u64;
        Ok(Self { threshold: Self::RANGE - picked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::random_u64;

    #[test]
    fn a_ratio_picks_its_part_and_the_same_everywhere() {
        let ids: Vec<u128> = (0..10_000).map(|_| u128::from(random_u64()) << 64 | u128::from(random_u64())).collect();
        for (text, expected) in [("0", 0..=0), ("0.25", 2_200..=2_800), ("1", 10_000..=10_000)] {
            let (one, other): (Ratio, Ratio) = (text.parse().unwrap(), text.parse().unwrap());
            let picked = ids.iter().filter(|id| one.picks(**id)).count();
            assert!(expected.contains(&picked), "{picked} of 10000 for {text}");
            assert!(ids.iter().all(|id| one.picks(*id) == other.picks(*id)));
        }
        assert_eq!(("0".parse(), "1.0".parse()), (Ok(Ratio::NEVER), Ok(Ratio::ALWAYS)));
    }

    #[test]
    fn a_larger_ratio_picks_all_that_a_smaller_one_does() {
        let (small, large): (Ratio, Ratio) = ("0.1".parse().unwrap(), "0.2".parse().unwrap());
        for _ in 0..1000 {
            let id = u128::from(random_u64());
            assert!(!small.picks(id) || large.picks(id));
        }
    }

    #[test]
    fn what_is_no_ratio_is_an_error() {
        for text in ["", "1.1", "-0.1", "NaN", "inf", "10%", "half"] {
            assert_eq!(text.parse::<Ratio>(), Err(RatioError), "{text}");
        }
    }
}

//! The arithmetic of limits: pure, in whole numbers, with the time as an argument.
//!
//! A [`Limit`] says how much is allowed; a [`Bucket`] remembers how much of one limit one key has used.

mod bucket;
mod fixed_window;
#[cfg(test)]
mod tests;
mod time;
mod token_bucket;
mod unit;

pub use bucket::{Bucket, Hits};
pub use fixed_window::FixedWindow;
pub use time::{Micros, Now};
pub use token_bucket::{TOKEN, TokenBucket};
pub use unit::Unit;

/// How a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Tokens flow back evenly: see [`TokenBucket`].
    #[default]
    TokenBucket,
    /// The whole amount comes back when a window that is aligned to the epoch ends: see [`FixedWindow`].
    FixedWindow,
}

impl Algorithm {
    pub const ALL: [Self; 2] = [Self::TokenBucket, Self::FixedWindow];

    /// The name of the algorithm as policies write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::FixedWindow => "fixed_window",
        }
    }
}

/// `amount` requests per *period*, where the period is `multiplier` units: 10 per 5 minutes.
///
/// A limit that cannot be computed with cannot be built: the period is between one second and ten years, and the
/// capacity is at least one unless the amount is zero. A limit with the amount 0 refuses everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    amount: u32,
    multiplier: u32,
    capacity: u32,
    unit: Unit,
    algorithm: Algorithm,
}

/// Why a [`Limit`] cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    #[error("the period has no length")]
    NoPeriod,
    #[error("the period is longer than ten years")]
    PeriodTooLong,
    #[error("a token bucket with a burst of 0 lets nothing pass")]
    NoBurst,
    #[error("a limit of 0 has no burst")]
    BurstOfNothing,
    #[error("a fixed window has no burst")]
    BurstOfWindow,
}

impl Limit {
    /// The longest period of a limit, and the longest wait for one: ten years.
    pub const LONGEST_PERIOD: Micros = Micros::from_seconds(10 * Unit::Year.seconds());

    /// A limit of `amount` per `multiplier` units. `burst` is the capacity of a token bucket, by default the amount.
    ///
    /// # Errors
    ///
    /// A [`LimitError`] if it could not be computed with.
    pub fn new(
        amount: u32,
        unit: Unit,
        multiplier: u32,
        burst: Option<u32>,
        algorithm: Algorithm,
    ) -> Result<Self, LimitError> {
        match burst {
            Some(0) if amount > 0 => return Err(LimitError::NoBurst),
            Some(_) if amount == 0 => return Err(LimitError::BurstOfNothing),
            Some(_) if algorithm == Algorithm::FixedWindow => return Err(LimitError::BurstOfWindow),
            _ => {}
        }
        if multiplier == 0 {
            return Err(LimitError::NoPeriod);
        }
        let limit = Self { amount, multiplier, capacity: burst.unwrap_or(amount), unit, algorithm };
        if limit.period() > Self::LONGEST_PERIOD {
            return Err(LimitError::PeriodTooLong);
        }
        Ok(limit)
    }

    /// `amount` per `unit`, with no burst beyond it: what a request that brings its own limit gets. It cannot fail.
    #[must_use]
    pub const fn per(amount: u32, unit: Unit, algorithm: Algorithm) -> Self {
        Self { amount, multiplier: 1, capacity: amount, unit, algorithm }
    }

    /// So many percent of the part of one of several replicas, each of which lets its own part pass. It is rounded down, but
    /// at least 1 of amount and capacity, so more replicas than the limit has hits exceed it.
    #[must_use]
    pub fn share(&self, replicas: u32, percent: u8) -> Self {
        let part = |whole: u32| {
            let part = u64::from(whole) * u64::from(percent) / (100 * u64::from(replicas.max(1)));
            u32::try_from(part).unwrap_or(whole).clamp(whole.min(1), whole)
        };
        Self { amount: part(self.amount), capacity: part(self.capacity), ..*self }
    }

    /// Requests per period, 0 to 2³²−1.
    #[must_use]
    pub const fn amount(&self) -> u32 {
        self.amount
    }

    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// How many units make the period, at least 1.
    #[must_use]
    pub const fn multiplier(&self) -> u32 {
        self.multiplier
    }

    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The most hits that can be taken at one instant: a token bucket's burst, a fixed window's amount.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The length of the period, at most [`LONGEST_PERIOD`](Self::LONGEST_PERIOD).
    #[must_use]
    pub const fn period(&self) -> Micros {
        // It saturates only while `new` looks whether the period is too long.
        Micros(self.tick().saturating_mul(1_000_000))
    }

    /// How long an empty bucket takes to fill; of a fixed window its period. At least 1 µs; of an amount of 0 one period.
    #[must_use]
    pub fn time_to_full(&self) -> Micros {
        let product = u128::from(self.capacity) * u128::from(self.period().0);
        let time = product
            .checked_div(self.amount.into())
            .map_or(self.period().0, |time| u64::try_from(time).unwrap_or(u64::MAX));
        Micros(time.max(1))
    }

    /// A millionth of the period, in microseconds: the time in which `amount` millionths of a token flow back.
    /// As many as the period has seconds, 1 to 315,360,000.
    #[must_use]
    pub const fn tick(&self) -> u64 {
        self.unit.seconds() * self.multiplier as u64
    }

    /// The largest amount with which a limit of this period and algorithm is exact in a store that counts in doubles,
    /// as a script in Redis does.
    ///
    /// Doubles hold whole numbers exactly below 2⁵³, and a token bucket multiplies its amount by a [tick](Self::tick).
    /// A fixed window only adds hits, so there every amount is exact.
    #[must_use]
    pub const fn most_exact_amount(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket => ((1 << 53) - 1) / self.tick(),
            Algorithm::FixedWindow => u32::MAX as u64,
        }
    }
}

//! The arithmetic against an oracle: exact rational numbers, over random limits, times and hits.

use proptest::prelude::*;

use super::*;

const MILLION: i128 = 1_000_000;

/// A bucket in exact numbers. For a token bucket, `used` is in millionths of a token · tick, so that every microsecond
/// of refill is a whole number; for a window it is in hits.
struct Oracle {
    limit: Limit,
    used: i128,
    at: u64,
    window: u64,
}

impl Oracle {
    fn new(limit: Limit, now: Now) -> Self {
        Self { limit, used: 0, at: now.monotonic.0, window: now.utc.0 / limit.period().0 }
    }

    fn hit(&self) -> i128 {
        match self.limit.algorithm() {
            Algorithm::TokenBucket => MILLION * i128::from(self.limit.tick()),
            Algorithm::FixedWindow => 1,
        }
    }

    fn capacity(&self) -> i128 {
        i128::from(self.limit.capacity()) * self.hit()
    }

    fn settle(&mut self, now: Now) {
        match self.limit.algorithm() {
            Algorithm::TokenBucket => {
                let elapsed = now.monotonic.0.saturating_sub(self.at);
                self.at = self.at.max(now.monotonic.0);
                self.used = (self.used - i128::from(elapsed) * i128::from(self.limit.amount())).max(0);
            }
            Algorithm::FixedWindow => {
                let window = now.utc.0 / self.limit.period().0;
                if window > self.window {
                    (self.window, self.used) = (window, 0);
                }
            }
        }
    }

    fn free(&self) -> i128 {
        (self.capacity() - self.used).max(0) / self.hit()
    }

    fn apply(&mut self, hits: Hits, overdraft: bool) -> bool {
        match hits {
            Hits::Look => self.free() >= 1,
            Hits::GiveBack(n) => {
                self.used = (self.used - i128::from(n) * self.hit()).max(0);
                true
            }
            Hits::Take(n) => {
                let passes = i128::from(n) <= self.free();
                if passes {
                    self.used += i128::from(n) * self.hit();
                } else if overdraft {
                    let most = 2 * self.capacity();
                    self.used = self.used.max((self.used + i128::from(n) * self.hit()).min(most));
                }
                passes
            }
        }
    }
}

fn limits() -> impl Strategy<Value = Limit> {
    let amount = prop_oneof![Just(1), 1..100_u32, 1..1_000_000_u32, Just(u32::MAX), any::<u32>()];
    let burst = prop_oneof![Just(None), (1..1000_u32).prop_map(Some), any::<u32>().prop_map(Some)];
    let unit = prop::sample::select(&Unit::ALL[..]);
    let multiplier = prop_oneof![Just(1), 1..10_u32];
    let algorithm = prop_oneof![Just(Algorithm::TokenBucket), Just(Algorithm::FixedWindow)];
    (amount, unit, multiplier, burst, algorithm).prop_filter_map(
        "a limit that can be built",
        |(amount, unit, multiplier, burst, algorithm)| {
            let burst = burst.filter(|_| algorithm == Algorithm::TokenBucket);
            Limit::new(amount, unit, multiplier, burst, algorithm).ok()
        },
    )
}

fn hits() -> impl Strategy<Value = Hits> {
    prop_oneof![
        8 => prop_oneof![Just(1), 1..50_u64, any::<u32>().prop_map(u64::from), Just(u64::MAX)].prop_map(Hits::Take),
        1 => Just(Hits::Look),
        1 => prop_oneof![1..50_u64, Just(u64::MAX)].prop_map(Hits::GiveBack),
    ]
}

/// How both clocks move before a step, in microseconds: mostly forward, sometimes by years, sometimes back.
fn clock_step() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0..3_000_i64,
        4 => 0..90_000_000_i64,
        1 => 0..400_000_000_000_000_i64,
        1 => -5_000_000_000_i64..0,
    ]
}

fn later(now: Now, step: i64) -> Now {
    let shift = |time: Micros| Micros(time.0.saturating_add_signed(step));
    Now { monotonic: shift(now.monotonic), utc: shift(now.utc) }
}

const START: Now = Now { monotonic: Micros(7), utc: Micros(1_700_000_000_123_456) };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_bucket_is_exact_to_the_last_fraction(
        limit in limits(),
        overdraft: bool,
        steps in prop::collection::vec((clock_step(), hits()), 1..60),
    ) {
        let mut now = START;
        let (mut bucket, mut oracle) = (Bucket::unused(&limit, now), Oracle::new(limit, now));
        for (step, hits) in steps {
            now = later(now, step);
            bucket.settle(&limit, now);
            oracle.settle(now);
            prop_assert_eq!(bucket.apply(&limit, hits, overdraft), oracle.apply(hits, overdraft));
            prop_assert_eq!(i128::from(bucket.free(&limit)), oracle.free());
            prop_assert_eq!(bucket.is_unused(), oracle.used == 0);
        }
    }

    #[test]
    fn a_wait_is_long_enough_and_not_a_microsecond_longer(
        limit in limits(),
        taken in prop::collection::vec((0..90_000_000_i64, any::<u32>()), 1..5),
        wanted in any::<u32>(),
    ) {
        let (mut now, mut bucket) = (START, Bucket::unused(&limit, START));
        for (step, n) in taken {
            now = later(now, step);
            bucket.settle(&limit, now);
            bucket.apply(&limit, Hits::Take((u64::from(n) % bucket.free(&limit).max(1)).max(1)), true);
        }
        let wanted = Hits::Take(1 + u64::from(wanted) % u64::from(limit.capacity().max(1)));
        prop_assume!(limit.amount() > 0 && !bucket.clone().apply(&limit, wanted, false));
        let wait = bucket.until_free(&limit, wanted, now);
        let passes_after = |micros: u64| {
            let (mut then, mut bucket) = (now, bucket);
            then.monotonic = then.monotonic + Micros(micros);
            then.utc = then.utc + Micros(micros);
            bucket.settle(&limit, then);
            bucket.apply(&limit, wanted, false)
        };
        prop_assert!(passes_after(wait.0) || wait == Limit::LONGEST_PERIOD, "not free after {wait:?}");
        prop_assert!(!passes_after(wait.0 - 1), "free before {wait:?}");
    }

    #[test]
    fn no_interval_admits_more_than_burst_and_refill(
        amount in 1..500_u32,
        burst in 1..500_u32,
        steps in prop::collection::vec((0..400_000_u64, 1..40_u64), 1..80),
    ) {
        let limit = Limit::new(amount, Unit::Second, 1, Some(burst), Algorithm::TokenBucket).unwrap();
        let (mut now, mut bucket) = (START, Bucket::unused(&limit, START));
        let mut admitted = Vec::new();
        for (pause, n) in steps {
            now.monotonic = now.monotonic + Micros(pause);
            bucket.settle(&limit, now);
            if bucket.apply(&limit, Hits::Take(n), false) {
                admitted.push((now.monotonic, n));
            }
        }
        for (first, &(from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for &(to, n) in &admitted[first..] {
                sum += n * 1_000_000;
                prop_assert!(sum <= u64::from(burst) * 1_000_000 + u64::from(amount) * (to - from).0);
            }
        }
    }
}

fn at(micros: u64) -> Now {
    Now { monotonic: Micros(micros), utc: Micros(micros) }
}

#[test]
fn nothing_drifts_in_a_year_of_odd_microseconds() {
    // 7 a second, looked at every 333,333 µs: the tokens of a year come back to the token.
    let limit = Limit::new(7, Unit::Second, 1, Some(1_000_000_000), Algorithm::TokenBucket).unwrap();
    let mut bucket = Bucket::unused(&limit, at(0));
    assert!(bucket.apply(&limit, Hits::Take(1_000_000_000), false));
    let year = Unit::Year.seconds() * 1_000_000;
    let mut now = 0;
    while now < year {
        now = (now + 333_333).min(year);
        bucket.settle(&limit, at(now));
    }
    assert_eq!(bucket.free(&limit), 7 * Unit::Year.seconds());
}

#[test]
fn a_raised_limit_opens_at_once_and_a_lowered_one_keeps_what_was_spent() {
    let limit = |amount| Limit::per(amount, Unit::Hour, Algorithm::TokenBucket);
    let mut bucket = Bucket::unused(&limit(10), at(0));
    assert!(bucket.apply(&limit(10), Hits::Take(10), false));
    assert_eq!(bucket.free(&limit(100)), 90);
    assert_eq!(bucket.free(&limit(5)), 0);
}

#[test]
fn a_window_ends_at_its_edge_and_never_goes_back() {
    let limit = Limit::per(3, Unit::Minute, Algorithm::FixedWindow);
    let minute = limit.period().0;
    let mut window = Bucket::unused(&limit, at(5 * minute));
    assert!(window.apply(&limit, Hits::Take(3), false));
    assert_eq!(window.until_full(&limit, at(5 * minute)), Micros(minute));
    window.settle(&limit, at(6 * minute - 1));
    assert_eq!(window.free(&limit), 0);
    window.settle(&limit, at(6 * minute));
    assert_eq!(window.free(&limit), 3);
    assert!(window.apply(&limit, Hits::Take(1), false));
    window.settle(&limit, at(0));
    assert_eq!(window.free(&limit), 2, "the clock went back, the window did not");
}

#[test]
fn an_overdraft_goes_below_zero_by_one_burst_at_most() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow] {
        let limit = Limit::per(10, Unit::Hour, algorithm);
        let mut bucket = Bucket::unused(&limit, at(0));
        assert!(!bucket.apply(&limit, Hits::Take(u64::MAX), true));
        bucket.apply(&limit, Hits::GiveBack(10), false);
        assert_eq!(bucket.free(&limit), 0, "{algorithm:?}");
        bucket.apply(&limit, Hits::GiveBack(1), false);
        assert_eq!(bucket.free(&limit), 1, "{algorithm:?}");
    }
}

#[test]
fn a_limit_that_cannot_be_computed_with_cannot_be_built() {
    let token = |amount, unit, multiplier, burst| Limit::new(amount, unit, multiplier, burst, Algorithm::TokenBucket);
    assert_eq!(token(1, Unit::Day, 0, None), Err(LimitError::NoPeriod));
    assert_eq!(token(1, Unit::Year, 11, None), Err(LimitError::PeriodTooLong));
    assert_eq!(token(1, Unit::Year, u32::MAX, None), Err(LimitError::PeriodTooLong));
    assert_eq!(token(1, Unit::Day, 1, Some(0)), Err(LimitError::NoBurst));
    assert_eq!(token(0, Unit::Day, 1, Some(5)), Err(LimitError::BurstOfNothing));
    let window = Limit::new(1, Unit::Day, 1, Some(1), Algorithm::FixedWindow);
    assert_eq!(window, Err(LimitError::BurstOfWindow));
    assert_eq!(
        token(10, Unit::Minute, 5, Some(3)).map(|limit| (limit.period(), limit.capacity())),
        Ok((Micros(300_000_000), 3))
    );
}

#[test]
fn up_to_the_most_exact_amount_doubles_hold_every_number_of_a_token_bucket() {
    let most = |unit, algorithm| Limit::per(1, unit, algorithm).most_exact_amount();
    assert!(most(Unit::Week, Algorithm::TokenBucket) > u64::from(u32::MAX));
    assert_eq!(most(Unit::Month, Algorithm::TokenBucket), 3_474_999_712);
    assert_eq!(most(Unit::Year, Algorithm::TokenBucket), 285_616_414);
    assert_eq!(most(Unit::Year, Algorithm::FixedWindow), u64::from(u32::MAX));
    for unit in Unit::ALL {
        let (amount, tick) = (most(unit, Algorithm::TokenBucket), unit.seconds());
        assert!(amount * tick < 1 << 53 && (amount + 1) * tick >= 1 << 53, "{unit}");
    }
}

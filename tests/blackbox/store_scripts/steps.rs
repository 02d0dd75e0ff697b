//! Random things that happen to one bucket.

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;

use comporta::limit::{Algorithm, Limit, Micros, Unit};
use comporta::store::memory::MemoryStore;
use comporta::store::{Facts, LeaseFact, Operation, Reply, StoreCall, UnusedFact, epoch_length};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestRunner};

use super::watched::text_of_fields;

pub(super) const BUCKET: &str = "{d|k=v}:second";

/// What happens to a bucket that several limits share.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) limits: Vec<Limit>,
    pub(super) steps: Vec<Step>,
}

/// A call, after the clock has moved.
#[derive(Clone, Debug)]
pub(super) struct Step {
    clock: Clock,
    limit: Index,
    action: Action,
}

/// How the clock moves. A fraction is in 2^32nds.
#[derive(Clone, Debug)]
pub(super) enum Clock {
    Ticks {
        fraction: u32,
    },
    /// By less than so many epochs.
    Epochs {
        count: u64,
        fraction: u32,
    },
    /// To the end of an epoch, or 1 µs beside it.
    Edge {
        epochs: u64,
        offset: i64,
    },
    /// To where the bucket ceases to be kept, or about 1 ms beside it.
    Expiry {
        offset: i64,
    },
    Years {
        fraction: u32,
    },
    Back {
        most: Micros,
        fraction: u32,
    },
}

#[derive(Clone, Debug)]
enum Action {
    Acquire { needed: Size, want: Size, leased: Vec<(Epoch, Size, Size)>, unused: Vec<Unused> },
    Refund(Size),
    Debit(Size),
}

/// So many hits, relative to the limit's capacity.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    /// Not more than the capacity.
    Hits(u64),
    Eighths(u64),
    Endless,
}

impl Size {
    pub(super) fn of(self, limit: &Limit) -> u64 {
        match self {
            Self::Hits(hits) => hits.min(limit.capacity().into()),
            Self::Eighths(eighths) => u64::from(limit.capacity()) * eighths / 8,
            Self::Endless => u64::MAX,
        }
    }
}

#[derive(Clone, Debug)]
enum Epoch {
    /// One in which something happened.
    Seen(Index),
    /// The one before the current.
    Before,
    /// Any number.
    Any(u64),
}

#[derive(Clone, Debug)]
enum Unused {
    /// Hits that were granted.
    Granted(Index),
    /// Hits of which nobody has heard.
    Claimed { epoch: Epoch, hits: Size, mark: u64 },
}

pub(super) fn size() -> impl Strategy<Value = Size> {
    prop_oneof![
        2 => Just(Size::Hits(0)),
        2 => (1..5_u64).prop_map(Size::Hits),
        4 => (1..=8_u64).prop_map(Size::Eighths),
        1 => any::<u32>().prop_map(|hits| Size::Hits(hits.into())),
    ]
}

fn endless_size() -> impl Strategy<Value = Size> {
    prop_oneof![8 => size(), 1 => Just(Size::Endless)]
}

fn epoch() -> impl Strategy<Value = Epoch> {
    prop_oneof![
        8 => any::<Index>().prop_map(Epoch::Seen),
        4 => Just(Epoch::Before),
        1 => any::<u64>().prop_map(Epoch::Any),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let leased = prop::collection::vec((epoch(), size(), size()), 0..=2);
    let unused = prop_oneof![
        4 => any::<Index>().prop_map(Unused::Granted),
        1 => (epoch(), size(), 0..1_u64 << 53).prop_map(|(epoch, hits, mark)| Unused::Claimed { epoch, hits, mark }),
    ];
    let unused = prop::collection::vec(unused, 0..=Facts::MOST_UNUSED);
    let acquire = (size(), endless_size(), leased, unused);
    prop_oneof![
        10 => acquire.prop_map(|(needed, want, leased, unused)| Action::Acquire { needed, want, leased, unused }),
        2 => (size(), endless_size()).prop_map(|(needed, want)| {
            Action::Acquire { needed, want, leased: Vec::new(), unused: Vec::new() }
        }),
        1 => endless_size().prop_map(Action::Refund),
        1 => endless_size().prop_map(Action::Debit),
    ]
}

/// A clock that only goes forward.
pub(super) fn forward() -> BoxedStrategy<Clock> {
    prop_oneof![
        6 => any::<u32>().prop_map(|fraction| Clock::Ticks { fraction }),
        6 => (1..=3_u64, any::<u32>()).prop_map(|(count, fraction)| Clock::Epochs { count, fraction }),
        4 => (1..=3_u64, -1..=1_i64).prop_map(|(epochs, offset)| Clock::Edge { epochs, offset }),
        1 => (-2000..=2000_i64).prop_map(|offset| Clock::Expiry { offset }),
        1 => any::<u32>().prop_map(|fraction| Clock::Years { fraction }),
    ]
    .boxed()
}

fn any_clock() -> BoxedStrategy<Clock> {
    let back = prop_oneof![Just(Micros(3)), Just(Micros::from_seconds(180)), Just(Micros::from_seconds(40_000_000))];
    let back = (back, any::<u32>()).prop_map(|(most, fraction)| Clock::Back { most, fraction });
    prop_oneof![20 => forward(), 1 => back].boxed()
}

/// As many limits as are asked for, with amounts and bursts of up to `most`; all of them have the same bucket.
pub(super) fn limits(count: RangeInclusive<usize>, most: u32) -> impl Strategy<Value = Vec<Limit>> {
    let period = prop_oneof![
        4 => (Just(Unit::Second), 1..=20_u32),
        2 => (Just(Unit::Minute), 1..=9_u32),
        2 => (select(&Unit::ALL[..]), 1..=10_u32),
    ];
    let number = || {
        prop_oneof![
            2 => Just(1),
            4 => 1..100_u32,
            2 => 1..1_000_000_u32,
            1 => 1..=most,
            1 => Just(most),
        ]
    };
    let amounts = prop::collection::vec((number(), number()), count);
    let algorithm = prop_oneof![3 => Just(Algorithm::TokenBucket), 1 => Just(Algorithm::FixedWindow)];
    (period, amounts, algorithm).prop_map(|((unit, multiplier), amounts, algorithm)| {
        let exact = Limit::new(1, unit, multiplier, None, algorithm).unwrap().most_exact_amount();
        let exact = u32::try_from(exact).unwrap_or(u32::MAX);
        let limit = |(amount, burst): (u32, u32)| {
            let burst = (algorithm == Algorithm::TokenBucket).then_some(burst);
            Limit::new(amount.min(exact), unit, multiplier, burst, algorithm).unwrap()
        };
        amounts.into_iter().map(limit).collect()
    })
}

/// Anything at all.
pub(super) fn any_schedule() -> impl Strategy<Value = Schedule> {
    let step = (any_clock(), any::<Index>(), action()).prop_map(|(clock, limit, action)| Step { clock, limit, action });
    (limits(1..=3, u32::MAX), steps(step)).prop_map(|(limits, steps)| Schedule { limits, steps })
}

const MEAN_STEPS: u32 = 100;

/// A hundred on average.
pub(super) fn steps<S: Strategy>(step: S) -> impl Strategy<Value = Vec<S::Value>> {
    prop::collection::vec(step, 1..2 * MEAN_STEPS as usize)
}

/// Runs schedules for a test in `file`, of about so many steps together. `run` says how many it took; so does this.
pub(super) fn run_schedules<S: Strategy>(
    file: &'static str,
    steps: u32,
    schedules: S,
    run: impl FnMut(S::Value) -> Result<usize, TestCaseError>,
) -> usize {
    let config = Config {
        cases: steps / MEAN_STEPS,
        // ChaCha takes most of the time, and this needs no good random numbers.
        rng_algorithm: RngAlgorithm::XorShift,
        ..Config::with_source_file(file)
    };
    let (run, taken) = (RefCell::new(run), Cell::new(0));
    let result = TestRunner::new(config).run(&schedules, |schedule| {
        taken.set(taken.get() + run.borrow_mut()(schedule)?);
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
    taken.get()
}

/// One bucket as the model has it, and what its replicas remember.
#[derive(Debug)]
pub(super) struct World {
    pub(super) model: MemoryStore,
    pub(super) now: Micros,
    /// The epochs of the latest replies, the current one last.
    epochs: Vec<u64>,
    grants: Vec<UnusedFact>,
}

impl World {
    pub(super) fn new() -> Self {
        // November 2023.
        let now = Micros::from_seconds(1_700_000_000);
        Self { model: MemoryStore::default(), now, epochs: vec![0], grants: Vec::new() }
    }

    /// Moves the clock and makes the call, but does not yet serve it.
    pub(super) fn next_call(&mut self, step: &Step, limits: &[Limit]) -> StoreCall {
        let limit = *step.limit.get(limits);
        self.move_clock(&step.clock, &limit);
        let hits = |size: Size| size.of(&limit);
        let operation = match &step.action {
            Action::Acquire { needed, want, leased, unused } => {
                let lease = |(epoch, spent, returned): &(Epoch, Size, Size)| LeaseFact {
                    epoch: self.epoch(epoch, &limit),
                    spent: hits(*spent),
                    returned: hits(*returned),
                };
                let leased = leased.iter().map(lease).collect();
                let unused = unused.iter().filter_map(|unused| match unused {
                    Unused::Granted(index) => (!self.grants.is_empty()).then(|| *index.get(&self.grants)),
                    Unused::Claimed { epoch, hits: size, mark } => {
                        Some(UnusedFact { epoch: self.epoch(epoch, &limit), hits: hits(*size), mark: *mark })
                    }
                });
                let facts = Facts { leased, unused: unused.collect() };
                Operation::Acquire { needed: hits(*needed), want: hits(*want), facts }
            }
            Action::Refund(size) => Operation::Refund { hits: hits(*size) },
            Action::Debit(size) => Operation::Debit { hits: hits(*size) },
        };
        StoreCall { bucket: BUCKET.into(), limit, operation }
    }

    /// The bucket is lost.
    pub(super) fn forget(&mut self) {
        self.model = MemoryStore::default();
    }

    pub(super) fn serve(&mut self, call: &StoreCall) -> Reply {
        let reply = self.model.serve(call, self.now);
        if self.epochs.last() != Some(&reply.epoch) {
            self.epochs.push(reply.epoch);
            self.epochs.drain(..self.epochs.len().saturating_sub(4));
        }
        if let Operation::Acquire { needed: hits @ 1.., .. } = call.operation
            && reply.granted
        {
            self.grants.push(UnusedFact { epoch: reply.epoch, hits, mark: reply.mark });
            self.grants.drain(..self.grants.len().saturating_sub(4));
        }
        reply
    }

    fn current_epoch(&self) -> u64 {
        *self.epochs.last().expect("there is always one")
    }

    fn epoch(&self, epoch: &Epoch, limit: &Limit) -> u64 {
        let length = match limit.algorithm() {
            Algorithm::TokenBucket => epoch_length(limit).0,
            Algorithm::FixedWindow => 1,
        };
        match epoch {
            Epoch::Seen(index) => *index.get(&self.epochs),
            Epoch::Before => self.current_epoch().saturating_sub(length),
            Epoch::Any(number) => *number,
        }
    }

    pub(super) fn move_clock(&mut self, clock: &Clock, limit: &Limit) {
        // All numbers stay exact until the year 2255.
        const LAST: u64 = (1 << 53) - (1 << 50);
        let part = |whole: u64, fraction: u32| {
            u64::try_from((u128::from(whole) * u128::from(fraction)) >> 32).expect("less than the whole")
        };
        let length = epoch_length(limit).0;
        let forward_to = |time: u64| time.max(self.now.0);
        let time = match *clock {
            Clock::Ticks { fraction } => self.now.0 + part(3 * limit.tick(), fraction),
            Clock::Epochs { count, fraction } => self.now.0 + part(count * length, fraction),
            Clock::Edge { epochs, offset } => {
                let began = match limit.algorithm() {
                    Algorithm::TokenBucket => self.current_epoch(),
                    Algorithm::FixedWindow => self.current_epoch() * length,
                };
                forward_to((began + epochs * length).saturating_add_signed(offset))
            }
            Clock::Expiry { offset } => {
                let kept_until = self.kept_until_millis().unwrap_or(0) * 1000 + 999;
                forward_to(kept_until.saturating_add_signed(offset))
            }
            Clock::Years { fraction } => self.now.0 + part(Limit::LONGEST_PERIOD.0, fraction),
            Clock::Back { most, fraction } => self.now.0 - part(most.0, fraction),
        };
        self.now = Micros(time.min(LAST));
    }

    /// Until when the model keeps the bucket, if there is one.
    pub(super) fn kept_until_millis(&self) -> Option<u64> {
        let tokens = self.model.token_bucket(BUCKET, self.now).map(|kept| kept.until_millis);
        tokens.or_else(|| self.model.fixed_window(BUCKET, self.now).map(|kept| kept.until_millis))
    }

    /// What the model holds, as the hash would have it. Empty if there is no bucket.
    pub(super) fn fields(&self) -> String {
        let tokens = self.model.token_bucket(BUCKET, self.now).map(|kept| text_of_fields(&kept.bucket.fields()));
        let window = self.model.fixed_window(BUCKET, self.now).map(|kept| text_of_fields(&kept.bucket.fields()));
        tokens.or(window).unwrap_or_default()
    }
}

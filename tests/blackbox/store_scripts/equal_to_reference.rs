//! The token bucket's script next to the one that was checked first, for a limit that never changes and replicas that tell
//! the truth. What differs on purpose: the new one writes nothing when nothing moves.

use std::collections::BTreeMap;

use comporta::limit::{Algorithm, Limit, Micros};
use comporta::store::{Facts, LeaseFact, Operation, StoreCall, UnusedFact, epoch_length, scarce_hits};
use proptest::prelude::*;
use redis::{Cmd, Connection};
use smallvec::SmallVec;

use super::steps::{BUCKET, Clock, Size, World, forward, limits, run_schedules, size, steps};
use super::watched::{Scripts, Seen, Watched, numbers};
use super::{start, step_count};
use crate::harness::Flavour;

const REFERENCE_BUCKET: &str = "{d|k=v}:reference";
const TOKEN: i64 = 1_000_000;

#[derive(Clone, Debug)]
enum Step {
    /// Some of what is borrowed is spent, some is returned, and this is told.
    Acquire {
        clock: Clock,
        needed: Size,
        want: Size,
        spent_eighths: u64,
        returned_eighths: u64,
        tells_unused: bool,
    },
    Refund {
        clock: Clock,
        size: Size,
    },
    Debit {
        clock: Clock,
        size: Size,
    },
    ClockGoesBack {
        by: Micros,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let acquire = (forward(), size(), size(), 0..=8_u64, 0..=8_u64, any::<bool>());
    prop_oneof![
        12 => acquire.prop_map(|(clock, needed, want, spent_eighths, returned_eighths, tells_unused)| {
            Step::Acquire { clock, needed, want, spent_eighths, returned_eighths, tells_unused }
        }),
        1 => (forward(), size()).prop_map(|(clock, size)| Step::Refund { clock, size }),
        1 => (forward(), size()).prop_map(|(clock, size)| Step::Debit { clock, size }),
        1 => (0..200_000_000_u64).prop_map(|micros| Step::ClockGoesBack { by: Micros(micros) }),
    ]
}

/// Hits that were granted as needed and not spent, with the mark of either script.
#[derive(Debug)]
struct Grant {
    epoch: u64,
    hits: u64,
    mark: u64,
    reference_mark: u64,
}

/// Both scripts, and replicas that ask both the same.
struct Pair<'a> {
    limit: Limit,
    connection: &'a mut Connection,
    scripts: &'a Scripts,
    reference: &'a Watched,
    world: World,
    /// What is borrowed and neither spent nor returned, by epoch.
    leases: BTreeMap<u64, u64>,
    grants: Vec<Grant>,
    /// An epoch, and by how much the marks differ in it.
    mark_difference: Option<(i64, i64)>,
}

#[test]
fn for_one_limit_the_script_answers_as_the_checked_one() {
    let server = start(Flavour::Redis);
    let mut connection = server.connect();
    let scripts = Scripts::load(&mut connection);
    let reference = Watched::load(include_str!("lease_store.lua"), &mut connection);
    let limits = limits(1..=1, 1_000_000).prop_filter_map("a token bucket that is full in ten years", |limits| {
        let limit = limits[0];
        let most_used = 2 * u64::from(limit.capacity());
        let ten_years = Limit::LONGEST_PERIOD.0 / 1_000_000;
        let is_full_in_time = most_used * limit.tick() <= u64::from(limit.amount()) * ten_years;
        (limit.algorithm() == Algorithm::TokenBucket && is_full_in_time).then_some(limit)
    });
    // One after another, because a mark that is told must first be known: slower than all at once.
    let taken = run_schedules(file!(), step_count() / 4, (limits, steps(step())), |(limit, steps)| {
        let mut pair = Pair::new(limit, &mut connection, &scripts, &reference);
        for step in &steps {
            pair.take(step);
        }
        Ok(steps.len())
    });
    eprintln!("{taken} random steps equal to the checked script");
}

impl<'a> Pair<'a> {
    fn new(limit: Limit, connection: &'a mut Connection, scripts: &'a Scripts, reference: &'a Watched) -> Self {
        let (world, leases, grants) = (World::new(), BTreeMap::new(), Vec::new());
        let mut pair = Self { limit, connection, scripts, reference, world, leases, grants, mark_difference: None };
        pair.forget();
        pair
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Acquire { clock, needed, want, spent_eighths, returned_eighths, tells_unused } => {
                self.pass(clock);
                let mut facts =
                    Facts { leased: self.lease_facts(*spent_eighths, *returned_eighths), ..Facts::default() };
                let told = self.grants.pop_if(|_| *tells_unused);
                facts.unused.extend(told.as_ref().map(|told| UnusedFact {
                    epoch: told.epoch,
                    hits: told.hits,
                    mark: told.mark,
                }));
                let (needed, want) = (needed.of(&self.limit), want.of(&self.limit));
                self.call(Operation::Acquire { needed, want, facts }, told.map_or(0, |told| told.reference_mark));
            }
            Step::Refund { clock, size } => {
                self.pass(clock);
                self.call(Operation::Refund { hits: size.of(&self.limit).max(1) }, 0);
            }
            Step::Debit { clock, size } => {
                self.pass(clock);
                self.call(Operation::Debit { hits: size.of(&self.limit).max(1) }, 0);
            }
            Step::ClockGoesBack { by } => {
                // Only for what is written does time pass, so both write just before and just after.
                self.debit_one();
                self.world.now = self.world.now - *by;
                self.debit_one();
            }
        }
    }

    fn pass(&mut self, clock: &Clock) {
        self.world.move_clock(clock, &self.limit);
        if self.world.kept_until_millis().is_none() {
            // The checked script keeps its bucket for longer, because it writes it each time.
            let free = self.reference(&Operation::Acquire { needed: 0, want: 0, facts: Facts::default() }, 0);
            let free = Seen::parse(&free.query::<String>(self.connection).unwrap()).reply[5];
            assert_eq!(free, i64::from(self.limit.capacity()), "what is no longer kept must be full");
            self.forget();
        }
    }

    /// Begins with a full bucket, in both.
    fn forget(&mut self) {
        redis::cmd("DEL").arg(&[BUCKET, REFERENCE_BUCKET]).exec(self.connection).unwrap();
        self.world.forget();
        self.leases.clear();
        self.grants.clear();
        self.mark_difference = None;
    }

    fn debit_one(&mut self) {
        let used = self.call(Operation::Debit { hits: 1 }, 0);
        if used == 2 * i64::from(self.limit.capacity()) * TOKEN {
            // Nothing may have moved.
            self.forget();
        }
    }

    /// What became of the latest two leases. It is told once.
    fn lease_facts(&mut self, spent_eighths: u64, returned_eighths: u64) -> SmallVec<[LeaseFact; 2]> {
        let tell = |(&epoch, left): (&u64, &mut u64)| {
            let spent = *left * spent_eighths / 8;
            let returned = (*left - spent) * returned_eighths / 8;
            *left -= spent + returned;
            LeaseFact { epoch, spent, returned }
        };
        self.leases.iter_mut().rev().take(2).map(tell).collect()
    }

    /// Asks both and returns what is used.
    fn call(&mut self, operation: Operation, reference_mark: u64) -> i64 {
        let call = StoreCall { bucket: BUCKET.into(), limit: self.limit, operation };
        let mut pipeline = redis::pipe();
        pipeline.add_command(self.scripts.command(&call, self.world.now));
        pipeline.add_command(self.reference(&call.operation, reference_mark));
        let (seen, checked): (String, String) = pipeline.query(self.connection).unwrap();
        let (seen, checked) = (Seen::parse(&seen).reply, Seen::parse(&checked).reply);
        assert_eq!(seen, numbers(&self.world.serve(&call)), "the model");

        let [granted, extra, epoch, lease_time, retry_after, used, mark] = seen;
        let [_, mut checked_extra, .., checked_free, checked_mark] = checked;
        if let Operation::Refund { .. } = call.operation {
            // The checked one says how many millionths came back.
            checked_extra /= TOKEN;
        }
        assert_eq!(
            [granted, extra, epoch, lease_time, retry_after],
            [checked[0], checked_extra, checked[2], checked[3], checked[4]],
            "{call:?}"
        );
        if let Operation::Acquire { needed, .. } = call.operation {
            let free = (i64::from(self.limit.capacity()) * TOKEN - used).div_euclid(TOKEN);
            assert_eq!(free, checked_free, "{call:?}");
            if granted == 1 {
                self.remember(&seen, needed, checked_mark);
            }
        }
        self.compare_marks(epoch, mark, checked_mark);
        used
    }

    /// Only the differences of marks within an epoch have a meaning. After more than two epochs without a call the
    /// checked script counts from an earlier time.
    fn compare_marks(&mut self, epoch: i64, mark: i64, checked_mark: i64) {
        let difference = checked_mark - mark;
        match self.mark_difference {
            Some((seen_in, seen)) if seen_in == epoch => assert_eq!(difference, seen),
            _ => self.mark_difference = Some((epoch, difference)),
        }
    }

    fn remember(&mut self, [_, extra, epoch, .., mark]: &[i64; 7], hits: u64, reference_mark: i64) {
        let (epoch, mark) = (epoch.cast_unsigned(), mark.cast_unsigned());
        if *extra > 0 {
            *self.leases.entry(epoch).or_default() += extra.cast_unsigned();
        }
        if hits > 0 {
            self.grants.push(Grant { epoch, hits, mark, reference_mark: reference_mark.cast_unsigned() });
        }
    }

    /// The command with which the checked script does the same.
    fn reference(&self, operation: &Operation, mark: u64) -> Cmd {
        let limit = &self.limit;
        let nothing = Facts::default();
        let (name, hits, want, facts) = match operation {
            Operation::Acquire { needed, want, facts } => ("acquire", *needed, *want, facts),
            Operation::Refund { hits } => ("refund", *hits, 0, &nothing),
            Operation::Debit { hits } => ("debit", *hits, 0, &nothing),
        };
        let mut command = self.reference.command(REFERENCE_BUCKET, [u64::from(limit.amount()), limit.tick()]);
        command.arg(limit.capacity()).arg(epoch_length(limit).0).arg(scarce_hits(limit));
        command.arg(name).arg(hits).arg(want);
        for place in 0..2 {
            let fact = facts.leased.get(place).copied();
            let fact = fact.unwrap_or(LeaseFact { epoch: 0, spent: 0, returned: 0 });
            command.arg(fact.epoch).arg(fact.spent).arg(fact.returned);
        }
        let unused = facts.unused.first().copied().unwrap_or(UnusedFact { epoch: 0, hits: 0, mark: 0 });
        command.arg(unused.epoch).arg(unused.hits).arg(mark).arg(self.world.now.0);
        command
    }
}

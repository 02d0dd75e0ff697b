//! What is decided while the store cannot be asked, and what becomes of it afterwards.

use super::*;
use crate::store::memory::MemoryStore;
use crate::store::{Operation, StoreError};

/// One of two replicas, and a store that is there or not.
struct World {
    engine: Engine,
    store: MemoryStore,
    is_there: bool,
    /// What comes of a call while it is not.
    error: StoreError,
    now: Now,
    /// What the store was told to debit.
    debited: Vec<u64>,
}

impl World {
    fn with(limit: &str) -> Self {
        let settings = EngineSettings { store_timeout: Some(Micros(10_000)), local_percent: 100, ..settings() };
        let policy = policy(&format!("{{domain: d, descriptors: [{{key: key, rate_limit: {limit}}}]}}"));
        let engine = Engine::new(policy, settings, START);
        engine.set_replicas(2);
        let error = StoreError::Unreachable("it is not there".to_owned());
        Self { engine, store: MemoryStore::default(), is_there: true, error, now: START, debited: Vec::new() }
    }

    fn make(&mut self, mut calls: Vec<Call>) {
        while let Some(call) = (!calls.is_empty()).then(|| calls.remove(0)) {
            let answer = if self.is_there {
                if let Operation::Debit { hits } = call.request.operation {
                    self.debited.push(hits);
                }
                Ok(self.store.serve(&call.request, self.now.utc))
            } else {
                Err(self.error.clone())
            };
            calls.extend(self.engine.take_answer(call, &answer, self.now));
        }
    }

    fn ask(&mut self, key: &str, hits: u64) -> (Code, Source) {
        let ruling = self.engine.decide(&request(&[costing(&format!("key={key}"), hits)]), self.now).unwrap();
        self.make(ruling.calls);
        let decision = match ruling.answer {
            Answer::Decided(decision) => decision,
            Answer::Waiting(mut waiting) => match waiting.decision.try_recv() {
                Ok(decision) => decision.unwrap(),
                Err(_) => self.engine.give_up(&waiting, self.now).decision.unwrap().unwrap(),
            },
        };
        (decision.code, decision.source)
    }

    /// How many single hits pass, of so many.
    fn passing(&mut self, key: &str, asked: usize) -> usize {
        (0..asked).filter(|_| self.ask(key, 1).0 == Code::Ok).count()
    }

    fn repay(&mut self) -> usize {
        let calls = self.engine.repay_debts(self.now);
        let count = calls.len();
        self.make(calls);
        count
    }
}

const HUNDRED: &str = "{requests_per_unit: 100, unit: day}";

#[test]
fn a_replica_lets_its_part_pass_and_the_store_is_told_before_anything_else() {
    let mut world = World::with(HUNDRED);
    world.is_there = false;
    assert_eq!(world.passing("a", 80), 50);
    world.is_there = true;
    assert_eq!(world.ask("a", 1), (Code::Ok, Source::Store));
    assert_eq!(world.debited, [50]);
    assert_eq!(world.passing("a", 80), 49, "together as many as the limit has");
    assert_eq!(world.debited, [50], "once");
}

#[test]
fn an_outage_is_no_second_burst() {
    let mut world = World::with(HUNDRED);
    assert_eq!(world.passing("a", 60), 60);
    world.is_there = false;
    // What is still held of leases, and half of what is left besides.
    let passing = world.passing("a", 80);
    assert!((15..=40).contains(&passing), "{passing}");
}

#[test]
fn what_is_refilled_meanwhile_is_not_told() {
    let mut world = World::with("{requests_per_unit: 100, unit: second}");
    world.is_there = false;
    assert_eq!(world.passing("a", 80), 50);
    world.now.monotonic = world.now.monotonic + Micros(600_000);
    world.now.utc = world.now.utc + Micros(600_000);
    world.is_there = true;
    world.ask("a", 1);
    assert_eq!(world.debited, [20], "30 of 50 have flowed back");
}

#[test]
fn what_nobody_asks_for_any_more_is_told_in_the_background_a_few_at_a_time() {
    let mut world = World::with(HUNDRED);
    world.is_there = false;
    for key in 0..100 {
        assert_eq!(world.passing(&key.to_string(), 3), 3);
    }
    assert_eq!(world.repay(), 4);
    assert_eq!(world.repay(), 0, "none for a while after one has failed");
    world.is_there = true;
    world.now.monotonic = world.now.monotonic + Micros::from_seconds(1);
    assert_eq!(world.repay(), 4);
    assert_eq!(world.debited, [3; 100], "each answer is followed by the next");
    assert_eq!(world.repay(), 0);
}

#[test]
fn a_debt_that_may_have_been_told_is_not_told_again() {
    let mut world = World::with(HUNDRED);
    world.is_there = false;
    assert_eq!(world.passing("a", 5), 5);
    world.error = StoreError::Lost("it may have come".to_owned());
    assert_eq!(world.repay(), 1);
    world.is_there = true;
    world.now.monotonic = world.now.monotonic + Micros::from_seconds(1);
    world.ask("a", 1);
    assert_eq!((world.repay(), world.debited.len()), (0, 0));
}

#[test]
fn each_failure_mode_counts_what_it_decides() {
    let mut world = World::with("{requests_per_unit: 100, unit: day, failure_mode: closed}");
    world.is_there = false;
    assert_eq!(world.passing("a", 3), 0);
    let counts = FailureMode::ALL.map(|mode| world.engine.counts().by_failure_mode(mode).get());
    assert_eq!(counts, [0, 0, 3, 0]);
    assert_eq!(world.repay(), 0, "nothing was spent");
}

#[test]
fn who_comes_while_others_have_asked_has_waited_behind_them() {
    let world = World::with(HUNDRED);
    let in_vain = |key: &str| match world.engine.decide(&request(&[descriptor(key)]), world.now).unwrap().answer {
        Answer::Waiting(waiting) => waiting,
        Answer::Decided(_) => panic!("nothing is known here"),
    };
    let waiting = ["key=a", "key=a", "key=b"].map(in_vain);
    let in_vain = waiting.map(|waiting| world.engine.give_up(&waiting, world.now).in_vain.len());
    assert_eq!(in_vain, [0, 1, 0]);
}

#[test]
fn a_limit_holds_while_the_store_answers_with_errors() {
    let mut world = World::with(HUNDRED);
    (world.is_there, world.error) = (false, StoreError::Malformed("WRONGTYPE".to_owned()));
    assert_eq!(world.passing("a", 200), 50, "not a fresh part after each error");
    world.repay();
    assert_eq!(world.passing("a", 200), 0);
}

#[test]
fn a_late_overdraft_is_not_told_again() {
    let mut world = World::with("{requests_per_unit: 100, unit: day, overdraft: true}");
    (world.is_there, world.error) = (false, StoreError::Lost("too late".to_owned()));
    world.ask("a", 5);
    world.is_there = true;
    world.repay();
    world.ask("a", 1);
    assert_eq!(world.debited, [1], "the five have been told, or nobody knows");
    world.is_there = false;
    world.error = StoreError::Unreachable("not sent".to_owned());
    world.ask("a", 5);
    world.is_there = true;
    world.now.monotonic = world.now.monotonic + Micros::from_seconds(2);
    world.repay();
    assert_eq!(world.debited, [1, 5], "these were certainly not told");
}

#[test]
fn the_next_outage_begins_with_what_is_known_by_then() {
    let mut world = World::with("{requests_per_unit: 100, unit: second}");
    world.is_there = false;
    assert_eq!(world.passing("a", 80), 50);
    let second = Micros::from_seconds(1);
    world.now = Now { monotonic: world.now.monotonic + second, utc: world.now.utc + second };
    world.is_there = true;
    assert_eq!(world.passing("a", 200), 100);
    assert!(world.debited.is_empty(), "all of it has flowed back");
    world.is_there = false;
    assert_eq!(world.passing("a", 200), 0);
}

//! What is decided while the store cannot be asked, and what becomes of it afterwards.

use super::*;
use crate::store::memory::MemoryStore;
use crate::store::{Operation, StoreError};

/// One of two replicas, and a store that is there or not.
struct World {
    engine: Engine,
    store: MemoryStore,
    is_there: bool,
    /// Whether what is sent to a store that is not there is lost, or not sent at all.
    loses: bool,
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
        Self { engine, store: MemoryStore::default(), is_there: true, loses: false, now: START, debited: Vec::new() }
    }

    fn make(&mut self, mut calls: Vec<Call>) {
        while let Some(call) = (!calls.is_empty()).then(|| calls.remove(0)) {
            let answer = if self.is_there {
                if let Operation::Debit { hits } = call.request.operation {
                    self.debited.push(hits);
                }
                Ok(self.store.serve(&call.request, self.now.utc))
            } else if self.loses {
                Err(StoreError::Lost("it is not there".to_owned()))
            } else {
                Err(StoreError::Unreachable("it is not there".to_owned()))
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
                Err(_) => self.engine.give_up(&waiting, self.now).0.unwrap().unwrap(),
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
    assert_eq!(world.repay(), 64);
    world.is_there = true;
    let rounds: Vec<_> = (0..4).map(|_| world.repay()).collect();
    assert_eq!(rounds, [64, 36, 0, 0], "those that failed have been told too");
    assert_eq!(world.debited, [3; 100]);
}

#[test]
fn a_debt_that_may_have_been_told_is_not_told_again() {
    let mut world = World::with(HUNDRED);
    (world.is_there, world.loses) = (false, false);
    assert_eq!(world.passing("a", 5), 5);
    world.loses = true;
    assert_eq!(world.repay(), 1);
    (world.is_there, world.loses) = (true, false);
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
fn who_comes_while_others_have_asked_waits_behind_them() {
    let world = World::with(HUNDRED);
    let waiting = |key: &str| match world.engine.decide(&request(&[descriptor(key)]), world.now).unwrap().answer {
        Answer::Waiting(waiting) => waiting,
        Answer::Decided(_) => panic!("nothing is known here"),
    };
    assert_eq!(waiting("key=a").behind, None);
    assert_eq!(waiting("key=a").behind.as_deref(), Some("{d|key=a}:day"));
    assert_eq!(waiting("key=b").behind, None);
}

//! Those who wait for the store do not wait long, however many they are.

use std::collections::VecDeque;

use super::*;
use crate::store::memory::MemoryStore;
use crate::store::{Reply, StoreError};

/// How long a call takes to the store, and as long back: many requests come in that time.
const WAY: Micros = Micros(25_000);

/// A call on its way.
enum Travelling {
    There(Call),
    Back(Call, Result<Reply, StoreError>),
}

/// One replica of a distant store.
struct Distant {
    engine: Engine,
    store: MemoryStore,
    travelling: VecDeque<(Micros, Travelling)>,
    /// Since when each waits.
    waiting: Vec<(Micros, Waiting)>,
    now: Now,
    calls: usize,
    admitted: u32,
}

impl Distant {
    fn with(limit: &str) -> Self {
        let settings = EngineSettings { store_timeout: Some(Micros(2_000_000)), ..settings() };
        let policy = policy(&format!("{{domain: d, descriptors: [{{key: key, rate_limit: {limit}}}]}}"));
        Self {
            engine: Engine::new(policy, settings, START),
            store: MemoryStore::default(),
            travelling: VecDeque::new(),
            waiting: Vec::new(),
            now: START,
            calls: 0,
            admitted: 0,
        }
    }

    fn send(&mut self, calls: Vec<Call>) {
        self.calls += calls.len();
        let arrival = self.now.monotonic + WAY;
        self.travelling.extend(calls.into_iter().map(|call| (arrival, Travelling::There(call))));
    }

    fn ask(&mut self) {
        let ruling = self.engine.decide(&request(&[descriptor("key=1")]), self.now).unwrap();
        match ruling.answer {
            Answer::Decided(decision) => self.admitted += u32::from(decision.code == Code::Ok),
            Answer::Waiting(waiting) => self.waiting.push((self.now.monotonic, waiting)),
        }
        self.send(ruling.calls);
    }

    /// Lets a millisecond pass.
    fn pass(&mut self) {
        let millisecond = Micros(1000);
        self.now = Now { monotonic: self.now.monotonic + millisecond, utc: self.now.utc + millisecond };
        while self.travelling.front().is_some_and(|&(arrival, _)| arrival <= self.now.monotonic) {
            match self.travelling.pop_front() {
                Some((_, Travelling::There(call))) => {
                    let reply = Ok(self.store.serve(&call.request, self.now.utc));
                    self.travelling.push_back((self.now.monotonic + WAY, Travelling::Back(call, reply)));
                }
                Some((_, Travelling::Back(call, reply))) => {
                    let calls = self.engine.take_answer(call, &reply, self.now);
                    self.send(calls);
                }
                None => {}
            }
        }
        let admitted = &mut self.admitted;
        self.waiting.retain_mut(|(_, waiting)| {
            let decision = waiting.decision.try_recv();
            *admitted += u32::from(decision.as_ref().is_ok_and(|decision| decision.as_ref().unwrap().code == Code::Ok));
            decision.is_err()
        });
    }

    fn longest_wait(&self) -> Micros {
        self.waiting.iter().map(|&(since, _)| self.now.monotonic - since).max().unwrap_or_default()
    }
}

#[test]
fn above_the_limit_nobody_waits_for_more_than_four_calls() {
    let mut distant = Distant::with("{unit: second, requests_per_unit: 300}");
    for millisecond in 0..8000 {
        if millisecond % 2 == 0 {
            distant.ask();
        }
        distant.pass();
        let wait = distant.longest_wait();
        assert!(wait <= Micros(8 * WAY.0), "a request has waited for {wait:?} at {millisecond} ms");
    }
    let admitted = distant.admitted;
    assert!(admitted >= 2700 * 95 / 100, "one bucket would admit 2700 of these, and here it is {admitted}");
}

#[test]
fn many_who_come_at_once_take_a_few_calls() {
    let mut distant = Distant::with("{unit: second, requests_per_unit: 5000}");
    (0..200).for_each(|_| distant.ask());
    while !distant.waiting.is_empty() {
        distant.pass();
        assert!(distant.longest_wait() <= Micros(6 * WAY.0));
    }
    assert_eq!(distant.admitted, 200);
    assert!(distant.calls <= 4, "{} calls", distant.calls);
}

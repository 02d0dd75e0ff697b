//! Named schedules: a store and a few engines, step by step.

mod giving_back;
mod pace;
mod several_limits;

use super::ledger::Ledger;
use super::*;
use crate::store::memory::MemoryStore;
use crate::store::{Operation, Reply, StoreError};

/// A store and its clock. Calls and answers go where a test sends them.
struct Desk {
    store: MemoryStore,
    /// µs since the test began.
    passed: u64,
    ledger: Ledger,
}

impl Desk {
    fn new() -> Self {
        Self { store: MemoryStore::default(), passed: 0, ledger: Ledger::default() }
    }

    fn now(&self) -> Now {
        world::at(self.passed)
    }

    /// Lets time pass.
    fn pass(&mut self, micros: u64) {
        self.passed += micros;
    }

    fn engine(&self, text: &str) -> Engine {
        Engine::new(policy(text), settings(), self.now())
    }

    /// A call reaches the store.
    fn serve(&mut self, call: &Call) -> Reply {
        self.ledger.tell(0, &call.request);
        self.store.serve(&call.request, self.now().utc)
    }

    /// A reply reaches its engine.
    fn bring(&mut self, engine: &Engine, call: Call, reply: Reply) -> Vec<Call> {
        self.ledger.lend(0, &call.request, &reply);
        engine.take_answer(call, &Ok(reply), self.now())
    }

    /// Makes these calls, and all that follow. Returns how many there were.
    fn make(&mut self, engine: &Engine, calls: Vec<Call>) -> usize {
        let mut open: std::collections::VecDeque<_> = calls.into();
        let mut made = 0;
        while let Some(call) = open.pop_front() {
            made += 1;
            assert!(made < 100, "there is no end of calls");
            let reply = self.serve(&call);
            open.extend(self.bring(engine, call, reply));
        }
        made
    }

    /// Decides a request; the store answers at once.
    fn ask(&mut self, engine: &Engine, request: &RateLimitRequest) -> Decision {
        let Ruling { answer, calls } = engine.decide(request, self.now()).unwrap();
        self.make(engine, calls);
        match answer {
            Answer::Decided(decision) => decision,
            Answer::Waiting(mut waiting) => waiting.decision.try_recv().unwrap().unwrap(),
        }
    }

    fn passes(&mut self, engine: &Engine, descriptors: &[Descriptor]) -> bool {
        self.ask(engine, &request(descriptors)).code == Code::Ok
    }

    /// How many requests pass, one after the other, until one is refused.
    fn drain(&mut self, engine: &Engine, descriptors: &[Descriptor]) -> u32 {
        let mut passed = 0;
        while self.passes(engine, descriptors) {
            passed += 1;
        }
        passed
    }

    /// Begins a request that has to wait.
    fn begin(&self, engine: &Engine, descriptors: &[Descriptor]) -> (Waiting, Vec<Call>) {
        let Ruling { answer, calls } = engine.decide(&request(descriptors), self.now()).unwrap();
        match answer {
            Answer::Waiting(waiting) => (waiting, calls),
            Answer::Decided(decision) => panic!("it need not wait: {decision:?}"),
        }
    }

    /// What replicas do now and then, for so long.
    fn keep_house(&mut self, engine: &Engine, micros: u64) -> usize {
        let end = self.passed + micros;
        let mut calls = 0;
        while self.passed < end {
            self.pass(20_000);
            let due = engine.look_after_leases(self.now());
            calls += self.make(engine, due);
            engine.sweep(self.now(), 1);
        }
        calls
    }

    /// Whole hits that count as used in the store, in a bucket whose name has this in it.
    fn used(&mut self, engine: &Engine, entries: &str) -> u64 {
        let status = self.ask(engine, &request(&[costing(entries, 0)])).statuses[0].clone();
        let limit = status.current_limit.unwrap();
        u64::from(limit.amount - status.remaining)
    }
}

fn settings() -> EngineSettings {
    EngineSettings {
        max_buckets: 1_000,
        store_timeout: Some(Micros(10_000)),
        failure_mode: FailureMode::Closed,
        ..EngineSettings::default()
    }
}

fn code(waiting: &mut Waiting) -> Option<Code> {
    waiting.decision.try_recv().ok().map(|decision| decision.unwrap().code)
}

fn needed(call: &Call) -> u64 {
    match call.request.operation {
        Operation::Acquire { needed, .. } => needed,
        Operation::Refund { .. } | Operation::Debit { .. } => 0,
    }
}

/// The call for a bucket whose name has this in it.
fn take_call(calls: &mut Vec<Call>, name: &str) -> Call {
    let position = calls.iter().position(|call| call.request.bucket.contains(name));
    calls.remove(position.unwrap_or_else(|| panic!("no call for {name} among {calls:?}")))
}

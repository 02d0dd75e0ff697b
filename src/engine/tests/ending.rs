//! What is borrowed goes back when the process ends.

use std::collections::VecDeque;

use super::*;
use crate::store::StoreError;
use crate::store::memory::MemoryStore;

const NAME: &str = "{d|key=1}:day";
const POLICY: &str = "{domain: d, descriptors: [{key: key, rate_limit: {unit: day, requests_per_unit: 10000}}]}";

/// An engine and its store, between which calls travel one by one.
struct Lent {
    engine: Engine,
    store: MemoryStore,
    under_way: VecDeque<Call>,
    now: Now,
}

impl Lent {
    fn new() -> Self {
        let settings = EngineSettings { store_timeout: Some(Micros(10_000)), ..settings() };
        let engine = Engine::new(policy(POLICY), settings, START);
        Self { engine, store: MemoryStore::default(), under_way: VecDeque::new(), now: START }
    }

    fn ask(&mut self) {
        self.now.monotonic = self.now.monotonic + Micros(1000);
        let ruling = self.engine.decide(&request(&[descriptor("key=1")]), self.now).unwrap();
        self.under_way.extend(ruling.calls);
    }

    fn answer_one(&mut self) {
        let call = self.under_way.pop_front().expect("a call under way");
        let reply: Result<_, StoreError> = Ok(self.store.serve(&call.request, self.now.utc));
        self.under_way.extend(self.engine.take_answer(call, &reply, self.now));
    }

    fn answer_all(&mut self) {
        while !self.under_way.is_empty() {
            self.answer_one();
        }
    }

    fn end(&mut self) {
        self.under_way.extend(self.engine.return_leases(self.now));
    }

    fn used_and_out(&self) -> (u64, u64) {
        let bucket = self.store.token_bucket(NAME, self.now.utc).expect("a bucket").bucket;
        (bucket.used / 1_000_000, bucket.out + bucket.out_before)
    }
}

#[test]
fn nothing_is_borrowed_again_after_it_was_returned() {
    let mut lent = Lent::new();
    for _ in 0..100 {
        lent.ask();
        lent.answer_all();
    }
    assert!(lent.used_and_out().1 > 0, "a lease is out");
    lent.end();
    lent.answer_all();
    assert_eq!(lent.used_and_out(), (100, 0));
}

#[test]
fn what_a_call_under_way_brings_is_returned() {
    let mut lent = Lent::new();
    let mut asked = 0;
    // Until it borrows ahead.
    while lent.under_way.is_empty() || asked < 20 {
        lent.answer_all();
        lent.ask();
        asked += 1;
        assert!(asked < 1000, "it borrows ahead");
    }
    lent.end();
    assert_eq!(lent.under_way.len(), 1, "a bucket has one call under way");
    lent.answer_all();
    assert_eq!(lent.used_and_out(), (asked, 0));
}

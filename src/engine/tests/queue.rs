//! Those who wait for the store are not kept waiting when too many wait.

use std::collections::VecDeque;

use super::*;
use crate::store::memory::MemoryStore;
use crate::store::{Reply, StoreError};

const POLICY: &str = "{domain: d, descriptors: [{key: key, rate_limit: {unit: second, requests_per_unit: 300}}]}";

/// How long a call takes to the store, and as long back. Many more than one request come in that time.
const WAY: Micros = Micros(25_000);

/// In this time it learns how much to borrow, from twice as much with each call.
const LEARNING: Micros = Micros(1_000_000);

/// A call on its way.
enum Travelling {
    There(Call),
    Back(Call, Result<Reply, StoreError>),
}

#[test]
fn above_the_limit_of_a_distant_store_nobody_waits_for_more_than_four_calls() {
    let settings = EngineSettings { store_timeout: Some(Micros(2_000_000)), ..settings() };
    let engine = Engine::new(policy(POLICY), settings, START);
    let mut store = MemoryStore::default();
    let (mut travelling, mut waiting, mut admitted) = (VecDeque::new(), Vec::new(), 0_u32);

    // For 8 s a request comes every 2 ms: 500 a second.
    for millisecond in 0..8000 {
        let passed = Micros(1000 * millisecond);
        let now = Now { monotonic: START.monotonic + passed, utc: START.utc + passed };
        let mut calls = Vec::new();
        while travelling.front().is_some_and(|&(arrives, _)| arrives <= now.monotonic) {
            match travelling.pop_front() {
                Some((_, Travelling::There(call))) => {
                    let reply = Ok(store.serve(&call.request, now.utc));
                    travelling.push_back((now.monotonic + WAY, Travelling::Back(call, reply)));
                }
                Some((_, Travelling::Back(call, reply))) => calls.extend(engine.take_answer(call, &reply, now)),
                None => {}
            }
        }
        if millisecond % 2 == 0 {
            let ruling = engine.decide(&request(&[descriptor("key=1")]), now).unwrap();
            calls.extend(ruling.calls);
            match ruling.answer {
                Answer::Decided(decision) => admitted += u32::from(decision.code == Code::Ok),
                Answer::Waiting(one) => waiting.push((now.monotonic, one)),
            }
        }
        travelling.extend(calls.into_iter().map(|call| (now.monotonic + WAY, Travelling::There(call))));
        waiting.retain_mut(|(since, one)| {
            if let Ok(decision) = one.decision.try_recv() {
                admitted += u32::from(decision.unwrap().code == Code::Ok);
                return false;
            }
            let waits = now.monotonic - *since;
            let is_measured = *since > START.monotonic + LEARNING;
            assert!(waits <= Micros(8 * WAY.0) || !is_measured, "{waits:?} of waiting at {millisecond} ms");
            true
        });
    }
    assert!(admitted >= 95 * 2700 / 100, "one bucket would admit 2700, and here it is {admitted}");
}

//! How often memory is allocated on the way of a request. The numbers are exact: whoever changes one learns of it here.
//!
//! This binary's allocator counts, for each thread.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod grpc;
mod http2;
#[path = "../../benches/end_to_end/null_server.rs"]
mod null_server;

use allocation_counter::measure;
use bytes::Bytes;
use comporta::engine::{Answer, Call, Code, Decision, Engine, EngineSettings, Ruling, Source};
use comporta::limit::{Micros, Now};
use comporta::policy::{Defaults, load_texts};
use comporta::request::{Descriptor, Entry, RateLimitRequest};
use comporta::store::memory::MemoryStore;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{DescriptorStatus, RateLimit};
use prost::Message;

const ENOUGH: &str = "{requests_per_unit: 4000000000, unit: minute}";
const NEARLY_NOTHING: &str = "{requests_per_unit: 1, unit: year}";

/// So many requests are decided before it counts.
const WARM_UP: u64 = 1_000;

/// So many are counted.
const COUNTED: u64 = 1_000;

/// An engine, the store that it borrows from if it does, and what time it is.
struct Replica {
    engine: Engine,
    store: MemoryStore,
    now: Now,
}

impl Replica {
    fn new(limit: &str, keys: usize, is_borrowing: bool) -> Self {
        let policy = load_texts(&[("policy.yaml", &policy(limit, keys))], &Defaults::default()).unwrap().policy;
        let now = Now { monotonic: Micros(1_000_000), utc: Micros(1_700_000_000_000_000) };
        let store_timeout = is_borrowing.then_some(Micros(10_000));
        let settings = EngineSettings { store_timeout, ..EngineSettings::default() };
        Self { engine: Engine::new(policy, settings, now), store: MemoryStore::default(), now }
    }

    /// Decides one request, 10 µs after the one before, and makes the calls that it takes.
    fn decide(&mut self, request: &RateLimitRequest) -> (u64, Option<Decision>) {
        self.now = Now { monotonic: self.now.monotonic + Micros(10), utc: self.now.utc + Micros(10) };
        let mut ruling = None;
        let allocations = measure(|| ruling = Some(self.engine.decide(request, self.now))).count_total;
        let Ruling { answer, calls } = ruling.unwrap().unwrap();
        let has_called = !calls.is_empty();
        self.make(calls);
        match answer {
            // What a call takes is counted elsewhere: there is hardly one.
            Answer::Decided(decision) if !has_called => (allocations, Some(decision)),
            _ => (0, None),
        }
    }

    fn make(&mut self, calls: Vec<Call>) {
        for call in calls {
            let reply = self.store.serve(&call.request, self.now.utc);
            let more = self.engine.take_answer(call, &Ok(reply), self.now);
            self.make(more);
        }
    }

    /// The most allocations that one decision takes once all is warm. Nearly all are made without a call to the store, have
    /// this code, and come from this source.
    fn most_allocations(&mut self, request: &RateLimitRequest, expected: (Code, Source)) -> u64 {
        for _ in 0..WARM_UP {
            self.decide(request);
        }
        let (mut most, mut without_a_call) = (0, 0);
        for _ in 0..COUNTED {
            let (allocations, decision) = self.decide(request);
            let Some(decision) = decision else { continue };
            assert_eq!((decision.code, decision.source), expected);
            without_a_call += 1;
            most = most.max(allocations);
        }
        assert!(without_a_call > COUNTED * 9 / 10, "only {without_a_call} of {COUNTED} were decided without a call");
        most
    }
}

/// This limit for each of the keys `key-0`, `key-1` and so on.
fn policy(limit: &str, keys: usize) -> String {
    let rules = (0..keys).map(|n| format!("\n- {{key: key-{n}, rate_limit: {limit}}}")).collect::<Vec<_>>().concat();
    format!("domain: d\ndescriptors: {rules}")
}

fn request(descriptors: usize) -> RateLimitRequest {
    let descriptor = |n| {
        let entry = Entry { key: format!("key-{n}").into(), value: "user-0000001".into() };
        Descriptor { entries: vec![entry], ..Descriptor::default() }
    };
    let descriptors = (0..descriptors).map(descriptor).collect();
    RateLimitRequest { domain: "d".into(), descriptors, hits_addend: 0 }
}

#[test]
fn a_decision_from_memory_allocates_nothing() {
    let allocations = Replica::new(ENOUGH, 1, false).most_allocations(&request(1), (Code::Ok, Source::Local));
    assert_eq!(allocations, 0);
}

#[test]
fn a_decision_from_a_lease_allocates_nothing() {
    let allocations = Replica::new(ENOUGH, 1, true).most_allocations(&request(1), (Code::Ok, Source::Local));
    assert_eq!(allocations, 0);
}

#[test]
fn a_refusal_from_memory_allocates_nothing() {
    let expected = (Code::OverLimit, Source::Local);
    assert_eq!(Replica::new(NEARLY_NOTHING, 1, false).most_allocations(&request(1), expected), 0);
}

#[test]
fn a_refusal_of_the_store_that_is_remembered_allocates_nothing() {
    let expected = (Code::OverLimit, Source::DeniedCache);
    assert_eq!(Replica::new(NEARLY_NOTHING, 1, true).most_allocations(&request(1), expected), 0);
}

/// One for each list of what belongs to the request: checks, statuses, who counts them, the shards and their locks, and the
/// trials. Lists of up to two limits and four descriptors are on the stack.
#[test]
fn a_decision_on_ten_descriptors_allocates_its_six_lists() {
    let expected = (Code::Ok, Source::Local);
    for is_borrowing in [false, true] {
        assert_eq!(Replica::new(ENOUGH, 10, is_borrowing).most_allocations(&request(10), expected), 6);
    }
}

/// The list of descriptors, which grows (4, 8, 16), and of each descriptor the list of its entries. Keys and values are
/// slices of the message.
#[test]
fn reading_a_request_allocates_its_lists_and_copies_no_text() {
    for (descriptors, expected) in [(1, 1 + 1), (10, 3 + 10)] {
        let message = Bytes::from(request(descriptors).encode_to_vec());
        // What counts the owners of bytes is allocated for the second of them.
        let _second_owner = message.clone();
        let allocations = measure(|| drop(RateLimitRequest::read(message.clone()).unwrap())).count_total;
        assert_eq!(allocations, expected, "{descriptors} descriptors");
    }
}

#[test]
fn writing_an_answer_allocates_its_bytes() {
    let limit = RateLimit { requests_per_unit: 4_000_000_000, unit: 2, ..Default::default() };
    let status = DescriptorStatus { code: 1, current_limit: Some(limit), limit_remaining: 7, ..Default::default() };
    for statuses in [1, 10] {
        let statuses = vec![status.clone(); statuses];
        let response = RateLimitResponse { overall_code: 1, statuses, ..Default::default() };
        assert_eq!(measure(|| drop(response.encode_to_vec())).count_total, 1);
    }
}

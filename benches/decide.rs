//! What a decision costs without any network: `cargo bench --bench decide`.
//!
//! From memory the clock is read for each decision, as the server does. From a lease the time is one of its own, 10 µs from
//! one request to the next, and the store is in this process: what its calls cost is in the figure.

#![expect(clippy::expect_used, reason = "a benchmark stops when it cannot run")]

#[path = "fixture/policy.rs"]
mod policy;
#[path = "fixture/replica.rs"]
mod replica;
#[path = "fixture/request.rs"]
mod request;

use std::fmt::Write;
use std::hint::black_box;

use bytes::Bytes;
use comporta::clock::Clock;
use comporta::engine::{Engine, EngineSettings};
use comporta::request::RateLimitRequest;
use criterion::{Criterion, criterion_group, criterion_main};

use policy::policy;
use replica::Replica;
use request::request;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ENOUGH: &str = "[{key: user, rate_limit: {requests_per_unit: 4000000000, unit: minute}}]";
const NEARLY_NOTHING: &str = "[{key: user, rate_limit: {requests_per_unit: 1, unit: year}}]";
const KEYS: usize = 1_000_000;

fn engine(descriptors: &str) -> Engine {
    let settings = EngineSettings { max_buckets: 2 * KEYS, ..EngineSettings::default() };
    Engine::new(policy(descriptors), settings, Clock::start().now())
}

fn memory(c: &mut Criterion) {
    let clock = Clock::start();
    let one = request([("user".into(), "user-0000001".into())]);
    for (name, descriptors) in [("hot key", ENOUGH), ("refused", NEARLY_NOTHING), ("no limit", "[{key: path}]")] {
        let engine = engine(descriptors);
        c.bench_function(&format!("decide from memory: {name}"), |b| {
            b.iter(|| engine.decide(black_box(&one), clock.now()));
        });
    }
    let (ten, rules) = ten();
    let engine = engine(&rules);
    c.bench_function("decide from memory: ten descriptors", |b| b.iter(|| engine.decide(black_box(&ten), clock.now())));
}

/// A request with ten descriptors, and a policy with a limit for each.
fn ten() -> (RateLimitRequest, String) {
    let request = request((0..10).map(|n| (format!("key-{n}").into(), "user-0000001".into())));
    let rule = |n| format!("\n- {{key: key-{n}, rate_limit: {{requests_per_unit: 4000000000, unit: minute}}}}");
    (request, (0..10).map(rule).collect::<Vec<_>>().concat())
}

fn million_keys(c: &mut Criterion) {
    let mut text = String::new();
    for n in 0..KEYS {
        // A step that has no factor in common with the number of keys visits each of them once, and no two neighbours are
        // near each other in memory.
        write!(text, "user-{:07}", n * 611_953 % KEYS).expect("writing to a string works");
    }
    let text = Bytes::from(text);
    let mut values = (0..KEYS).map(|n| text.slice(n * 12..n * 12 + 12)).cycle();
    let (engine, clock) = (engine(ENOUGH), Clock::start());
    let mut each = request([("user".into(), Bytes::new())]);
    let mut next = || {
        each.descriptors[0].entries[0].value = values.next().expect("a cycle does not end");
        engine.decide(black_box(&each), clock.now())
    };
    for _ in 0..KEYS {
        next().expect("the request is good");
    }
    c.bench_function("decide from memory: a million keys in turn", |b| b.iter(&mut next));
}

fn lease(c: &mut Criterion) {
    let one = request([("user".into(), "user-0000001".into())]);
    for (name, descriptors) in [("hot key", ENOUGH), ("refused", NEARLY_NOTHING)] {
        let mut replica = Replica::new(policy(descriptors), true);
        c.bench_function(&format!("decide from a lease: {name}"), |b| b.iter(|| replica.decide(black_box(&one))));
    }
    let (ten, rules) = ten();
    let mut replica = Replica::new(policy(&rules), true);
    c.bench_function("decide from a lease: ten descriptors", |b| b.iter(|| replica.decide(black_box(&ten))));
}

criterion_group!(benches, memory, million_keys, lease);
criterion_main!(benches);

//! What a decision costs without any network: `cargo bench --bench decide`.
//!
//! The clock is read for each decision, as the server does. Memory is what the process grows by for a million buckets,
//! everything counted, with the allocator that the server has.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a benchmark stops when it cannot run, and prints")]

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use comporta::clock::Clock;
use comporta::engine::{Answer, Engine, EngineSettings, Ruling};
use comporta::limit::Micros;
use comporta::policy::{Defaults, load_texts};
use comporta::request::{Descriptor, Entry, RateLimitRequest};
use comporta::trace::{Face, OtlpProtocol, Ratio, Sampling, Tracer, TracerSettings};
use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderName, HeaderValue};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEYS: usize = 1_000_000;

fn engine() -> Engine {
    let text = "domain: bench\ndescriptors: [{key: user, rate_limit: {requests_per_unit: 4000000000, unit: minute}}]";
    let policy = load_texts(&[("bench.yaml", text)], &Defaults::default()).expect("the policy is good").policy;
    let settings = EngineSettings { max_buckets: 2 * KEYS, ..EngineSettings::default() };
    Engine::new(policy, settings, Clock::start().now())
}

fn request(value: Bytes) -> RateLimitRequest {
    let entries = vec![Entry { key: "user".into(), value }];
    RateLimitRequest {
        domain: "bench".into(),
        descriptors: vec![Descriptor { entries, ..Descriptor::default() }],
        hits_addend: 0,
    }
}

/// As many values as there are keys, in an order in which no two neighbours are near each other in memory.
fn values() -> Vec<Bytes> {
    let mut text = String::new();
    for n in 0..KEYS {
        // A step that has no factor in common with the number of keys visits each of them once.
        write!(text, "user-{:07}", n * 611_953 % KEYS).expect("writing to a string works");
    }
    let text = Bytes::from(text);
    (0..KEYS).map(|n| text.slice(n * 12..n * 12 + 12)).collect()
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("the second number is resident") * 4096
}

fn decide(c: &mut Criterion) {
    let clock = Clock::start();
    let hot = engine();
    let one = request("user-0000001".into());
    c.bench_function("one descriptor, one limit, hot key", |b| b.iter(|| hot.decide(black_box(&one), clock.now())));

    let values = values();
    let cold = engine();
    let before = resident_bytes();
    let mut each = one.clone();
    for value in &values {
        each.descriptors[0].entries[0].value = value.clone();
        cold.decide(&each, clock.now()).expect("the request is good");
    }
    let grown = resident_bytes() - before;
    println!("{} buckets take {grown} bytes: {} bytes a bucket", cold.table().len(), grown / cold.table().len());
    let mut next = values.iter().cycle();
    c.bench_function("one descriptor, one limit, a million keys in turn", |b| {
        b.iter(|| {
            each.descriptors[0].entries[0].value = next.next().expect("a cycle does not end").clone();
            cold.decide(black_box(&each), clock.now())
        });
    });
}

/// How long one shard is locked by a sweep: when all of its buckets stay, and when all of them go.
fn sweep(_: &mut Criterion) {
    const SHARDS: usize = 2 * KEYS / 1_400 + 1;
    let clock = Clock::start();
    let engine = engine();
    let mut each = request("".into());
    for value in values() {
        each.descriptors[0].entries[0].value = value;
        engine.decide(&each, clock.now()).expect("the request is good");
    }
    let mut now = clock.now();
    now.monotonic = Micros(0);
    for (what, hours) in [("stay", 0), ("go", 1)] {
        now.monotonic = now.monotonic + Micros::from_seconds(3_600 * hours);
        let mut micros: Vec<u64> = (0..SHARDS)
            .map(|_| {
                let before = clock.now().monotonic;
                engine.sweep(now, usize::MAX);
                (clock.now().monotonic - before).0
            })
            .collect();
        micros.sort_unstable();
        let (median, largest) = (micros[SHARDS / 2], micros[SHARDS - 1]);
        println!("sweep of a shard whose buckets {what}: median {median} µs, largest of {SHARDS}: {largest} µs");
    }
    assert_eq!(engine.table().len(), 0);
}

/// What a request costs whether or not it is traced, while there is a collector: nearly all are not.
fn trace(c: &mut Criterion) {
    let clock = Arc::new(Clock::start());
    let settings = TracerSettings {
        endpoint: "http://127.0.0.1:9".parse().expect("an address on which nobody listens"),
        protocol: OtlpProtocol::Grpc,
        timeout: Duration::from_secs(1),
        sampling: Sampling::with_ratio(Ratio::NEVER),
        with_values: false,
    };
    let tracer = Tracer::start(&settings, &clock).expect("there is a thread for it");
    let (engine, one) = (engine(), request("user-0000001".into()));
    let headers = |traceparent: Option<&'static str>| {
        let usual = [("te", "trailers"), ("content-type", "application/grpc"), ("grpc-timeout", "100m")];
        let envoys = [("x-envoy-internal", "true"), ("x-request-id", "5b3f8a0e"), ("user-agent", "envoy")];
        let all = usual.into_iter().chain(envoys).chain(traceparent.map(|value| ("traceparent", value)));
        all.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect::<HeaderMap>()
    };
    for (what, traceparent) in [
        ("no traceparent", None),
        ("not sampled", Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")),
        ("sampled", Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
    ] {
        let headers = headers(traceparent);
        c.bench_function(&format!("whether to trace: {what}"), |b| {
            b.iter(|| tracer.pick(black_box(&headers), Face::Grpc));
        });
    }
    let sampled = headers(Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    let Ok(Ruling { answer: Answer::Decided(decision), .. }) = engine.decide(&one, clock.now()) else { return };
    c.bench_function("the span of a request", |b| {
        b.iter(|| {
            let picked = tracer.pick(black_box(&sampled), Face::Grpc).expect("it is sampled");
            picked.begin(&one, clock.read()).decided(&decision, false);
        });
    });
}

criterion_group!(benches, decide, trace, sweep);
criterion_main!(benches);

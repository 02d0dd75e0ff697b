//! What tracing costs a request while there is a collector; nearly all are not traced: `cargo bench --bench trace`.

#![expect(clippy::expect_used, reason = "a benchmark stops when it cannot run")]

#[path = "fixture/policy.rs"]
mod policy;
#[path = "fixture/request.rs"]
mod request;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use comporta::clock::Clock;
use comporta::engine::{Answer, Engine, EngineSettings, Ruling};
use comporta::trace::{Face, OtlpProtocol, Ratio, Sampling, Tracer, TracerSettings};
use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderName, HeaderValue};

use policy::policy;
use request::request;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    let policy = policy("[{key: user, rate_limit: {requests_per_unit: 4000000000, unit: minute}}]");
    let engine = Engine::new(policy, EngineSettings::default(), clock.now());
    let one = request([("user".into(), "user-0000001".into())]);
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

criterion_group!(benches, trace);
criterion_main!(benches);

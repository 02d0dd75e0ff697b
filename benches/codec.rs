//! What reading a request and writing an answer cost: `cargo bench --bench codec`.

#![expect(clippy::expect_used, reason = "a benchmark stops when it cannot run")]

#[path = "fixture/request.rs"]
mod request;

use std::hint::black_box;

use bytes::Bytes;
use comporta::request::RateLimitRequest;
use criterion::{Criterion, criterion_group, criterion_main};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{DescriptorStatus, RateLimit};
use envoy_types::pb::google::protobuf::Duration;
use prost::Message;

use request::request;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn codec(c: &mut Criterion) {
    for descriptors in [1, 10] {
        let all = (0..descriptors).map(|n| (format!("key-{n}").into(), "user-0000001".into()));
        let message: Bytes = request(all).encode_to_vec().into();
        c.bench_function(&format!("read a request: {descriptors} descriptors"), |b| {
            b.iter(|| RateLimitRequest::read(black_box(&message).clone()).expect("it is a request"));
        });
        let limit = RateLimit { name: String::new(), requests_per_unit: 4_000_000_000, unit: 2 };
        let status = DescriptorStatus {
            code: 1,
            current_limit: Some(limit),
            limit_remaining: 3_999_999_999,
            duration_until_reset: Some(Duration { seconds: 1, nanos: 0 }),
            ..Default::default()
        };
        let statuses = vec![status; descriptors];
        let response = RateLimitResponse { overall_code: 1, statuses, ..Default::default() };
        c.bench_function(&format!("write an answer: {descriptors} statuses"), |b| {
            b.iter(|| black_box(&response).encode_to_vec());
        });
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);

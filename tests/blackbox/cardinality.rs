//! However many values, limits and domains clients make up: what is kept of them, and what `/metrics` shows, is bounded.

use std::env;
use std::ops::Range;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;

use crate::harness::grpc::{Client, ask, descriptor, request};
use crate::harness::{Comporta, Setup, http};

const POLICY: &str = "
domain: d
descriptors:
  - {key: plain, rate_limit: {requests_per_unit: 2, unit: day}}
  - {key: shown, value_to_metric: true, rate_limit: {requests_per_unit: 2, unit: day}}
  - {key: detailed, detailed_metric: true, rate_limit: {requests_per_unit: 2, unit: day}}
";

const MILLION: u32 = 1_000_000;

/// Descriptors in a request.
const BATCH: u32 = 100;

/// Far less than a million of anything takes.
const A_LITTLE: u64 = 24 * 1024 * 1024;

/// What `/metrics` shows: how many series there are, and the memory of the process.
fn size(comporta: &Comporta) -> (usize, u64) {
    let page = http::get(comporta.addresses.admin, "/metrics").unwrap().body;
    let memory = page.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap();
    (page.lines().filter(|line| !line.starts_with('#')).count(), memory.parse().unwrap())
}

async fn ask_in_batches(client: &mut Client, numbers: Range<u32>, ask_for: impl Fn(u32) -> RateLimitRequest) {
    for first in numbers.step_by(BATCH as usize) {
        ask(client, ask_for(first)).await.unwrap();
    }
}

fn values(key: &'static str) -> impl Fn(u32) -> RateLimitRequest {
    move |first| {
        let descriptors = (first..first + BATCH).map(|number| descriptor(&format!("{key}={number}")));
        RateLimitRequest { descriptors: descriptors.collect(), ..request("d", []) }
    }
}

/// Limits that requests bring, each on a key of its own.
fn overrides(first: u32) -> RateLimitRequest {
    let mut asked = values("own")(first);
    for (number, descriptor) in (first..).zip(&mut asked.descriptors) {
        descriptor.limit = Some(RateLimitOverride { requests_per_unit: number + 1, unit: 4 });
    }
    asked
}

#[tokio::test]
async fn a_million_values_limits_and_domains_leave_series_and_memory_as_they_are() {
    let setup = Setup::new(POLICY).flags(["--max-buckets=10000"]);
    let comporta = setup.start();
    let mut client = comporta.client();
    // As many as there is room for, of everything.
    let few = 0..2 * 10_000;
    ask_in_batches(&mut client, few.clone(), values("plain")).await;
    ask_in_batches(&mut client, few.clone(), values("shown")).await;
    ask_in_batches(&mut client, few.clone(), values("detailed")).await;
    ask_in_batches(&mut client, few.clone(), overrides).await;
    ask(&mut client, request("nowhere", ["plain=1"])).await.unwrap();
    let (series, memory) = size(&comporta);
    assert!((200..500).contains(&series), "twice a hundred values, and all else: {series} series");

    let many = few.end..few.end + MILLION;
    ask_in_batches(&mut client, many.clone(), values("plain")).await;
    ask_in_batches(&mut client, many.clone(), values("shown")).await;
    ask_in_batches(&mut client, many.clone(), overrides).await;
    // A request has one domain, so a million of them take minutes.
    let domains = if env::var_os("COMPORTA_SOAK").is_some() { MILLION } else { 20_000 };
    for number in 0..domains {
        ask(&mut client, request(&format!("domain-{number}"), ["plain=1"])).await.unwrap();
    }
    let (series_then, memory_then) = size(&comporta);
    assert_eq!(series_then, series);
    assert!(memory_then < memory + A_LITTLE, "{memory} bytes have become {memory_then}");
}

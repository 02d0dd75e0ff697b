//! The two faces say the same: `/json` compared with gRPC, field by field, over random requests.
//!
//! Two instances serve the same policy and get the same requests in the same order, one over gRPC and one over HTTP.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use envoy_types::pb::google::protobuf::UInt64Value;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::harness::grpc::{self, struct_to_json};
use crate::harness::{Setup, http};

const REQUESTS: usize = 600;

/// Another seed makes other requests.
const SEED: [u8; 32] = *b"the same question in two tongues";

/// Everything that a policy can say. No limit gives a hit back while the test runs, so both instances count alike.
const POLICY: &str = r#"
domain: d
plans:
  small: {unit: year, requests_per_unit: 5}
  two: [{unit: month, requests_per_unit: 20}, {unit: year, requests_per_unit: 30, algorithm: fixed_window, name: yearly}]
descriptors:
  - key: tenant
    plan: small
    tenants: {acme: two, "partner-*": {unit: day, requests_per_unit: 3, burst: 12}}
    metadata: {level: tenant, nested: {number: 1.5, list: [1, two, null, true]}}
    descriptors:
      - {key: path, value: /export*, rate_limit: {unit: week, requests_per_unit: 4}, metadata: {level: path, nested: {deep: {er: 1}}}}
      - {key: path, value: /search*, share_threshold: true, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 6}}
      - {key: path, value: /, rate_limit: {unlimited: true}}
  - {key: window, rate_limit: {unit: year, requests_per_unit: 40, algorithm: fixed_window, name: window}}
  - {key: budget, rate_limit: {unit: year, unit_multiplier: 2, requests_per_unit: 1000, burst: 100, overdraft: true}}
  - {key: quota, value: one, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 8}}
  - {key: quota, value: two, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 16}}
  - {key: vip, rate_limit: {unit: year, requests_per_unit: 50, replaces: [{name: window}]}}
  - {key: blocked, rate_limit: {unit: day, requests_per_unit: 0}}
"#;

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let name = select(vec!["acme", "globex", "initech", "partner-1", "partner-2", "caf\u{e9} \"\\\u{1}"]);
    let path = select(vec!["/", "/export", "/export?all=1", "/search", "/elsewhere"]);
    let other = select(vec!["window=", "window=w", "budget=b", "quota=one", "quota=two", "vip=v", "blocked=b", "x=y"]);
    prop_oneof![
        4 => name.clone().prop_map(|name| vec![entry("tenant", name)]),
        4 => (name, path).prop_map(|(name, path)| vec![entry("tenant", name), entry("path", path)]),
        8 => other.prop_map(|pair| vec![grpc::entry(pair)]),
        1 => vec(any::<(String, String)>().prop_map(|(key, value)| entry(&key, &value)), 0..3),
    ]
}

fn entry(key: &str, value: &str) -> Entry {
    Entry { key: key.to_owned(), value: value.to_owned() }
}

/// Limits of hours and more, and units that do not exist.
fn limit() -> impl Strategy<Value = RateLimitOverride> {
    let unit = prop_oneof![9 => 3..=7_i32, 1 => select(vec![-1, 0, 8])];
    (0..10_u32, unit).prop_map(|(requests_per_unit, unit)| RateLimitOverride { requests_per_unit, unit })
}

fn descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let hits = prop_oneof![2 => Just(0), 4 => 1..10_u64, 1 => 10..200_u64, 1 => any::<u64>()];
    (entries(), weighted(0.05, limit()), weighted(0.4, hits), proptest::bool::weighted(0.2)).prop_map(
        |(entries, limit, hits, is_negative_hits)| RateLimitDescriptor {
            entries,
            limit,
            hits_addend: hits.map(|value| UInt64Value { value }),
            is_negative_hits,
        },
    )
}

fn request() -> impl Strategy<Value = RateLimitRequest> {
    let domain = prop_oneof![40 => Just("d"), 1 => Just("elsewhere"), 1 => Just("")];
    let descriptors = prop_oneof![40 => vec(descriptor(), 1..5), 1 => Just(Vec::new())];
    let hits = prop_oneof![6 => Just(0), 2 => 1..4_u32, 1 => any::<u32>()];
    (domain, descriptors, hits).prop_map(|(domain, descriptors, hits_addend)| RateLimitRequest {
        domain: domain.to_owned(),
        descriptors,
        hits_addend,
    })
}

fn request_to_json(request: &RateLimitRequest) -> Value {
    let entry = |entry: &Entry| json!({"key": entry.key, "value": entry.value});
    let unit = |unit: i32| RateLimitUnit::try_from(unit).map_or(json!(unit), |unit| json!(unit.as_str_name()));
    let limit =
        |limit: &RateLimitOverride| json!({"requestsPerUnit": limit.requests_per_unit, "unit": unit(limit.unit)});
    let descriptor = |descriptor: &RateLimitDescriptor| {
        json!({
            "entries": descriptor.entries.iter().map(entry).collect::<Value>(),
            "limit": descriptor.limit.as_ref().map(limit),
            // proto3 JSON writes 64-bit numbers as text.
            "hitsAddend": descriptor.hits_addend.map(|hits| hits.value.to_string()),
            "isNegativeHits": descriptor.is_negative_hits,
        })
    };
    json!({
        "domain": request.domain,
        "descriptors": request.descriptors.iter().map(descriptor).collect::<Value>(),
        "hitsAddend": request.hits_addend,
    })
}

fn response_to_json(response: &RateLimitResponse) -> Value {
    let header = |header: &HeaderValue| json!({"key": header.key, "value": header.value});
    let headers = |headers: &[HeaderValue]| headers.iter().map(header).collect::<Value>();
    let status = |status: &DescriptorStatus| {
        let limit = status.current_limit.as_ref();
        json!({
            "code": status.code().as_str_name(),
            "currentLimit": limit.map(|limit| json!({
                "name": limit.name,
                "requestsPerUnit": limit.requests_per_unit,
                "unit": limit.unit().as_str_name(),
            })),
            "limitRemaining": status.limit_remaining,
            "durationUntilReset": status.duration_until_reset.map(|duration| format!("{}s", duration.seconds)),
        })
    };
    json!({
        "overallCode": response.overall_code().as_str_name(),
        "statuses": response.statuses.iter().map(status).collect::<Value>(),
        "responseHeadersToAdd": headers(&response.response_headers_to_add),
        "requestHeadersToAdd": headers(&response.request_headers_to_add),
        "dynamicMetadata": response.dynamic_metadata.as_ref().map(struct_to_json),
    })
}

/// The status and the body that HTTP must have for an answer over gRPC.
fn answer_to_http(answer: Result<RateLimitResponse, tonic::Status>) -> (u16, Value) {
    match answer {
        Ok(response) => {
            let status = if response.overall_code() == Code::OverLimit { 429 } else { 200 };
            // Read from text, as the other one is: `serde_json` reads a float of 17 digits only nearly.
            (status, response_to_json(&response).to_string().parse().unwrap())
        }
        Err(status) => {
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
            (400, json!({"error": status.message()}))
        }
    }
}

/// Takes the whole seconds out of an answer: the instances are asked one after the other, so these may differ a little.
fn take_seconds(answer: &mut Value) -> Vec<Option<u64>> {
    const TIMES: [&str; 2] = ["ratelimit-reset", "retry-after"];
    let mut times: Vec<_> = items(answer, "statuses").map(|status| status["durationUntilReset"].take()).collect();
    let headers = items(answer, "responseHeadersToAdd");
    times.extend(
        headers.filter(|header| TIMES.iter().any(|name| header["key"] == *name)).map(|header| header["value"].take()),
    );
    // A status without a limit has no time either.
    let seconds = |time: &str| time.trim_end_matches('s').parse().unwrap_or_else(|_| panic!("{time} are no seconds"));
    times.iter().map(|time| time.as_str().map(seconds)).collect()
}

/// Whether the times of two answers are the same but for so many seconds.
fn are_close(times: &[Option<u64>], others: &[Option<u64>], most: u64) -> bool {
    let is_close = |pair| match pair {
        (Some(time), Some(other)) => u64::abs_diff(time, other) <= most,
        (time, other) => time == other,
    };
    times.len() == others.len() && times.iter().copied().zip(others.iter().copied()).all(is_close)
}

/// The items of a list in an answer; none where it has no such list.
fn items<'a>(answer: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    answer.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

#[tokio::test(flavor = "multi_thread")]
async fn json_and_grpc_answer_alike() {
    let setups = [(); 2].map(|()| Setup::new(POLICY).flags(["--response-headers", "--response-dynamic-metadata"]));
    let [asked_by_grpc, asked_by_http] = setups.each_ref().map(Setup::start);
    let mut client = asked_by_grpc.client();
    let mut random = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    let requests = request();
    let mut longest_pause = Duration::ZERO;
    let mut times_seen = BTreeMap::new();

    for number in 0..REQUESTS {
        let request = requests.new_tree(&mut random).unwrap().current();
        let body = request_to_json(&request).to_string();
        let asked_at = Instant::now();
        let (status, mut by_grpc) = answer_to_http(grpc::ask(&mut client, request).await);
        let response = http::post_json(asked_by_http.addresses.http, "/json", &body).unwrap();
        longest_pause = longest_pause.max(asked_at.elapsed());
        let mut by_http = response.json();

        let which = format!("request {number} of the seed {:?}: {body}", String::from_utf8_lossy(&SEED));
        let (grpc_seconds, http_seconds) = (take_seconds(&mut by_grpc), take_seconds(&mut by_http));
        assert_eq!((status, &by_grpc), (response.status, &by_http), "gRPC and HTTP differ in {which}");
        // One second by rounding, and more when this machine has paused between the two questions.
        let most = 1 + longest_pause.as_secs();
        assert!(
            are_close(&grpc_seconds, &http_seconds, most),
            "gRPC says {grpc_seconds:?} and HTTP {http_seconds:?} in {which}"
        );
        *times_seen.entry(status).or_insert(0) += 1;
    }
    for (status, at_least) in [(200, 100), (429, 100), (400, 10)] {
        let seen = times_seen.get(&status).copied().unwrap_or(0);
        assert!(seen >= at_least, "the requests are no good: {times_seen:?}");
    }
}

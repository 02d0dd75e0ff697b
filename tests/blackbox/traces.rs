//! What is traced, by a collector that takes it.

mod collectors;
mod settings;

use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use serde_json::json;
use tonic::Status;

use crate::harness::grpc::{Client, request};
use crate::harness::{Collector, Comporta, PATIENCE, Redis, Setup, Span, http};

const POLICY: &str = "
domain: d
descriptors:
  - {key: tenant, rate_limit: {requests_per_unit: 3, unit: hour}}
  - {key: hot, rate_limit: {requests_per_unit: 100000, unit: second}}
  - {key: own, rate_limit: {requests_per_unit: 3, unit: hour, scope: replica}}
  - {key: lost, rate_limit: {requests_per_unit: 3, unit: hour, failure_mode: unavailable}}
";

/// A trace of a caller, by its number.
fn trace(number: u32) -> String {
    format!("4bf92f3577b34da6a3ce929d{number:08x}")
}

/// The span in it that asks us.
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(number: u32, flags: &str) -> String {
    format!("00-{}-{PARENT}-{flags}", trace(number))
}

/// Flags of `serve` that send traces there.
fn to(collector: &Collector, protocol: &str) -> [String; 2] {
    [format!("--otlp-endpoint={}", collector.url()), format!("--otlp-protocol={protocol}")]
}

fn with_redis(collector: &Collector, redis: &Redis) -> Vec<String> {
    let redis = ["--redis-url".to_owned(), redis.url(), "--redis-timeout=1s".to_owned()];
    to(collector, "grpc").into_iter().chain(redis).collect()
}

/// Asks for one hit on a descriptor of one entry, with these headers.
async fn ask(
    client: &mut Client,
    entry: &str,
    headers: &[(&'static str, String)],
) -> Result<RateLimitResponse, Status> {
    let mut request = tonic::Request::new(request("d", [entry]));
    request.set_timeout(PATIENCE);
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    client.should_rate_limit(request).await.map(tonic::Response::into_inner)
}

async fn ask_in_trace(client: &mut Client, entry: &str, number: u32) -> Code {
    ask(client, entry, &[("traceparent", traceparent(number, "01"))]).await.unwrap().overall_code()
}

fn post(comporta: &Comporta, entry: (&str, &str), traceparent: &str) -> u16 {
    let body = format!(
        r#"{{"domain": "d", "descriptors": [{{"entries": [{{"key": "{}", "value": "{}"}}]}}]}}"#,
        entry.0, entry.1
    );
    let headers: [(&str, &[u8]); 1] = [("traceparent", traceparent.as_bytes())];
    http::request(comporta.addresses.http, "POST", "/json", &headers, body.as_bytes()).unwrap().status
}

/// The span of a request, and those of the calls that it has waited for.
fn request_and_calls(spans: &[Span]) -> (&Span, Vec<&Span>) {
    let (mut requests, calls): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| span.name == "ShouldRateLimit");
    let request = requests.pop().expect("the span of the request");
    assert!(requests.is_empty(), "one request, one span: {requests:?}");
    (request, calls)
}

#[tokio::test]
async fn a_request_that_its_caller_traces_is_followed_to_redis() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let setup = Setup::new(POLICY).flags(with_redis(&collector, &redis));
    let comporta = setup.start();
    let headers = [("traceparent", traceparent(1, "01")), ("tracestate", "vendor=a,other=b".to_owned())];
    let answer = ask(&mut comporta.client(), "tenant=acme", &headers).await.unwrap();
    assert_eq!(answer.overall_code(), Code::Ok);

    let spans = collector.wait_for_trace(&trace(1), 2);
    let (request, calls) = request_and_calls(&spans);
    assert_eq!((request.kind, &*request.parent), (Collector::SERVER, PARENT));
    assert_eq!(request.get("rpc.system.name"), "grpc");
    assert_eq!(request.get("rpc.method"), "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
    assert_eq!(request.get("rpc.response.status_code"), "OK");
    assert_eq!(request.get("comporta.domain"), "d");
    assert_eq!(request.get("comporta.descriptors"), &json!(["tenant"]));
    assert_eq!(request.get("comporta.descriptor.codes"), &json!(["ok"]));
    assert_eq!(request.get("comporta.hits"), 1);
    assert_eq!(request.get("comporta.code"), "ok");
    assert_eq!(request.get("comporta.source"), "store");
    assert_eq!(request.get("comporta.waited"), true);
    assert_eq!(request.get("comporta.replica"), &request.resource["service.instance.id"]);
    assert_eq!(request.resource["service.name"], "comporta");
    assert_eq!(request.resource["service.version"], env!("CARGO_PKG_VERSION"));

    let call = calls[0];
    assert_eq!((&*call.name, call.kind, &call.parent), ("store.acquire", Collector::CLIENT, &request.id));
    assert_eq!(call.get("db.system.name"), "redis");
    assert_eq!(call.get("db.operation.name"), "EVALSHA");
    assert_eq!(call.get("db.stored_procedure.name"), "token_bucket.lua");
    assert_eq!(call.get("server.address"), &json!(redis.address().ip().to_string()));
    assert_eq!(call.get("server.port"), &json!(redis.address().port()));
    assert_eq!(call.get("comporta.rule"), "{d|tenant}:hour");
    assert_eq!(call.get("comporta.needed"), 1);
    assert_eq!(call.get("comporta.granted"), true);
    assert_eq!(call.get("comporta.background"), false);
    for span in &spans {
        assert_eq!(span.state, "vendor=a,other=b");
        assert!(!span.is_error && span.start < span.end, "{span:?}");
    }
    assert!(request.start <= call.start && call.end <= request.end, "{request:?} {call:?}");
}

#[tokio::test]
async fn a_refusal_and_its_wait_are_told() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let setup = Setup::new(POLICY).flags(with_redis(&collector, &redis));
    let comporta = setup.start();
    // Another replica uses up what there is, so that this one has to ask.
    let other = Setup::new(POLICY).flags(["--redis-url".to_owned(), redis.url(), "--redis-timeout=1s".to_owned()]);
    let other = other.start();
    for _ in 0..3 {
        assert_eq!(post(&other, ("tenant", "acme"), ""), 200);
    }
    assert_eq!(ask_in_trace(&mut comporta.client(), "tenant=acme", 3).await, Code::OverLimit);
    let spans = collector.wait_for_trace(&trace(3), 2);
    let (request, calls) = request_and_calls(&spans);
    assert_eq!(
        (request.get("comporta.code"), request.get("rpc.response.status_code")),
        (&json!("over_limit"), &json!("OK"))
    );
    assert_eq!(calls[0].get("comporta.granted"), false);
    let wait = calls[0].get("comporta.retry_after").as_f64().unwrap();
    assert!((1_100.0..=1_200.0).contains(&wait), "a third of an hour: {wait}");
}

#[tokio::test]
async fn a_request_over_http_is_traced_as_such() {
    let collector = Collector::http();
    let setup = Setup::new(POLICY).flags(to(&collector, "http/protobuf"));
    let comporta = setup.start();
    assert_eq!(post(&comporta, ("own", "x"), &traceparent(1, "01")), 200);
    let spans = collector.wait_for_trace(&trace(1), 1);
    let (request, _) = request_and_calls(&spans);
    assert_eq!((request.kind, &*request.parent), (Collector::SERVER, PARENT));
    assert_eq!(request.get("http.request.method"), "POST");
    assert_eq!(request.get("http.route"), "/json");
    assert_eq!(request.get("http.response.status_code"), 200);
    assert_eq!((request.get("comporta.source"), request.get("comporta.waited")), (&json!("local"), &json!(false)));
    assert!(!request.attributes.contains_key("rpc.system.name"), "{request:?}");
}

#[tokio::test]
async fn what_the_caller_does_not_trace_leaves_no_span() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let setup = Setup::new(POLICY).flags(with_redis(&collector, &redis));
    let comporta = setup.start();
    let mut client = comporta.client();
    let wrong =
        ["", "01", &traceparent(1, "01").to_uppercase(), &format!("{}x", traceparent(1, "01"))].map(str::to_owned);
    for header in wrong.into_iter().chain([traceparent(1, "00"), traceparent(1, "02")]) {
        ask(&mut client, "hot=x", &[("traceparent", header.clone())]).await.unwrap();
        post(&comporta, ("hot", "x"), &header);
    }
    for _ in 0..200 {
        ask(&mut client, "hot=x", &[]).await.unwrap();
    }
    // What is sent is sent in order, so anything else would be there before this.
    ask_in_trace(&mut client, "own=last", 2).await;
    collector.wait_for_trace(&trace(2), 1);
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == trace(2)), "{spans:#?}");
}

#[tokio::test]
async fn a_ratio_traces_what_nobody_else_does() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let flags = with_redis(&collector, &redis).into_iter().chain(["--trace-ratio=1".to_owned()]);
    let setup = Setup::new(POLICY).flags(flags);
    let comporta = setup.start();
    let mut client = comporta.client();
    ask(&mut client, "tenant=x", &[]).await.unwrap();
    ask(&mut client, "tenant=y", &[("traceparent", traceparent(1, "00"))]).await.unwrap();
    collector.wait_for_trace(&trace(1), 2);
    let spans = collector.wait_for("both", |spans| (spans.len() >= 4).then(|| spans.to_vec()));
    let roots: Vec<&Span> = spans.iter().filter(|span| span.parent.is_empty()).collect();
    assert_eq!((roots.len(), &*roots[0].name), (1, "ShouldRateLimit"), "{spans:#?}");
    assert_ne!(roots[0].trace, trace(1));
}

#[tokio::test]
async fn a_call_that_an_untraced_request_waits_for_is_not_traced_though_calls_in_the_background_are() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let setup = Setup::new(POLICY)
        .flags(with_redis(&collector, &redis))
        .environment([("OTEL_TRACES_SAMPLER", "parentbased_always_on")]);
    let comporta = setup.start();
    ask(&mut comporta.client(), "tenant=x", &[("traceparent", traceparent(1, "00"))]).await.unwrap();
    assert!(comporta.stop().success());
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.get("comporta.background") == true), "{spans:#?}");
}

#[tokio::test]
async fn what_is_borrowed_in_the_background_has_a_trace_of_its_own_with_a_link() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let setup = Setup::new(POLICY).flags(with_redis(&collector, &redis));
    let comporta = setup.start();
    let mut client = comporta.client();
    let mut number = 0;
    let linked = loop {
        for _ in 0..100 {
            number += 1;
            ask_in_trace(&mut client, "hot=x", number).await;
        }
        if let Some(linked) = collector.spans().into_iter().find(|span| !span.links.is_empty()) {
            break linked;
        }
        assert!(number < 100_000, "nothing is borrowed in the background");
    };
    assert_eq!((&*linked.name, linked.kind, &*linked.parent), ("store.acquire", Collector::CLIENT, ""));
    assert_eq!(linked.get("comporta.background"), true);
    assert_eq!(linked.get("comporta.needed"), 0);
    assert!(linked.get("comporta.want").as_u64().unwrap() > 0, "{linked:?}");
    let (cause, of_request) = &linked.links[0];
    assert_ne!(*cause, linked.trace);
    let spans = collector.wait_for_trace(cause, 1);
    let (request, calls) = request_and_calls(&spans);
    assert_eq!((&request.id, request.get("comporta.waited")), (of_request, &json!(false)));
    assert!(calls.is_empty(), "it has not waited for it: {calls:?}");
}

#[tokio::test]
async fn values_leave_the_process_only_if_that_is_wanted() {
    for is_wanted in [false, true] {
        let (collector, redis) = (Collector::grpc(), Redis::start());
        let flags = with_redis(&collector, &redis).into_iter().chain([format!("--trace-values={is_wanted}")]);
        let setup = Setup::new(POLICY).flags(flags);
        let comporta = setup.start();
        let long = format!("tenant={}", "topsecret".repeat(50));
        ask_in_trace(&mut comporta.client(), "tenant=topsecret", 1).await;
        ask_in_trace(&mut comporta.client(), &long, 2).await;
        // Of a key with the wrong type Redis tells the name in its errors.
        redis.command::<()>(&["SET", "comporta:{d|tenant=topsecret2}:hour", "x"]);
        ask_in_trace(&mut comporta.client(), "tenant=topsecret2", 3).await;
        let spans = collector.wait_for_trace(&trace(1), 2);
        collector.wait_for_trace(&trace(2), 2);
        collector.wait_for_trace(&trace(3), 2);
        assert_eq!(collector.has_seen("topsecret"), is_wanted);
        let (request, calls) = request_and_calls(&spans);
        let descriptors = if is_wanted { "tenant=topsecret" } else { "tenant" };
        assert_eq!(request.get("comporta.descriptors"), &json!([descriptors]));
        let bucket = is_wanted.then(|| json!("{d|tenant=topsecret}:hour"));
        assert_eq!(calls[0].attributes.get("comporta.bucket"), bucket.as_ref());
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told() {
    let (collector, mut redis) = (Collector::grpc(), Redis::start());
    let setup = Setup::new(POLICY).flags(with_redis(&collector, &redis));
    let comporta = setup.start();
    let mut client = comporta.client();
    redis.kill();
    crate::harness::wait_for("the loss to be noticed", || comporta.log().contains("cannot be reached").then_some(()));
    let headers = [("traceparent", traceparent(1, "01"))];
    assert_eq!(ask(&mut client, "lost=x", &headers).await.unwrap_err().code(), tonic::Code::Unavailable);
    let spans = collector.wait_for_trace(&trace(1), 2);
    let (request, calls) = request_and_calls(&spans);
    assert_eq!((request.is_error, request.get("rpc.response.status_code")), (true, &json!("UNAVAILABLE")));
    assert_eq!((calls[0].is_error, calls[0].get("error.type")), (true, &json!("unreachable")));

    let mut invalid = tonic::Request::new(request_without_domain());
    invalid.metadata_mut().insert("traceparent", traceparent(2, "01").parse().unwrap());
    assert_eq!(client.should_rate_limit(invalid).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    let spans = collector.wait_for_trace(&trace(2), 1);
    assert_eq!((spans[0].is_error, spans[0].get("rpc.response.status_code")), (false, &json!("INVALID_ARGUMENT")));
}

fn request_without_domain() -> envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest {
    request("", ["tenant=x"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_is_told() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let setup = Setup::new(POLICY).flags(with_redis(&collector, &redis));
    let comporta = setup.start();
    let mut client = comporta.client();
    // Opens the connection.
    ask(&mut client, "own=x", &[]).await.unwrap();
    redis.pause();
    let headers = [("traceparent", traceparent(1, "01"))];
    let left = tokio::time::timeout(Duration::from_millis(200), ask(&mut client, "tenant=x", &headers)).await;
    assert!(left.is_err(), "it was answered: {left:?}");
    let spans = collector.wait_for_trace(&trace(1), 1);
    let (request, _) = request_and_calls(&spans);
    assert_eq!(request.get("rpc.response.status_code"), "CANCELLED");
    redis.resume();
}

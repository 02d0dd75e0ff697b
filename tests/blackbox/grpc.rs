//! The gRPC face, beyond what the conformance cases can say.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use tokio_stream::once;
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use crate::harness::grpc::{ask, code, descriptor, request};
use crate::harness::{Comporta, Setup, http};

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

const POLICY: &str = "
domain: d
descriptors:
  - {key: two, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: many, rate_limit: {unit: year, requests_per_unit: 10000}}
  - {key: left, rate_limit: {unit: year, requests_per_unit: 50}}
  - {key: right, rate_limit: {unit: year, requests_per_unit: 50}}
";

fn serve() -> (Setup, Comporta) {
    Comporta::with_policy(POLICY)
}

/// Envoy's request as it is on the wire: the texts are whatever bytes the HTTP headers had.
mod wire {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Request {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) domain: Vec<u8>,
        #[prost(message, repeated, tag = "2")]
        pub(super) descriptors: Vec<Descriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Descriptor {
        #[prost(message, repeated, tag = "1")]
        pub(super) entries: Vec<Entry>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Entry {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) key: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) value: Vec<u8>,
    }

    /// A message that cannot be read as a request: its first field is a number.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NotARequest {
        #[prost(uint64, tag = "1")]
        pub(super) domain: u64,
    }
}

/// Calls any method with any message.
async fn call<M: prost::Message + 'static>(
    channel: Channel,
    path: &'static str,
    message: M,
) -> Result<RateLimitResponse, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("a connection");
    let codec = tonic_prost::ProstCodec::<M, RateLimitResponse>::default();
    let answer = client.unary(tonic::Request::new(message), PathAndQuery::from_static(path), codec).await;
    answer.map(tonic::Response::into_inner)
}

/// The overall code of one hit by a value of these bytes.
async fn hit_by_bytes(comporta: &Comporta, key: &str, value: &[u8]) -> Code {
    let entry = wire::Entry { key: key.into(), value: value.into() };
    let request = wire::Request { domain: "d".into(), descriptors: vec![wire::Descriptor { entries: vec![entry] }] };
    call(comporta.channel(), METHOD, request).await.unwrap().overall_code()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_request_is_an_invalid_argument_that_says_why() {
    let (_setup, comporta) = serve();
    let mut client = comporta.client();
    let unit_unknown = RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 1, unit: 99 }),
        ..descriptor("two=1")
    };
    for (wrong, word) in [
        (request("", ["two=1"]), "domain"),
        (request("d", []), "descriptor"),
        (RateLimitRequest { descriptors: vec![unit_unknown], ..request("d", []) }, "unit"),
    ] {
        let status = ask(&mut client, wrong).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
        assert!(status.message().contains(word), "{word} is not in: {}", status.message());
    }
    assert_eq!(code(&mut client, ["two=1", "two=1"]).await, Code::Ok, "refusals take nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_method_or_service_is_unimplemented() {
    let (_setup, comporta) = serve();
    for path in ["/envoy.service.ratelimit.v3.RateLimitService/Ask", "/envoy.Nothing/ShouldRateLimit"] {
        let status = call(comporta.channel(), path, request("d", ["two=1"])).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unimplemented, "{path}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_not_utf8_are_limited_like_any_other() {
    let (_setup, comporta) = serve();
    for wanted in [Code::Ok, Code::Ok, Code::OverLimit] {
        assert_eq!(hit_by_bytes(&comporta, "two", b"caf\xe9 \xff\x00").await, wanted);
    }
    assert_eq!(hit_by_bytes(&comporta, "two", b"caf\xe9 \xfe\x00").await, Code::Ok, "other bytes, another bucket");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_and_a_key_that_are_not_utf8_match_nothing() {
    let (_setup, comporta) = serve();
    let entry = wire::Entry { key: b"two\xff".to_vec(), value: b"1".to_vec() };
    let descriptors = vec![wire::Descriptor { entries: vec![entry] }];
    for domain in [b"d".as_slice(), b"\xff"] {
        let request = wire::Request { domain: domain.to_vec(), descriptors: descriptors.clone() };
        let answer = call(comporta.channel(), METHOD, request).await.unwrap();
        assert_eq!(answer.overall_code(), Code::Ok);
        assert_eq!(answer.statuses[0].current_limit, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_whole_message_is_bounded_and_at_4_mib() {
    let (_setup, comporta) = serve();
    let mut client = comporta.client();
    let with_value_of = |length: usize| {
        let entry = Entry { key: "two".to_owned(), value: "x".repeat(length) };
        let descriptors = vec![RateLimitDescriptor { entries: vec![entry], ..Default::default() }];
        RateLimitRequest { descriptors, ..request("d", []) }
    };
    for wanted in [Code::Ok, Code::Ok, Code::OverLimit] {
        let answer = ask(&mut client, with_value_of(4 * 1024 * 1024 - 1024)).await.unwrap();
        assert_eq!(answer.overall_code(), wanted, "a value of nearly 4 MiB has a bucket");
    }
    let status = ask(&mut client, with_value_of(4 * 1024 * 1024)).await.unwrap_err();
    assert!(matches!(status.code(), tonic::Code::OutOfRange | tonic::Code::ResourceExhausted), "{status}");
    assert_eq!(code(&mut client, ["two=1"]).await, Code::Ok, "the service lives on");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_does_not_end_the_service() {
    let (_setup, mut comporta) = serve();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let noise: Vec<u8> = (0..64 * 1024_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for bytes in [noise.as_slice(), b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", preface, &[preface, &noise].concat(), b"\0"] {
        let mut stream = TcpStream::connect(comporta.addresses.grpc).unwrap();
        stream.set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
        // The service may have hung up before the last byte is sent, and closes or answers as it likes.
        let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let status = call(comporta.channel(), METHOD, wire::NotARequest { domain: 7 }).await.unwrap_err();
    assert!(matches!(status.code(), tonic::Code::Internal | tonic::Code::InvalidArgument), "{status}");

    assert!(comporta.is_running());
    assert_eq!(code(&mut comporta.client(), ["two=1"]).await, Code::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_for_the_server_and_for_both_names_of_the_service() {
    let (_setup, comporta) = serve();
    let mut client = HealthClient::new(comporta.channel());
    for service in ["", SERVICE, "ratelimit"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = client.check(request).await.unwrap_or_else(|status| panic!("{service:?}: {status}"));
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving, "{service:?}");
    }
    let status = client.check(HealthCheckRequest { service: "other".to_owned() }).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_v1_lists_the_service_and_serves_its_file() {
    use v1::server_reflection_request::MessageRequest;
    use v1::server_reflection_response::MessageResponse;

    let (_setup, comporta) = serve();
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(comporta.channel());
    let mut reflect = async |message| {
        let request = v1::ServerReflectionRequest { host: String::new(), message_request: Some(message) };
        let mut answers = client.server_reflection_info(once(request)).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap().message_response.unwrap()
    };
    match reflect(MessageRequest::ListServices(String::new())).await {
        MessageResponse::ListServicesResponse(list) => {
            assert!(list.service.iter().any(|service| service.name == SERVICE), "{list:?}");
        }
        other => panic!("{other:?}"),
    }
    match reflect(MessageRequest::FileContainingSymbol(SERVICE.to_owned())).await {
        MessageResponse::FileDescriptorResponse(files) => assert_describes_the_service(&files.file_descriptor_proto),
        other => panic!("{other:?}"),
    }
}

/// Older tools (grpcurl before 1.8.7) know this version only.
#[tokio::test(flavor = "multi_thread")]
async fn reflection_v1alpha_lists_the_service_and_serves_its_file() {
    use v1alpha::server_reflection_request::MessageRequest;
    use v1alpha::server_reflection_response::MessageResponse;

    let (_setup, comporta) = serve();
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(comporta.channel());
    let mut reflect = async |message| {
        let request = v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(message) };
        let mut answers = client.server_reflection_info(once(request)).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap().message_response.unwrap()
    };
    match reflect(MessageRequest::ListServices(String::new())).await {
        MessageResponse::ListServicesResponse(list) => {
            assert!(list.service.iter().any(|service| service.name == SERVICE), "{list:?}");
        }
        other => panic!("{other:?}"),
    }
    match reflect(MessageRequest::FileContainingSymbol(SERVICE.to_owned())).await {
        MessageResponse::FileDescriptorResponse(files) => assert_describes_the_service(&files.file_descriptor_proto),
        other => panic!("{other:?}"),
    }
}

/// A file descriptor names what it declares; the first one is the file that was asked for.
fn assert_describes_the_service(files: &[Vec<u8>]) {
    let file = String::from_utf8_lossy(files.first().expect("a file"));
    for name in ["envoy.service.ratelimit.v3", "RateLimitService", "ShouldRateLimit"] {
        assert!(file.contains(name), "{name} is not in the file descriptor");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_descriptors_have_their_statuses_in_order() {
    let (_setup, comporta) = serve();
    let limits = 1..=100_u32;
    let descriptors = limits.clone().map(|limit| RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: limit, unit: RateLimitUnit::Year.into() }),
        ..descriptor(&format!("x={limit}"))
    });
    let asked = RateLimitRequest { descriptors: descriptors.collect(), ..request("d", []) };
    let answer = ask(&mut comporta.client(), asked).await.unwrap();
    assert_eq!(answer.overall_code(), Code::Ok);
    let found: Vec<_> =
        answer.statuses.iter().map(|s| s.current_limit.as_ref().map(|limit| limit.requests_per_unit)).collect();
    assert_eq!(found, limits.map(Some).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_buckets_are_kept_than_allowed_whatever_keys_arrive() {
    const ALLOWED: u32 = 1000;
    let setup = Setup::new(POLICY).flags(["--max-buckets".to_owned(), ALLOWED.to_string()]);
    let comporta = setup.start();
    let mut client = comporta.client();
    for request_number in 0..50 {
        let descriptors = (0..100).map(|number| descriptor(&format!("two={request_number}/{number}")));
        let asked = RateLimitRequest { descriptors: descriptors.collect(), ..request("d", []) };
        assert_eq!(ask(&mut client, asked).await.unwrap().overall_code(), Code::Ok, "a new key has a full bucket");
    }
    let metrics = http::get(comporta.addresses.admin, "/metrics").unwrap().body;
    let buckets = metrics.lines().find_map(|line| line.strip_prefix("comporta_buckets ")).expect("a gauge of buckets");
    let buckets: u32 = buckets.parse().unwrap();
    assert!((ALLOWED / 2..=ALLOWED).contains(&buckets), "{buckets} buckets are kept of {ALLOWED}");
}

/// Runs 64 tasks over 8 connections, each making `calls` calls, and returns how many were OK.
async fn admitted_by_64_tasks(comporta: &Comporta, calls: u32, descriptors: fn(u32) -> Vec<&'static str>) -> u32 {
    let admitted = Arc::new(AtomicU32::new(0));
    let clients: Vec<_> = (0..8).map(|_| comporta.client()).collect();
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let (mut client, admitted) = (clients[task % clients.len()].clone(), Arc::clone(&admitted));
            tokio::spawn(async move {
                for number in 0..calls {
                    if code(&mut client, descriptors(number)).await == Code::Ok {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    admitted.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_tasks_are_admitted_exactly_as_often_as_their_bucket_allows() {
    let (_setup, comporta) = serve();
    // 10,240 calls against 10,000 a year: none is back before the test is over.
    assert_eq!(admitted_by_64_tasks(&comporta, 160, |_| vec!["many=1"]).await, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn contention_over_two_limits_loses_no_hit_for_good() {
    let (_setup, comporta) = serve();
    // All ask for both buckets, in both orders, so that one is often found empty after the other was taken from.
    let both =
        |number: u32| if number.is_multiple_of(2) { vec!["left=1", "right=1"] } else { vec!["right=1", "left=1"] };
    let mut client = comporta.client();
    for _ in 0..10 {
        assert_eq!(code(&mut client, ["right=1"]).await, Code::Ok);
    }
    assert_eq!(admitted_by_64_tasks(&comporta, 4, both).await, 40, "what the scarcer bucket holds");
    for _ in 0..10 {
        assert_eq!(code(&mut client, ["left=1"]).await, Code::Ok, "what the other limit refused is still there");
    }
    assert_eq!(code(&mut client, ["left=1"]).await, Code::OverLimit);
}

#![expect(clippy::expect_used, clippy::missing_panics_doc, clippy::panic, reason = "a finding is a panic")]

use std::sync::LazyLock;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use clap::Parser;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest as EnvoyRequest;
use prost::Message;
use serde_json::{Value, json};

use super::deadline::patience;
use super::json::{read_request, write_response};
use super::response::to_response;
use super::sniff::{Beginning, Spoken};
use super::unary::unframe;
use crate::engine::{Answer, Engine, EngineSettings};
use crate::fuzzing::POLICY;
use crate::limit::{Micros, Now};
use crate::policy::{Defaults, load_texts};
use crate::request::{MAX_DESCRIPTORS, MAX_ENTRIES, RateLimitRequest, UnreadableRequest};
use crate::settings::ResponseSettings;

pub use super::admin::fuzzing::admin_query;

const NOW: Now = Now { monotonic: Micros(60_000_000), utc: Micros(1_700_000_000_000_000) };

/// Answers a body on the gRPC port. What has no frame is given one, or nothing else would ever be tried.
pub fn grpc_request(bytes: &[u8]) {
    if let Ok(message) = unframe(Bytes::copy_from_slice(bytes)) {
        assert_eq!(message, bytes[5..]);
        read_message(&message);
    }
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(bytes.len()).expect("the fuzzer makes small inputs"));
    frame.put_slice(bytes);
    let message = unframe(frame.freeze()).expect("a message in its frame is one");
    assert_eq!(message, bytes);
    read_message(&message);
}

/// What is read is what Envoy's own type reads, and it comes back when it is written.
fn read_message(message: &Bytes) {
    let of_envoy = EnvoyRequest::decode(message.clone());
    let request = match RateLimitRequest::read(message.clone()) {
        Ok(request) => request,
        Err(UnreadableRequest::Malformed(error)) => {
            assert!(of_envoy.is_err(), "refused, and Envoy's type reads it: {error}");
            return;
        }
        Err(UnreadableRequest::TooManyDescriptors) => {
            assert!(of_envoy.map_or(true, |request| request.descriptors.len() > MAX_DESCRIPTORS));
            return;
        }
        Err(UnreadableRequest::TooManyEntries) => {
            let entries =
                |request: &EnvoyRequest| request.descriptors.iter().map(|one| one.entries.len()).sum::<usize>();
            assert!(of_envoy.map_or(true, |request| entries(&request) > MAX_ENTRIES));
            return;
        }
    };
    let written = Bytes::from(request.encode_to_vec());
    assert_eq!(RateLimitRequest::read(written.clone()).as_ref(), Ok(&request));
    if let Ok(of_envoy) = of_envoy {
        let texts = |request: &EnvoyRequest| {
            let entries = request.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
            entries.map(|entry| (entry.key.clone(), entry.value.clone())).collect::<Vec<_>>()
        };
        let again = EnvoyRequest::decode(written).expect("what Envoy's type has read is written so that it can");
        assert_eq!(texts(&again), texts(&of_envoy));
        assert_eq!((again.domain, again.hits_addend), (of_envoy.domain, of_envoy.hits_addend));
    }
    answer(&request);
}

/// Decides a request, and writes the answer in all its forms.
fn answer(request: &RateLimitRequest) {
    let policy = load_texts(&[("api.yaml", POLICY)], &Defaults::default()).expect("the policy has no faults").policy;
    let engine = Engine::new(policy, EngineSettings { max_buckets: 64, ..EngineSettings::default() }, NOW);
    let Ok(ruling) = engine.decide(request, NOW) else { return };
    let Answer::Decided(decision) = ruling.answer else { panic!("there is no store to wait for") };
    assert_eq!(decision.statuses.len(), request.descriptors.len());
    let response = to_response(decision, request, &RESPONSE);
    assert_eq!(response.statuses.len(), request.descriptors.len());
    assert!(response.statuses.iter().all(|status| status.code != 0), "a status is unknown");
    let text = write_response(&response).to_string();
    assert!(text.parse::<Value>().is_ok_and(|value| value["overallCode"] != "UNKNOWN"), "{text}");
}

static RESPONSE: LazyLock<ResponseSettings> = LazyLock::new(|| {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        response: ResponseSettings,
    }
    Line::parse_from(["serve", "--response-headers", "--response-dynamic-metadata"]).response
});

/// Answers a body of `/json`. What is read is the same when it comes as protobuf, or as JSON that we write.
pub fn json_request(bytes: &[u8]) {
    let Ok(request) = read_request(bytes) else { return };
    assert_eq!(RateLimitRequest::read(request.encode_to_vec().into()).as_ref(), Ok(&request));
    let again = read_request(as_json(&request).to_string().as_bytes());
    assert_eq!(again.expect("what was written is read"), request);
    answer(&request);
}

fn as_json(request: &RateLimitRequest) -> Value {
    let text = |bytes: &Bytes| str::from_utf8(bytes).expect("JSON has only text").to_owned();
    let entry = |entry: &crate::request::Entry| json!({ "key": text(&entry.key), "value": text(&entry.value) });
    let descriptors: Value = request.descriptors.iter().map(|descriptor| json!({
        "entries": descriptor.entries.iter().map(entry).collect::<Value>(),
        "limit": descriptor.limit.map(|limit| json!({ "requests_per_unit": limit.requests_per_unit, "unit": limit.unit })),
        "hitsAddend": descriptor.hits_addend.map(|hits| hits.to_string()),
        "isNegativeHits": descriptor.is_negative_hits,
    })).collect();
    json!({ "domain": text(&request.domain), "descriptors": descriptors, "hits_addend": request.hits_addend })
}

/// Reads a client's timeout. The store may never take longer than the client waits.
pub fn grpc_timeout(bytes: &[u8]) {
    let Some(patience) = patience(bytes) else { return };
    let text = str::from_utf8(bytes).expect("a timeout is ASCII");
    let (count, unit) = text.split_at(text.len() - 1);
    let nanoseconds = match unit {
        "H" => 3_600_000_000_000,
        "M" => 60_000_000_000,
        "S" => 1_000_000_000,
        "m" => 1_000_000,
        "u" => 1_000,
        _ => 1,
    };
    let whole = count.parse::<u128>().expect("it begins with digits") * nanoseconds;
    assert!(patience.as_nanos() <= whole && patience <= Duration::from_secs(360_000_000_000));
}

/// Looks at how a connection begins. What has been said of it stays true, whatever follows.
pub fn first_bytes(bytes: &[u8]) {
    stays_as_it_is(bytes, Spoken::look_at_tls);
    for (has_tls, has_http_1) in [(false, false), (false, true), (true, false), (true, true)] {
        stays_as_it_is(bytes, |first| Spoken { has_tls, has_http_1 }.look_at_http(first));
    }
}

fn stays_as_it_is(bytes: &[u8], look: impl Fn(&[u8]) -> Beginning) {
    let first_clear = (0..=bytes.len()).map(|length| look(&bytes[..length])).find(|&one| one != Beginning::Unclear);
    assert_eq!(first_clear.unwrap_or(Beginning::Unclear), look(bytes), "more bytes have made it something else");
}

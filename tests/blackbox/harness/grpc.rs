//! Envoy's question, shortly written.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

pub(crate) type Client = RateLimitServiceClient<Channel>;

/// A descriptor from `key=value` pairs with spaces between them.
pub(crate) fn descriptor(entries: &str) -> RateLimitDescriptor {
    let entries = entries.split_whitespace().map(entry).collect();
    RateLimitDescriptor { entries, ..Default::default() }
}

/// An entry from `key=value`.
pub(crate) fn entry(text: &str) -> Entry {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Entry { key: key.to_owned(), value: value.to_owned() }
}

/// A request for one hit on each descriptor.
pub(crate) fn request<'a>(domain: &str, descriptors: impl IntoIterator<Item = &'a str>) -> RateLimitRequest {
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: descriptors.into_iter().map(descriptor).collect(),
        hits_addend: 0,
    }
}

pub(crate) async fn ask(client: &mut Client, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
    let mut request = tonic::Request::new(request);
    request.set_timeout(super::PATIENCE);
    client.should_rate_limit(request).await.map(tonic::Response::into_inner)
}

/// Calls a method, and never sends the message.
pub(crate) async fn call_without_end(channel: Channel, path: &'static str) -> Status {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("a connection");
    let codec = tonic_prost::ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let messages = tonic::Request::new(tokio_stream::pending());
    client.client_streaming(messages, PathAndQuery::from_static(path), codec).await.expect_err("no answer")
}

/// The overall code of one hit on each descriptor of domain `d`.
pub(crate) async fn code<'a>(client: &mut Client, descriptors: impl IntoIterator<Item = &'a str>) -> Code {
    ask(client, request("d", descriptors)).await.unwrap().overall_code()
}

/// A `Struct` as the JSON that it stands for.
pub(crate) fn struct_to_json(content: &Struct) -> serde_json::Value {
    content.fields.iter().map(|(key, value)| (key.clone(), value_to_json(value))).collect()
}

fn value_to_json(value: &Value) -> serde_json::Value {
    match value.kind.as_ref().expect("a value of some kind") {
        Kind::NullValue(_) => serde_json::Value::Null,
        Kind::BoolValue(flag) => (*flag).into(),
        // Its text is a number in JSON too, without a fraction where it is whole.
        Kind::NumberValue(number) => number.to_string().parse().unwrap(),
        Kind::StringValue(text) => text.as_str().into(),
        Kind::ListValue(list) => list.values.iter().map(value_to_json).collect(),
        Kind::StructValue(content) => struct_to_json(content),
    }
}

/// Whether a call failed before the service saw it, so that nothing was decided and any other may be asked instead: the
/// connection is refused, the client had not sent it when the connection closed, or the service's GOAWAY leaves it out.
pub(crate) fn was_never_begun(status: &Status) -> bool {
    let cause = format!("{status:?}");
    status.code() == tonic::Code::Unavailable
        || cause.contains(r#"hyper::Error(Canceled, "connection closed")"#)
        || cause.contains(r#"hyper::Error(Canceled, "connection was not ready")"#)
        || cause.contains(r#"GoAway(b"", NO_ERROR, Remote)"#)
}

//! Envoy's question, shortly written.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::Status;
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

/// The overall code of one hit on each descriptor of domain `d`.
pub(crate) async fn code<'a>(client: &mut Client, descriptors: impl IntoIterator<Item = &'a str>) -> Code {
    ask(client, request("d", descriptors)).await.unwrap().overall_code()
}

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{self as wire, DescriptorStatus, RateLimit};
use envoy_types::pb::google::protobuf::Duration;

use crate::engine::{Code, Decision, Status};
use crate::request::unit_number;

/// The decision as Envoy's message.
pub(super) fn to_response(decision: Decision) -> RateLimitResponse {
    RateLimitResponse {
        overall_code: to_code(decision.code),
        statuses: decision.statuses.into_iter().map(to_status).collect(),
        ..Default::default()
    }
}

fn to_status(status: Status) -> DescriptorStatus {
    DescriptorStatus {
        code: to_code(status.code),
        current_limit: status.current_limit.map(|limit| RateLimit {
            name: limit.name.as_deref().unwrap_or_default().to_owned(),
            requests_per_unit: limit.amount,
            unit: unit_number(limit.unit),
        }),
        limit_remaining: status.remaining,
        duration_until_reset: status
            .seconds_until_reset
            .map(|seconds| Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }),
        ..Default::default()
    }
}

fn to_code(code: Code) -> i32 {
    match code {
        Code::Ok => wire::Code::Ok,
        Code::OverLimit => wire::Code::OverLimit,
    }
    .into()
}

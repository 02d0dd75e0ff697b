use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{self as wire, DescriptorStatus, RateLimit};
use envoy_types::pb::google::protobuf::Duration;

use super::metadata::dynamic_metadata;
use crate::engine::{Code, CurrentLimit, Decision, Enforcement, Status};
use crate::request::{RateLimitRequest, unit_number};
use crate::settings::{HeaderNames, ResponseSettings};

/// The decision on a request as Envoy's message.
pub(super) fn to_response(
    decision: Decision,
    request: &RateLimitRequest,
    settings: &ResponseSettings,
) -> RateLimitResponse {
    let response_headers_to_add =
        if settings.response_headers { headers(&decision, &settings.header_names) } else { Vec::new() };
    let dynamic_metadata = settings.response_dynamic_metadata.then(|| dynamic_metadata(&decision, request));
    RateLimitResponse {
        overall_code: to_code(decision.code),
        statuses: decision.statuses.into_iter().map(to_status).collect(),
        response_headers_to_add,
        dynamic_metadata,
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

/// What the client is told: of the limit with least left or, when refused, of the one that it has to wait for.
fn headers(decision: &Decision, names: &HeaderNames) -> Vec<HeaderValue> {
    let is_refused = decision.code == Code::OverLimit;
    let Some((status, limit)) = telling_status(&decision.statuses, is_refused) else { return Vec::new() };
    let seconds = status.seconds_until_reset.unwrap_or_default();
    let mut headers = vec![
        header(&names.limit_header, u64::from(limit.amount)),
        header(&names.remaining_header, u64::from(status.remaining)),
        header(&names.reset_header, seconds),
    ];
    if is_refused {
        headers.push(header(&names.retry_after_header, seconds));
    }
    headers
}

/// The status that the headers tell of. A limit in shadow mode never chooses.
///
/// When refused, it is the last to let the request pass: the enforced limit with the longest wait, or the quota with the
/// shortest, because one quota is enough.
fn telling_status(statuses: &[Status], is_refused: bool) -> Option<(&Status, &CurrentLimit)> {
    let limited = statuses
        .iter()
        .filter(|status| status.enforcement != Enforcement::Shadow)
        .filter_map(|status| Some((status, status.current_limit.as_ref()?)));
    if !is_refused {
        return limited.min_by_key(|(status, _)| status.remaining);
    }
    let refusing = limited.filter(|(status, _)| status.refuses());
    let (quotas, enforced): (Vec<_>, Vec<_>) =
        refusing.partition(|(status, _)| status.enforcement == Enforcement::Quota);
    let wait = |(status, _): &(&Status, &CurrentLimit)| status.seconds_until_reset;
    let first_quota = quotas.into_iter().min_by_key(wait);
    enforced.into_iter().chain(first_quota).max_by_key(wait)
}

fn header(name: &http::HeaderName, value: u64) -> HeaderValue {
    // Envoy reads `value` and passes over `raw_value`.
    HeaderValue { key: name.as_str().to_owned(), value: value.to_string(), ..Default::default() }
}

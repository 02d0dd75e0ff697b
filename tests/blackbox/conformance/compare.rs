//! Whether an answer is the one that a case expects.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus;
use tonic::Status;

use super::case::{Expect, ExpectedHeader, ExpectedLimit, ExpectedStatus, Outcome, amount_and_unit};

pub(super) fn answer(answer: Result<RateLimitResponse, Status>, expect: &Expect) -> Outcome {
    match (answer, &expect.grpc) {
        (Err(status), Some(wanted)) if is_named(status.code(), wanted) => Ok(()),
        (Err(status), _) => Err(format!("gRPC {:?}: {}", status.code(), status.message())),
        (Ok(_), Some(wanted)) => Err(format!("it answers, want gRPC {wanted}")),
        (Ok(response), None) => response_is(&response, expect),
    }
}

/// Whether `InvalidArgument` is what gRPC's documents call `INVALID_ARGUMENT`.
fn is_named(code: tonic::Code, name: &str) -> bool {
    format!("{code:?}").eq_ignore_ascii_case(&name.replace('_', ""))
}

fn response_is(response: &RateLimitResponse, expect: &Expect) -> Outcome {
    let mut wrong = Vec::new();
    let (code, wanted) = (response.overall_code().as_str_name(), expect.code.as_deref().unwrap_or("OK"));
    if code != wanted {
        wrong.push(format!("overall {code}, want {wanted}"));
    }
    if let Some(statuses) = &expect.statuses {
        if response.statuses.len() != statuses.len() {
            wrong.push(format!("{} statuses, want {}", response.statuses.len(), statuses.len()));
        }
        for (index, (status, wanted)) in response.statuses.iter().zip(statuses).enumerate() {
            let differences = status_differences(status, wanted)?;
            wrong.extend(differences.into_iter().map(|difference| format!("status {index} {difference}")));
        }
    }
    wrong.extend(header_differences(response, &expect.headers));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn status_differences(status: &DescriptorStatus, wanted: &ExpectedStatus) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let code = status.code().as_str_name();
    if wanted.code.as_deref().is_some_and(|wanted| wanted != code) {
        wrong.push(format!("is {code}, want {:?}", wanted.code));
    }
    let limit = status.current_limit.as_ref();
    let found = limit.map(|limit| (limit.requests_per_unit, limit.unit().as_str_name().to_owned()));
    let limit_is_wanted = match &wanted.limit {
        ExpectedLimit::Any => true,
        ExpectedLimit::None => found.is_none(),
        ExpectedLimit::Some(wanted) => found == Some(amount_and_unit(wanted)?),
    };
    if !limit_is_wanted {
        wrong.push(format!("has the limit {found:?}, want {:?}", wanted.limit));
    }
    let name = limit.map_or("", |limit| limit.name.as_str());
    if wanted.name.as_deref().is_some_and(|wanted| wanted != name) {
        wrong.push(format!("has the name {name:?}, want {:?}", wanted.name));
    }
    if let Some(wanted) = &wanted.remaining
        && !wanted.allows(status.limit_remaining.into())
    {
        wrong.push(format!("has {} remaining, want {wanted:?}", status.limit_remaining));
    }
    if let Some(wanted) = &wanted.reset {
        let reset = status.duration_until_reset.unwrap_or_default();
        if !wanted.allows(reset.seconds) || reset.nanos != 0 {
            wrong.push(format!("resets in {} s and {} ns, want {wanted:?}", reset.seconds, reset.nanos));
        }
    }
    Ok(wrong)
}

fn header_differences(response: &RateLimitResponse, wanted: &BTreeMap<String, Option<ExpectedHeader>>) -> Vec<String> {
    // Envoy takes `value` only and ignores `raw_value`.
    let found: BTreeMap<_, _> =
        response.response_headers_to_add.iter().map(|header| (header.key.to_lowercase(), &header.value)).collect();
    let differs = |name: &str, wanted: &Option<ExpectedHeader>| match (found.get(&name.to_lowercase()), wanted) {
        (found, None) => found.is_some(),
        (None, Some(_)) => true,
        (Some(found), Some(ExpectedHeader::Text(wanted))) => *found != wanted,
        (Some(found), Some(ExpectedHeader::Whole(wanted))) => **found != wanted.to_string(),
        (Some(found), Some(ExpectedHeader::Within([low, high]))) => {
            !found.parse().is_ok_and(|number: f64| (*low..=*high).contains(&number))
        }
    };
    let wrong = wanted.iter().filter(|(name, wanted)| differs(name, wanted));
    wrong
        .map(|(name, wanted)| format!("header {name} is {:?}, want {wanted:?}", found.get(&name.to_lowercase())))
        .collect()
}

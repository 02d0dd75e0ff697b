//! How limits are written into a policy, and what a request for them is.

use super::*;
use crate::limit::{Algorithm, Limit};
use crate::request::unit_number;
use crate::store::StoreCall;

/// Where the limits of a request stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// In one descriptor's list.
    List,
    /// Each in a descriptor of its own.
    Descriptors,
}

const KEYS: [&str; 2] = ["one", "two"];

impl Layout {
    /// The key of a limit, by its index.
    fn key(self, index: usize) -> &'static str {
        match self {
            Self::List => KEYS[0],
            Self::Descriptors => KEYS[index],
        }
    }

    pub(super) fn policy(self, limits: &[Limit], overdraft: bool) -> Policy {
        let written: Vec<_> = limits.iter().map(|limit| written(limit, overdraft)).collect();
        let rules: Vec<_> = match self {
            Self::List => vec![format!("  - {{key: {}, rate_limit: [{}]}}", KEYS[0], written.join(", "))],
            Self::Descriptors => written
                .iter()
                .zip(KEYS)
                .map(|(limit, key)| format!("  - {{key: {key}, rate_limit: {limit}}}"))
                .collect(),
        };
        policy(&format!("domain: d\ndescriptors:\n{}", rules.join("\n")))
    }

    /// A request that asks all limits.
    pub(super) fn request(self, limits: &[Limit], hits: u64, gives_back: bool) -> RateLimitRequest {
        let descriptors = match self {
            Self::List => 1,
            Self::Descriptors => limits.len(),
        };
        let descriptors: Vec<_> = KEYS[..descriptors]
            .iter()
            .map(|key| Descriptor { is_negative_hits: gives_back, ..costing(&format!("{key}=x"), hits) })
            .collect();
        request(&descriptors)
    }

    /// A request that asks one of the limits and brings it itself.
    pub(super) fn own_limit(self, index: usize, limit: &Limit, hits: u64) -> RateLimitRequest {
        let unit = unit_number(limit.unit());
        let limit = Some(LimitOverride { requests_per_unit: limit.amount(), unit });
        request(&[Descriptor { limit, ..costing(&format!("{}=x", self.key(index)), hits) }])
    }

    /// The index of the limit whose bucket a call is for.
    pub(super) fn limit_of(self, call: &StoreCall, limits: &[Limit]) -> usize {
        let index = match self {
            Self::List => limits
                .iter()
                .position(|limit| (limit.period(), limit.algorithm()) == (call.limit.period(), call.limit.algorithm())),
            Self::Descriptors => KEYS.iter().position(|key| call.bucket.contains(key)),
        };
        index.unwrap_or_else(|| panic!("{} is no bucket of these limits", call.bucket))
    }
}

fn written(limit: &Limit, overdraft: bool) -> String {
    let burst = match limit.algorithm() {
        Algorithm::TokenBucket => format!("burst: {}", limit.capacity()),
        Algorithm::FixedWindow => "algorithm: fixed_window".to_owned(),
    };
    format!(
        "{{requests_per_unit: {}, unit: {}, unit_multiplier: {}, {burst}, overdraft: {overdraft}}}",
        limit.amount(),
        limit.unit().name(),
        limit.multiplier(),
    )
}

//! What a case file may say.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use envoy_types::pb::google::protobuf::UInt64Value;
use serde::{Deserialize, Deserializer};

use crate::harness::grpc;

/// Nothing, or why a case does not hold.
pub(super) type Outcome = Result<(), String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    policy: Option<String>,
    #[serde(default)]
    policies: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) flags: Vec<String>,
    pub(super) check_error: Option<CheckError>,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
}

impl Case {
    /// Path and text of each policy file.
    pub(super) fn policy_files(&self) -> Result<Vec<(&str, &str)>, String> {
        match &self.policy {
            Some(text) if self.policies.is_empty() => Ok(vec![("policy.yaml", text)]),
            None if !self.policies.is_empty() => {
                Ok(self.policies.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect())
            }
            _ => Err("a case has either a policy or policies".to_owned()),
        }
    }
}

/// What `comporta check` must print.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum CheckError {
    Some(bool),
    One(String),
    All(Vec<String>),
}

impl CheckError {
    /// Patterns of what must be printed; none when the policy must pass.
    pub(super) fn patterns(&self) -> Vec<&str> {
        match self {
            Self::Some(false) => Vec::new(),
            Self::Some(true) => vec![""],
            Self::One(pattern) => vec![pattern],
            Self::All(patterns) => patterns.iter().map(String::as_str).collect(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    sleep: Option<f64>,
    request: Option<Request>,
    #[serde(default = "once")]
    repeat: u32,
    #[serde(default)]
    expect: Expect,
}

fn once() -> u32 {
    1
}

/// What a step is: either a pause or requests.
pub(super) enum Wanted<'c> {
    Pause(f64),
    Answers { request: &'c Request, times: u32, expect: &'c Expect },
}

impl Step {
    pub(super) fn wanted(&self) -> Result<Wanted<'_>, String> {
        match (self.sleep, &self.request) {
            (Some(seconds), None) => Ok(Wanted::Pause(seconds)),
            (None, Some(request)) => Ok(Wanted::Answers { request, times: self.repeat, expect: &self.expect }),
            _ => Err("a step is either a sleep or a request".to_owned()),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    domain: Option<String>,
    #[serde(default)]
    hits_addend: u32,
    descriptors: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Descriptor {
    Plain(String),
    Full(FullDescriptor),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FullDescriptor {
    entries: Entries,
    hits_addend: Option<u64>,
    #[serde(default)]
    negative: bool,
    limit: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Entries {
    Plain(String),
    Listed(Vec<ListedEntry>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ListedEntry {
    Plain(String),
    Full { key: String, value: String },
}

impl Request {
    pub(super) fn build(&self) -> Result<RateLimitRequest, String> {
        Ok(RateLimitRequest {
            domain: self.domain.clone().unwrap_or_else(|| "d".to_owned()),
            descriptors: self.descriptors.iter().map(Descriptor::build).collect::<Result<_, _>>()?,
            hits_addend: self.hits_addend,
        })
    }
}

impl Descriptor {
    fn build(&self) -> Result<RateLimitDescriptor, String> {
        let full = match self {
            Self::Plain(entries) => return Ok(grpc::descriptor(entries)),
            Self::Full(full) => full,
        };
        let entries = match &full.entries {
            Entries::Plain(entries) => grpc::descriptor(entries).entries,
            Entries::Listed(entries) => entries.iter().map(ListedEntry::build).collect(),
        };
        Ok(RateLimitDescriptor {
            entries,
            limit: full.limit.as_deref().map(requested_limit).transpose()?,
            hits_addend: full.hits_addend.map(|value| UInt64Value { value }),
            is_negative_hits: full.negative,
        })
    }
}

impl ListedEntry {
    fn build(&self) -> Entry {
        match self {
            Self::Plain(text) => grpc::entry(text),
            Self::Full { key, value } => Entry { key: key.clone(), value: value.clone() },
        }
    }
}

fn requested_limit(text: &str) -> Result<RateLimitOverride, String> {
    let (requests_per_unit, unit) = amount_and_unit(text)?;
    let unit = RateLimitUnit::from_str_name(&unit).ok_or(format!("{text:?}: no such unit"))?;
    Ok(RateLimitOverride { requests_per_unit, unit: unit.into() })
}

/// `10/minute` as 10 and `MINUTE`.
pub(super) fn amount_and_unit(text: &str) -> Result<(u32, String), String> {
    let parts = text.split_once('/').and_then(|(amount, unit)| Some((amount.parse().ok()?, unit.to_uppercase())));
    parts.ok_or(format!("{text:?} is not of the form 10/minute"))
}

/// What of an answer must be so; what is absent may be anything.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    pub(super) code: Option<String>,
    pub(super) grpc: Option<String>,
    pub(super) statuses: Option<Vec<ExpectedStatus>>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Option<ExpectedHeader>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedStatus {
    pub(super) code: Option<String>,
    #[serde(default)]
    pub(super) limit: ExpectedLimit,
    pub(super) name: Option<String>,
    pub(super) remaining: Option<Amount>,
    pub(super) reset: Option<Amount>,
}

/// The limit of a status: not mentioned, `null`, or of the form `10/minute`.
#[derive(Debug, Default)]
pub(super) enum ExpectedLimit {
    #[default]
    Any,
    None,
    Some(String),
}

impl<'de> Deserialize<'de> for ExpectedLimit {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(value)?.map_or(Self::None, Self::Some))
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ExpectedHeader {
    Within([f64; 2]),
    Whole(i64),
    Text(String),
}

/// A number, or the first and the last of those that will do.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Amount {
    Exactly(i64),
    Within([i64; 2]),
}

impl Amount {
    pub(super) fn allows(&self, actual: i64) -> bool {
        match self {
            Self::Exactly(wanted) => actual == *wanted,
            Self::Within([low, high]) => (*low..=*high).contains(&actual),
        }
    }
}

use std::sync::Arc;

use crate::limit::{Algorithm, Limit};

/// What a limit is where its policy is silent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults {
    pub algorithm: Algorithm,
    pub overdraft: bool,
}

/// A node of the policy tree that carries limits, or leads to nodes that do.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in the policy language")]
pub struct Rule {
    /// Its limits are counted and never enforced.
    pub shadow_mode: bool,
    /// A request is refused for its quota-mode rules only if all of them refuse.
    pub quota_mode: bool,
    /// Metrics of this rule name the whole way to it, with the request's values.
    pub detailed_metric: bool,
    /// Metrics of this rule name the request's value of its key.
    pub value_to_metric: bool,
    /// Whatever else the author says of the rule, for the response's dynamic metadata.
    pub metadata: Option<Arc<Metadata>>,
    /// The file in which the rule stands, by its path as it was found.
    pub file: Arc<str>,
    /// The line of that file, from 1, in which the rule begins.
    pub line: u32,
}

/// The `metadata` of a rule.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// One limit of a rule.
#[derive(Debug)]
pub struct RuleLimit {
    pub quota: Quota,
    /// The name by which another limit can replace this one; also shown to Envoy.
    pub name: Option<Arc<str>>,
    /// Names of the limits that this one replaces.
    pub replaces: Box<[Arc<str>]>,
    /// What happens when the store fails; `None` follows the service's default.
    pub failure_mode: Option<FailureMode>,
    pub scope: Scope,
    /// Hits above what is left are taken all the same, and refused.
    pub overdraft: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    Unlimited,
    Limited(Limit),
}

/// What a limit does while the store cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureMode {
    /// A bucket of this replica's own stands in.
    Local,
    /// Everything passes.
    Open,
    /// Everything is refused.
    Closed,
    /// The request is answered with an error, and Envoy decides.
    Unavailable,
}

/// Who shares a limit's buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All replicas.
    #[default]
    Global,
    /// Nobody: each replica has its own.
    Replica,
}

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
    /// Metrics of this rule name the request's values of all keys.
    pub detailed_metric: bool,
    /// Metrics of this rule, and of those below it, name the request's value of its key.
    pub value_to_metric: bool,
    /// By the depth of the entry, whether metrics of this rule name its value. `None` if they name none.
    pub shown_values: Option<Box<[bool]>>,
    /// Whatever else the author says of the rule, for the response's dynamic metadata.
    pub metadata: Option<Arc<Metadata>>,
    /// Its place among the rules of the policy, from 0.
    pub index: u32,
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
    /// Where the limit is written, and what it leaves to the [`Defaults`].
    pub(super) origin: Origin,
}

/// Where a limit comes from. It decides nothing; it is for those who ask why.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The plan that it is part of; `None` if it is written where it applies.
    pub(super) plan: Option<Arc<Plan>>,
    /// The line, from 1, in which it begins: in the file of its plan, or else of its rule.
    pub(super) line: u32,
    /// The policy is silent about the algorithm.
    pub(super) has_default_algorithm: bool,
    /// The policy is silent about overdrafts.
    pub(super) has_default_overdraft: bool,
}

/// A plan, as its limits refer to it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: Box<str>,
    /// The file in which it stands, by its path as it was found.
    pub(super) file: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    Unlimited,
    Limited(Limit),
}

impl Quota {
    /// What is counted; `None` if nothing is.
    #[must_use]
    pub const fn limit(&self) -> Option<&Limit> {
        match self {
            Self::Unlimited => None,
            Self::Limited(limit) => Some(limit),
        }
    }
}

/// What a limit does while the store cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureMode {
    /// A bucket of this replica's own stands in.
    #[default]
    Local,
    /// Everything passes.
    Open,
    /// Everything is refused.
    Closed,
    /// The request is answered with an error, and Envoy decides.
    Unavailable,
}

impl FailureMode {
    pub const ALL: [Self; 4] = [Self::Local, Self::Open, Self::Closed, Self::Unavailable];

    /// The name of the mode as policies write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Unavailable => "unavailable",
        }
    }
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

impl Scope {
    /// The name of the scope as policies write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Replica => "replica",
        }
    }
}

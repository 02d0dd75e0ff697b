use std::collections::HashMap;
use std::sync::Arc;

use crate::limit::{Algorithm, Limit};

/// What a limit is where its policy is silent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults {
    pub algorithm: Algorithm,
    pub overdraft: bool,
}

/// All policy files, compiled. It never changes: a reload makes a new one.
#[derive(Debug, Default)]
pub struct Policy {
    domains: HashMap<Box<[u8]>, Domain>,
}

/// The rules of one domain, from all its files.
#[derive(Debug)]
pub struct Domain {
    name: Box<str>,
}

/// A node of the policy tree that carries limits, or leads to nodes that do.
#[derive(Debug)]
pub struct Rule {
    pub shadow_mode: bool,
    pub quota_mode: bool,
}

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
    Local,
    Open,
    Closed,
    Unavailable,
}

/// Who shares a limit's buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    Global,
    Replica,
}

/// One step of the way from a domain to a rule, as it counts for a bucket's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPart<'a> {
    pub key: &'a [u8],
    /// The request's value, or the rule's pattern where all its values share one bucket.
    pub value: &'a [u8],
    pub is_shared: bool,
}

/// The rule at a request descriptor's last entry, and the limits it has for this descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Match<'p> {
    pub rule: &'p Rule,
    pub limits: &'p [RuleLimit],
}

impl Policy {
    /// The domain of this name.
    #[must_use]
    pub fn domain(&self, name: &[u8]) -> Option<&Domain> {
        self.domains.get(name)
    }
}

impl Domain {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Follows a request descriptor's entries, (key, value) each, from the root and calls `visit` for each step taken.
    /// `None` when an entry finds no rule, or the last rule has no limit.
    pub fn find<'p, 'r>(
        &'p self,
        entries: impl Iterator<Item = (&'r [u8], &'r [u8])>,
        mut visit: impl FnMut(PathPart<'_>),
    ) -> Option<Match<'p>> {
        let _ = (entries, &mut visit);
        None
    }
}

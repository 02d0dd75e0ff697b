//! Policies: which limits there are and which of them a request's descriptors find.

mod rule;

pub use rule::{Defaults, Domain, FailureMode, Match, PathPart, Policy, Quota, Rule, RuleLimit, Scope};

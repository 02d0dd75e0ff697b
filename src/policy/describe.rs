//! Rules and limits as people read them and programs take them in.

use std::fmt;

use serde::Serialize;

use super::rule::{FailureMode, Quota, Rule, RuleLimit};
use super::visible::{Visible, cropped};
use crate::limit::{Algorithm, Limit};

/// What a rule says besides its limits, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in the policy language")]
pub struct RuleDescription {
    pub file: String,
    pub line: u32,
    pub shadow_mode: bool,
    pub quota_mode: bool,
    /// All values that match the rule's pattern share one bucket.
    pub share_threshold: bool,
    pub detailed_metric: bool,
    pub value_to_metric: bool,
    pub has_metadata: bool,
}

impl RuleDescription {
    pub(super) fn of(rule: &Rule, share_threshold: bool) -> Self {
        Self {
            file: rule.file.to_string(),
            line: rule.line,
            shadow_mode: rule.shadow_mode,
            quota_mode: rule.quota_mode,
            share_threshold,
            detailed_metric: rule.detailed_metric,
            value_to_metric: rule.value_to_metric,
            has_metadata: rule.metadata.is_some(),
        }
    }

    /// The switches that are on, as policies name them.
    pub(super) fn flags(&self) -> Vec<&'static str> {
        let flags = [
            ("shadow_mode", self.shadow_mode),
            ("quota_mode", self.quota_mode),
            ("share_threshold", self.share_threshold),
            ("detailed_metric", self.detailed_metric),
            ("value_to_metric", self.value_to_metric),
            ("metadata", self.has_metadata),
        ];
        flags.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect()
    }
}

/// Where the rule is: `file:line`.
impl fmt::Display for RuleDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Visible(&self.file), self.line)
    }
}

/// One limit, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitDescription {
    pub unlimited: bool,
    /// What is counted; none if the limit is unlimited.
    #[serde(flatten)]
    pub quota: Option<QuotaDescription>,
    pub name: Option<String>,
    pub replaces: Vec<String>,
    /// `None` is the service's own.
    pub failure_mode: Option<&'static str>,
    pub scope: &'static str,
    pub overdraft: bool,
    /// The policy is silent about overdrafts.
    pub overdraft_is_default: bool,
    /// The name of the limit's plan; `None` if it is written where it applies.
    pub plan: Option<String>,
    pub file: String,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaDescription {
    pub requests_per_unit: u32,
    pub unit: &'static str,
    pub unit_multiplier: u32,
    /// The most hits at one instant: a token bucket's burst, a fixed window's amount.
    pub capacity: u32,
    pub algorithm: &'static str,
    /// The policy is silent about the algorithm.
    pub algorithm_is_default: bool,
}

impl LimitDescription {
    /// Describes a limit of a rule that stands in `rule_file`.
    pub(super) fn of(limit: &RuleLimit, rule_file: &str) -> Self {
        let plan = limit.origin.plan.as_deref();
        let quota = match &limit.quota {
            Quota::Unlimited => None,
            Quota::Limited(quota) => Some(QuotaDescription::of(quota, limit.origin.has_default_algorithm)),
        };
        Self {
            unlimited: quota.is_none(),
            quota,
            name: limit.name.as_deref().map(str::to_owned),
            replaces: limit.replaces.iter().map(|name| cropped(name.as_bytes())).collect(),
            failure_mode: limit.failure_mode.map(FailureMode::name),
            scope: limit.scope.name(),
            overdraft: limit.overdraft,
            overdraft_is_default: limit.origin.has_default_overdraft,
            plan: plan.map(|plan| plan.name.to_string()),
            file: plan.map_or(rule_file, |plan| &plan.file).to_owned(),
            line: limit.origin.line,
        }
    }
}

impl QuotaDescription {
    fn of(limit: &Limit, algorithm_is_default: bool) -> Self {
        Self {
            requests_per_unit: limit.amount(),
            unit: limit.unit().name(),
            unit_multiplier: limit.multiplier(),
            capacity: limit.capacity(),
            algorithm: limit.algorithm().name(),
            algorithm_is_default,
        }
    }
}

/// In few words: `10 per 5 minutes, burst 20`.
impl fmt::Display for LimitDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.quota {
            None => f.write_str("unlimited"),
            Some(quota) => quota.fmt(f),
        }
    }
}

impl fmt::Display for QuotaDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit_multiplier {
            1 => write!(f, "{} per {}", self.requests_per_unit, self.unit)?,
            multiplier => write!(f, "{} per {multiplier} {}s", self.requests_per_unit, self.unit)?,
        }
        if self.capacity != self.requests_per_unit {
            write!(f, ", burst {}", self.capacity)?;
        }
        if self.algorithm == Algorithm::FixedWindow.name() {
            write!(f, ", {}", self.algorithm)?;
        }
        Ok(())
    }
}

use std::fmt;

use serde::Serialize;

use super::Engine;
use super::name::BucketName;
use super::state::BucketState;
use crate::limit::{Limit, Now};
use crate::policy::{
    Candidates, Level, LimitDescription, Policy, QuotaDescription, Scope, TenantsTried, Visible, readable,
};

/// Why a descriptor is limited as it is, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub domain: String,
    pub entries: Vec<ExplainedEntry>,
    pub outcome: Outcome,
    /// The domains that there are, if this one is unknown.
    pub known_domains: Option<Candidates>,
    /// One for each entry that was looked at, the last of which may have found nothing.
    pub levels: Vec<Level>,
    /// The tenants of the last rule; none if no rule was found at the last entry.
    pub tenants: Option<TenantsTried>,
    /// The limits that count for the descriptor.
    pub limits: Vec<ExplainedLimit>,
    /// Nothing is refused, whatever the limits say.
    pub service_shadow_mode: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedEntry {
    pub key: String,
    pub value: String,
}

/// What the policy means for a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Limits count for it.
    Limited,
    /// Its rule says that it has no limit.
    Unlimited,
    /// The rule at its last entry has no limit for it.
    NoLimit,
    /// An entry finds no rule.
    NoRule,
    /// No policy file names its domain.
    UnknownDomain,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedLimit {
    #[serde(flatten)]
    pub limit: LimitDescription,
    /// The name of the bucket; none if the limit is unlimited.
    pub bucket: Option<String>,
    /// What is in the bucket; none where no engine runs.
    pub state: Option<BucketState>,
}

impl Explanation {
    /// Explains a descriptor's entries, (key, value) each, by the policy alone.
    #[must_use]
    pub fn of(policy: &Policy, domain: &[u8], entries: &[(&[u8], &[u8])]) -> Self {
        Self::with_states(policy, domain, entries, |_, _, _| None)
    }

    fn with_states(
        policy: &Policy,
        domain_name: &[u8],
        entries: &[(&[u8], &[u8])],
        state: impl Fn(&BucketName, &Limit, Scope) -> Option<BucketState>,
    ) -> Self {
        let mut explanation = Self {
            domain: readable(domain_name),
            entries: entries
                .iter()
                .map(|(key, value)| ExplainedEntry { key: readable(key), value: readable(value) })
                .collect(),
            outcome: Outcome::UnknownDomain,
            known_domains: None,
            levels: Vec::new(),
            tenants: None,
            limits: Vec::new(),
            service_shadow_mode: false,
        };
        let Some(domain) = policy.domain(domain_name) else {
            explanation.known_domains = Some(policy.domains_like(domain_name));
            return explanation;
        };
        let walk = domain.explain(entries);
        explanation.levels = walk.levels;
        explanation.outcome = Outcome::NoRule;
        if let Some(end) = walk.end {
            explanation.tenants = Some(end.tenant);
            for (rule_limit, description) in end.limits {
                let name = |limit: &Limit| BucketName::new(domain_name, &walk.path, limit);
                let bucket = rule_limit.quota.limit().map(|limit| (name(limit), limit));
                explanation.limits.push(ExplainedLimit {
                    limit: description,
                    bucket: bucket.as_ref().map(|(name, _)| name.to_string()),
                    state: bucket.and_then(|(name, limit)| state(&name, limit, rule_limit.scope)),
                });
            }
            explanation.outcome = match &explanation.limits[..] {
                [] => Outcome::NoLimit,
                limits if limits.iter().all(|limit| limit.limit.unlimited) => Outcome::Unlimited,
                _ => Outcome::Limited,
            };
        }
        explanation
    }
}

impl Engine {
    /// Explains a descriptor's entries, (key, value) each, by the policy that is served, with what is in the buckets at
    /// the time `now`.
    #[must_use]
    pub fn explain(&self, domain: &[u8], entries: &[(&[u8], &[u8])], now: Now) -> Explanation {
        let state = |name: &BucketName, limit: &Limit, scope| Some(self.state(name, limit, scope, now));
        let explanation = Explanation::with_states(&self.active.load().policy, domain, entries, state);
        Explanation { service_shadow_mode: self.settings.shadow_mode, ..explanation }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "domain {}", Visible(&self.domain))?;
        if self.service_shadow_mode {
            writeln!(f, "(the service is in --shadow-mode: it refuses nothing)")?;
        }
        if let Some(known) = &self.known_domains {
            return match known.count {
                0 => writeln!(f, "\n=> no limit: the policy has no domains"),
                _ => writeln!(f, "\n=> no limit: the policy does not know this domain; it has {known}"),
            };
        }
        for (index, level) in self.levels.iter().enumerate() {
            write!(f, "\n{}. {level}", index + 1)?;
        }
        match self.entries.len() - self.levels.len() {
            0 => {}
            1 => writeln!(f, "\nOne more entry was not looked at.")?,
            more => writeln!(f, "\n{more} more entries were not looked at.")?,
        }
        f.write_str("\n=> ")?;
        match self.outcome {
            Outcome::Limited if self.limits.len() == 1 => f.write_str("one limit")?,
            Outcome::Limited => write!(f, "{} limits", self.limits.len())?,
            Outcome::Unlimited => f.write_str("unlimited")?,
            Outcome::NoLimit => f.write_str("no limit: the last rule has none")?,
            Outcome::NoRule | Outcome::UnknownDomain => f.write_str("no limit: no rule was found")?,
        }
        self.tenants.as_ref().map_or(Ok(()), |tenants| write_tenants(tenants, f))?;
        f.write_str("\n")?;
        for limit in &self.limits {
            write!(f, "\n{limit}")?;
        }
        Ok(())
    }
}

fn write_tenants(tenants: &TenantsTried, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &tenants.matched {
        Some(pattern) if tenants.matched_by_pattern => write!(f, " of the tenants \"{}\"", Visible(pattern)),
        Some(name) => write!(f, " of the tenant \"{}\"", Visible(name)),
        None if tenants.count == 0 => Ok(()),
        None if tenants.count == 1 => f.write_str(" (its one tenant is another)"),
        None => write!(f, " (none of its {} tenants has this value)", tenants.count),
    }
}

impl fmt::Display for ExplainedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = &self.limit;
        writeln!(f, "{limit}")?;
        let place = format_args!("{}:{}", Visible(&limit.file), limit.line).to_string();
        match &limit.plan {
            Some(plan) => writeln!(f, "   from the plan {}, {place}", Visible(plan))?,
            None => writeln!(f, "   written at {place}")?,
        }
        if let Some(quota) = &limit.quota {
            write_details(limit, quota, f)?;
        }
        if let Some(name) = &limit.name {
            writeln!(f, "   name: {}", Visible(name))?;
        }
        if !limit.replaces.is_empty() {
            writeln!(f, "   replaces: {}", Visible(&limit.replaces.join(", ")))?;
        }
        self.bucket.as_ref().map_or(Ok(()), |name| writeln!(f, "   bucket: {name}"))?;
        self.state.as_ref().map_or(Ok(()), |state| writeln!(f, "   now: {state}"))
    }
}

fn write_details(limit: &LimitDescription, quota: &QuotaDescription, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let by = |is_default: bool, flag: &'static str| if is_default { flag } else { "" };
    let algorithm_by = by(quota.algorithm_is_default, " (by --default-algorithm)");
    writeln!(f, "   algorithm: {}{algorithm_by}, holds {}", quota.algorithm, quota.capacity)?;
    let overdraft = if limit.overdraft { "on" } else { "off" };
    writeln!(f, "   overdraft: {overdraft}{}", by(limit.overdraft_is_default, " (by --overdraft)"))?;
    let failure_mode = limit.failure_mode.unwrap_or("the service's default");
    writeln!(f, "   failure mode: {failure_mode}")?;
    writeln!(f, "   scope: {}", limit.scope)
}

use std::collections::HashMap;
use std::sync::Arc;

use super::ActivePolicy;
use super::decision::{Code, Prevention, Source, Status};
use super::values::ValueTallies;
use crate::measure::Count;
use crate::policy::{Domain, Policy, Rule};
use crate::request::Descriptor;

/// What each rule has decided since a policy first had it. The tallies of rules that stay are shared with the policy before:
/// requests that are decided by that one still count.
#[derive(Debug)]
pub struct Tallies {
    /// By the index of the rule.
    rules: Box<[Arc<Tally>]>,
    /// By the index of the domain.
    domains: Box<[Arc<DomainTallies>]>,
    /// Descriptors of domains that no policy file names.
    pub unknown_domain: Arc<Tally>,
}

/// What has been decided in a domain without a rule.
#[derive(Debug, Default)]
pub struct DomainTallies {
    /// Descriptors that found no limit.
    pub no_limit: Tally,
    /// Descriptors that brought their own.
    pub own_limit: Tally,
}

/// How often descriptors have been decided.
#[derive(Debug, Default)]
pub struct Tally {
    /// By source, then by code.
    decisions: [[Count; Code::ALL.len()]; Source::ALL.len()],
    /// Hits that they asked for, likewise.
    hits: [[Count; Code::ALL.len()]; Source::ALL.len()],
    /// Of these, those that passed when little was left.
    near_limit_hits: Count,
    /// Of those that were over and did not refuse.
    prevented: [Count; Prevention::ALL.len()],
    /// By value, of a rule whose metrics name values.
    values: ValueTallies,
}

impl Tallies {
    /// Tallies for a policy, after those of the policy before it.
    pub(super) fn of(policy: &Policy, before: Option<&ActivePolicy>) -> Self {
        let mut rules = vec![None; policy.rule_count()];
        let mut domains = vec![None; policy.domain_count()];
        for domain in policy.domains() {
            let Some(before) = before else { break };
            let Some(same) = before.policy.domain(domain.name().as_bytes()) else { continue };
            domains[domain.index()] = Some(Arc::clone(&before.tallies.domains[same.index()]));
            let mut stay = HashMap::new();
            same.for_each_rule(|path, rule, _| {
                stay.insert(path.to_owned(), (rule, Arc::clone(&before.tallies.rules[rule.index as usize])));
            });
            domain.for_each_rule(|path, rule, _| {
                let stays = stay.remove(path).filter(|(same, _)| are_shown_alike(same, rule));
                rules[rule.index as usize] = stays.map(|(_, tally)| tally);
            });
        }
        Self {
            rules: rules.into_iter().map(Option::unwrap_or_default).collect(),
            domains: domains.into_iter().map(Option::unwrap_or_default).collect(),
            unknown_domain: before.map(|before| Arc::clone(&before.tallies.unknown_domain)).unwrap_or_default(),
        }
    }

    /// The tally of a rule of the policy that the tallies are of.
    #[must_use]
    pub fn rule(&self, rule: &Rule) -> &Tally {
        &self.rules[rule.index as usize]
    }

    /// The tallies of a domain of the policy that the tallies are of.
    #[must_use]
    pub fn domain(&self, domain: &Domain) -> &DomainTallies {
        &self.domains[domain.index()]
    }
}

/// Whether metrics show two rules with the same path by the same labels. Where they do not, what was counted for the one says
/// nothing of the other.
fn are_shown_alike(one: &Rule, other: &Rule) -> bool {
    one.shadow_mode == other.shadow_mode && one.shown_values == other.shown_values
}

impl Tally {
    pub(super) fn count(&self, status: &Status, hits: u64) {
        self.decisions[status.source as usize][status.code as usize].increment();
        self.hits[status.source as usize][status.code as usize].add(hits);
        if status.is_near_limit {
            self.near_limit_hits.add(hits);
        }
        if let Some(prevention) = status.prevented_by {
            self.prevented[prevention as usize].increment();
        }
    }

    /// Counts a descriptor by the values of the entries that are shown.
    pub(super) fn count_value(&self, shown: &[bool], descriptor: &Descriptor, code: Code, most: usize) {
        self.values.count(shown, descriptor, code, most);
    }

    /// Whether nothing was decided.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decisions.iter().flatten().all(|count| count.get() == 0)
    }

    /// What was counted by value.
    pub const fn values(&self) -> &ValueTallies {
        &self.values
    }

    /// Hits that passed when little was left.
    #[must_use]
    pub fn near_limit_hits(&self) -> u64 {
        self.near_limit_hits.get()
    }

    /// How many refusals were prevented, for each reason for which there was one.
    pub fn prevented(&self) -> impl Iterator<Item = (Prevention, u64)> {
        let counts = self.prevented.iter().map(Count::get);
        Prevention::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// How many decisions there were of each kind of which there was one, and the hits that they asked for.
    pub fn decisions(&self) -> impl Iterator<Item = (Source, Code, u64, u64)> {
        let kinds = Source::ALL.into_iter().flat_map(|source| Code::ALL.map(|code| (source, code)));
        let counts = kinds.map(|(source, code)| {
            let count = |of: &[[Count; Code::ALL.len()]]| of[source as usize][code as usize].get();
            (source, code, count(&self.decisions), count(&self.hits))
        });
        counts.filter(|(_, _, decisions, _)| *decisions > 0)
    }
}

use super::decision::{Code, Prevention, Source, Status};
use super::values::ValueTallies;
use crate::measure::Count;
use crate::policy::{Domain, Policy, Rule};
use crate::request::Descriptor;

/// What each rule has decided since its policy was loaded.
#[derive(Debug)]
pub struct Tallies {
    /// By the index of the rule.
    rules: Box<[Tally]>,
    /// By the index of the domain.
    domains: Box<[DomainTallies]>,
    /// Descriptors of domains that no policy file names.
    pub unknown_domain: Tally,
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
    pub(super) fn of(policy: &Policy) -> Self {
        Self {
            rules: (0..policy.rule_count()).map(|_| Tally::default()).collect(),
            domains: (0..policy.domain_count()).map(|_| DomainTallies::default()).collect(),
            unknown_domain: Tally::default(),
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

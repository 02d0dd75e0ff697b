use super::counts::Count;
use super::decision::{Code, Prevention, Source, Status};
use crate::policy::{Domain, Policy, Rule};

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
    /// Of those that were over and did not refuse.
    prevented: [Count; Prevention::ALL.len()],
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
    pub(super) fn count(&self, status: &Status) {
        self.decisions[status.source as usize][status.code as usize].increment();
        if let Some(prevention) = status.prevented_by {
            self.prevented[prevention as usize].increment();
        }
    }

    /// How many refusals were prevented, for each reason for which there was one.
    pub fn prevented(&self) -> impl Iterator<Item = (Prevention, u64)> {
        let counts = self.prevented.iter().map(Count::get);
        Prevention::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// How many decisions there were of each kind of which there was one.
    pub fn decisions(&self) -> impl Iterator<Item = (Source, Code, u64)> {
        let by_source = Source::ALL.into_iter().zip(&self.decisions);
        by_source
            .flat_map(|(source, by_code)| {
                Code::ALL.into_iter().zip(by_code).map(move |(code, n)| (source, code, n.get()))
            })
            .filter(|(_, _, count)| *count > 0)
    }
}

use super::counts::Count;
use super::decision::{Code, Source, Status};
use crate::policy::{Domain, Policy, Rule};

/// What each rule has decided since its policy was loaded.
///
/// The tally of a rule has the rule's index. After them come two for each domain, and one for all unknown domains.
#[derive(Debug)]
pub struct Tallies(Box<[Tally]>);

/// How often a rule's limits have decided about a descriptor.
#[derive(Debug)]
pub struct Tally {
    domain: Box<str>,
    rule: Box<str>,
    /// By source, then by code.
    decisions: [[Count; Code::ALL.len()]; Source::ALL.len()],
}

/// Which tally counts a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TallyIndex(usize);

impl TallyIndex {
    pub(super) const fn of_rule(rule: &Rule) -> Self {
        Self(rule.index as usize)
    }

    /// Of descriptors that find no limit in a domain.
    pub(super) fn without_limit(domain: &Domain, policy: &Policy) -> Self {
        Self(policy.rule_count() + 2 * domain.index())
    }

    /// Of descriptors that bring their own limit.
    pub(super) fn own_limit(domain: &Domain, policy: &Policy) -> Self {
        Self(Self::without_limit(domain, policy).0 + 1)
    }

    /// Of all descriptors of domains that no policy file names.
    pub(super) fn unknown_domain(policy: &Policy) -> Self {
        Self(policy.rule_count() + 2 * policy.domain_count())
    }
}

impl Tallies {
    pub(super) fn of(policy: &Policy) -> Self {
        let last = TallyIndex::unknown_domain(policy).0;
        let mut tallies: Vec<Tally> = (0..=last).map(|_| Tally::new("(unknown)", "(none)")).collect();
        for domain in policy.domains() {
            tallies[TallyIndex::without_limit(domain, policy).0] = Tally::new(domain.name(), "(none)");
            tallies[TallyIndex::own_limit(domain, policy).0] = Tally::new(domain.name(), "(request)");
            domain.for_each_rule(|rule| tallies[TallyIndex::of_rule(rule).0] = Tally::new(domain.name(), &rule.name));
        }
        Self(tallies.into())
    }

    pub(super) fn count(&self, index: TallyIndex, status: &Status) {
        let source = if status.current_limit.is_some() { Source::Local } else { Source::Unlimited };
        self.0[index.0].decisions[source as usize][status.code as usize].increment();
    }

    /// All that have decided anything.
    pub fn used(&self) -> impl Iterator<Item = &Tally> {
        self.0.iter().filter(|tally| tally.decisions().next().is_some())
    }
}

impl Tally {
    fn new(domain: &str, rule: &str) -> Self {
        Self { domain: domain.into(), rule: rule.into(), decisions: Default::default() }
    }

    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The rule's name; `(none)` where no limit was found, `(request)` where the request brought its own.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// How many decisions there were of each kind of which there was one.
    pub fn decisions(&self) -> impl Iterator<Item = (Source, Code, u64)> {
        Source::ALL
            .into_iter()
            .zip(&self.decisions)
            .flat_map(|(source, by_code)| {
                Code::ALL.into_iter().zip(by_code).map(move |(code, count)| (source, code, count.get()))
            })
            .filter(|(_, _, count)| *count > 0)
    }
}

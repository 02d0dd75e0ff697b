//! The rules of a policy as they were loaded, page by page.

use std::fmt;

use serde::Serialize;

use super::Policy;
use super::candidates::Candidates;
use super::describe::{LimitDescription, RuleDescription};
use super::matcher::{Domain, RuleNode, Rules};
use super::visible::{Visible, cropped};

/// How many limits of a rule are shown.
const MOST_LIMITS: usize = 20;

/// Some of the rules of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RulePage {
    /// How many rules there are in all.
    pub rule_count: usize,
    /// The first of this page, counted from 0.
    pub offset: usize,
    pub rules: Vec<ListedRule>,
}

/// A rule, and the path to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedRule {
    pub domain: String,
    pub path: Vec<PathStep>,
    pub limit_count: usize,
    /// The first of them.
    pub limits: Vec<LimitDescription>,
    pub tenants: Candidates,
    #[serde(flatten)]
    pub rule: RuleDescription,
}

/// The key of a rule, and its value or pattern; none is any value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathStep {
    pub key: String,
    pub value: Option<String>,
}

/// A rule in the list of all.
struct Placed<'p> {
    /// Its place in the list.
    parent: Option<usize>,
    domain: &'p Domain,
    step: Step<'p>,
}

/// A rule among its siblings.
#[derive(Clone, Copy)]
struct Step<'p> {
    key: &'p [u8],
    value: Option<&'p [u8]>,
    is_shared: bool,
    node: &'p RuleNode,
}

impl Policy {
    /// At most `limit` rules from the one at `offset` on. They come by domain, each before those below it, siblings in
    /// the order of the files.
    ///
    /// It looks at every rule once, and takes memory for what is on the page and some words for each rule.
    #[must_use]
    pub fn rule_page(&self, offset: usize, limit: usize) -> RulePage {
        let mut placed = Vec::with_capacity(self.rule_count);
        for domain in self.sorted_domains() {
            place(domain, domain.rules(), None, &mut placed);
        }
        let end = offset.saturating_add(limit).min(placed.len());
        let page = offset.min(end)..end;
        RulePage { rule_count: placed.len(), offset, rules: page.map(|index| list(&placed, index)).collect() }
    }

    /// The domains by their names.
    pub(super) fn sorted_domains(&self) -> Vec<&Domain> {
        let mut domains: Vec<&Domain> = self.domains.iter().map(|(_, domain)| domain).collect();
        domains.sort_unstable_by_key(|domain| domain.name());
        domains
    }
}

/// Appends the rules of one level, and after each those below it. As deep as the files, which have a bound.
fn place<'p>(domain: &'p Domain, rules: &'p Rules, parent: Option<usize>, placed: &mut Vec<Placed<'p>>) {
    let mut steps = Vec::new();
    for (key, siblings) in rules.by_key.iter() {
        steps.extend(siblings.nodes().map(|(value, is_shared, node)| Step { key, value, is_shared, node }));
    }
    // Rules behind one anchor stand at one place; the rest makes their order the same in every process.
    steps.sort_unstable_by_key(|step| (&step.node.rule.file, step.node.rule.line, step.key, step.value));
    for step in steps {
        placed.push(Placed { parent, domain, step });
        if let Some(below) = &step.node.rules {
            place(domain, below, Some(placed.len() - 1), placed);
        }
    }
}

fn list(placed: &[Placed<'_>], index: usize) -> ListedRule {
    let Placed { domain, step, .. } = &placed[index];
    let mut path = Vec::new();
    let mut next = Some(index);
    while let Some(Placed { parent, step, .. }) = next.and_then(|index| placed.get(index)) {
        path.push(PathStep { key: cropped(step.key), value: step.value.map(cropped) });
        next = *parent;
    }
    path.reverse();
    let Step { is_shared, node, .. } = *step;
    let limits = node.limits.as_deref().unwrap_or_default();
    ListedRule {
        domain: domain.name().to_owned(),
        path,
        limit_count: limits.len(),
        limits: limits.iter().take(MOST_LIMITS).map(|limit| LimitDescription::of(limit, &node.rule.file)).collect(),
        tenants: node.tenants.as_ref().map_or_else(Candidates::default, |tenants| tenants.names()),
        rule: RuleDescription::of(&node.rule, is_shared),
    }
}

/// Two lines: the path to the rule, and what it says.
impl fmt::Display for ListedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", Visible(&self.domain))?;
        for (index, step) in self.path.iter().enumerate() {
            let separator = if index > 0 { " >" } else { "" };
            write!(f, "{separator} {}", Visible(&step.key))?;
            step.value.as_ref().map_or(Ok(()), |value| write!(f, "={}", Visible(value)))?;
        }
        f.write_str("\n    ")?;
        if self.limits.is_empty() {
            f.write_str("no limit")?;
        }
        for (index, limit) in self.limits.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{limit}")?;
            limit.plan.as_ref().map_or(Ok(()), |plan| write!(f, " (plan {})", Visible(plan)))?;
        }
        if self.limit_count > self.limits.len() {
            write!(f, "; and {} more", self.limit_count - self.limits.len())?;
        }
        match self.tenants.count {
            0 => {}
            1 => write!(f, " | 1 tenant: {}", self.tenants)?,
            count => write!(f, " | {count} tenants: {}", self.tenants)?,
        }
        match &self.rule.flags()[..] {
            [] => {}
            flags => write!(f, " | {}", flags.join(", "))?,
        }
        writeln!(f, " | {}", self.rule)
    }
}

//! Which rule a request's descriptor finds.

use std::sync::Arc;

use super::lookup::Lookup;
use super::pattern::Pattern;
use super::rule::{Rule, RuleLimit};
use crate::percent::in_name;

/// The rules of one domain, from all its files.
#[derive(Debug)]
pub struct Domain {
    name: Box<str>,
    index: usize,
    rules: Rules,
}

/// One step of the path from a domain to a rule, as it counts for a bucket's identity.
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
    /// At least one.
    pub limits: &'p [RuleLimit],
}

/// The rules of one level of the tree.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) by_key: Lookup<Siblings>,
}

/// The rules of one level for one key.
#[derive(Debug)]
pub(super) struct Siblings {
    pub(super) exact: Lookup<RuleNode>,
    /// In the order of the files.
    pub(super) wildcards: Box<[Wildcard]>,
    pub(super) any: Option<Box<RuleNode>>,
}

#[derive(Debug)]
pub(super) struct Wildcard {
    pub(super) pattern: Pattern,
    /// All values that match share one bucket.
    pub(super) is_shared: bool,
    pub(super) node: RuleNode,
}

/// The rule that is chosen among siblings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chosen<'p> {
    Exact(&'p RuleNode),
    Wildcard { index: usize, wildcard: &'p Wildcard },
    Any(&'p RuleNode),
}

#[derive(Debug)]
pub(super) struct RuleNode {
    pub(super) rule: Rule,
    /// Shared with all that have the same plan.
    pub(super) limits: Option<Arc<[RuleLimit]>>,
    pub(super) tenants: Option<Box<Tenants>>,
    /// For the next entry of the descriptor.
    pub(super) rules: Option<Box<Rules>>,
}

/// Values of a rule that have limits of their own.
#[derive(Debug)]
pub(super) struct Tenants {
    pub(super) exact: Lookup<Arc<[RuleLimit]>>,
    /// In the order of the file.
    pub(super) wildcards: Box<[(Pattern, Arc<[RuleLimit]>)]>,
}

impl Domain {
    pub(super) const fn new(name: Box<str>, index: usize, rules: Rules) -> Self {
        Self { name, index, rules }
    }

    /// Its place among the domains of the policy, from 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Shows every rule of the domain after those above it, with its path: `tenant|path~/export*`, escaped as in the name
    /// of a bucket, and the limits that it has where no tenant has others. A key alone is a rule for any value.
    pub fn for_each_rule<'p>(&'p self, mut visit: impl FnMut(&str, &'p Rule, &'p [RuleLimit])) {
        self.rules.for_each(&mut String::new(), &mut visit);
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Follows a request descriptor's entries, (key, value) each, from the root and calls `visit` for each step taken.
    /// `None` when an entry finds no rule, or the last rule has no limit; `visit` may have been called even so.
    ///
    /// At each level the rule with exactly this value goes first, then the first wildcard in the order of the files,
    /// then the rule without a value. A path once chosen is never left again. Nothing is allocated.
    pub fn find<'p: 'q, 'r: 'q, 'q>(
        &'p self,
        entries: impl Iterator<Item = (&'r [u8], &'r [u8])>,
        mut visit: impl FnMut(PathPart<'q>),
    ) -> Option<Match<'p>> {
        let mut rules = Some(&self.rules);
        let mut last = None;
        for (key, value) in entries {
            let chosen = rules?.by_key.get(key)?.choose(value)?;
            visit(chosen.path_part(key, value));
            rules = chosen.node().rules.as_deref();
            last = Some((chosen.node(), value));
        }
        let (node, value) = last?;
        Some(Match { rule: &node.rule, limits: node.limits_for(value)? })
    }
}

impl Rules {
    /// As deep as the policy's files, which have a bound.
    fn for_each<'p>(&'p self, path: &mut String, visit: &mut impl FnMut(&str, &'p Rule, &'p [RuleLimit])) {
        for (key, siblings) in self.by_key.iter() {
            for (value, is_shared, node) in siblings.nodes() {
                let length = path.len();
                push_step(path, key, value, is_shared);
                visit(path, &node.rule, node.limits.as_deref().unwrap_or_default());
                if let Some(rules) = &node.rules {
                    rules.for_each(path, visit);
                }
                path.truncate(length);
            }
        }
    }
}

fn push_step(path: &mut String, key: &[u8], value: Option<&[u8]>, is_shared: bool) {
    if !path.is_empty() {
        path.push('|');
    }
    path.push_str(&in_name(key).to_string());
    if let Some(value) = value {
        path.push(if is_shared { '~' } else { '=' });
        path.push_str(&in_name(value).to_string());
    }
}

impl Siblings {
    /// Every rule, with its value or pattern (none is any value), and whether its values share one bucket.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (Option<&[u8]>, bool, &RuleNode)> {
        let exact = self.exact.iter().map(|(value, node)| (Some(value), false, node));
        let wildcards =
            self.wildcards.iter().map(|wildcard| (Some(wildcard.pattern.text()), wildcard.is_shared, &wildcard.node));
        exact.chain(wildcards).chain(self.any.as_deref().map(|node| (None, false, node)))
    }

    /// The rule for this value.
    pub(super) fn choose(&self, value: &[u8]) -> Option<Chosen<'_>> {
        if let Some(node) = self.exact.get(value) {
            return Some(Chosen::Exact(node));
        }
        let matching = self.wildcards.iter().enumerate().find(|(_, wildcard)| wildcard.pattern.matches(value));
        if let Some((index, wildcard)) = matching {
            return Some(Chosen::Wildcard { index, wildcard });
        }
        self.any.as_deref().map(Chosen::Any)
    }
}

impl<'p> Chosen<'p> {
    pub(super) const fn node(&self) -> &'p RuleNode {
        match self {
            Self::Exact(node) | Self::Any(node) => node,
            Self::Wildcard { wildcard, .. } => &wildcard.node,
        }
    }

    /// The step of the path to the rule, for an entry of the request.
    pub(super) fn path_part<'a>(&self, key: &'a [u8], value: &'a [u8]) -> PathPart<'a>
    where
        'p: 'a,
    {
        match self {
            Self::Wildcard { wildcard, .. } if wildcard.is_shared => {
                PathPart { key, value: wildcard.pattern.text(), is_shared: true }
            }
            _ => PathPart { key, value, is_shared: false },
        }
    }
}

impl RuleNode {
    fn limits_for(&self, value: &[u8]) -> Option<&[RuleLimit]> {
        let of_tenant = self.tenants.as_ref().and_then(|tenants| tenants.choose(value));
        of_tenant.map(|(_, limits)| limits).or(self.limits.as_deref())
    }
}

impl Tenants {
    /// The limits for a value, and the pattern that gives them if it is not the name itself.
    pub(super) fn choose(&self, value: &[u8]) -> Option<(Option<&Pattern>, &[RuleLimit])> {
        if let Some(limits) = self.exact.get(value) {
            return Some((None, limits));
        }
        let matching = self.wildcards.iter().find(|(pattern, _)| pattern.matches(value));
        matching.map(|(pattern, limits)| (Some(pattern), &**limits))
    }
}

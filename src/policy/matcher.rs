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
    /// of a bucket. A key alone is a rule for any value.
    pub fn for_each_rule(&self, mut visit: impl FnMut(&str, &Rule)) {
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
    pub fn find<'p, 'r>(
        &'p self,
        entries: impl Iterator<Item = (&'r [u8], &'r [u8])>,
        mut visit: impl FnMut(PathPart<'_>),
    ) -> Option<Match<'p>> {
        let mut rules = Some(&self.rules);
        let mut last = None;
        for (key, value) in entries {
            let (node, shared_pattern) = rules?.by_key.get(key)?.find(value)?;
            visit(PathPart { key, value: shared_pattern.unwrap_or(value), is_shared: shared_pattern.is_some() });
            rules = node.rules.as_deref();
            last = Some((node, value));
        }
        let (node, value) = last?;
        Some(Match { rule: &node.rule, limits: node.limits_for(value)? })
    }
}

impl Rules {
    /// As deep as the policy's files, which have a bound.
    fn for_each(&self, path: &mut String, visit: &mut impl FnMut(&str, &Rule)) {
        for (key, siblings) in self.by_key.iter() {
            for (value, is_shared, node) in siblings.nodes() {
                let length = path.len();
                push_step(path, key, value, is_shared);
                visit(path, &node.rule);
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

    /// The rule for this value, and its pattern if all values of the rule share one bucket.
    fn find(&self, value: &[u8]) -> Option<(&RuleNode, Option<&[u8]>)> {
        if let Some(node) = self.exact.get(value) {
            return Some((node, None));
        }
        if let Some(wildcard) = self.wildcards.iter().find(|wildcard| wildcard.pattern.matches(value)) {
            return Some((&wildcard.node, wildcard.is_shared.then(|| wildcard.pattern.text())));
        }
        self.any.as_deref().map(|node| (node, None))
    }
}

impl RuleNode {
    fn limits_for(&self, value: &[u8]) -> Option<&[RuleLimit]> {
        let of_tenant = self.tenants.as_ref().and_then(|tenants| tenants.find(value));
        of_tenant.or(self.limits.as_deref())
    }
}

impl Tenants {
    fn find(&self, value: &[u8]) -> Option<&[RuleLimit]> {
        let by_wildcard =
            || self.wildcards.iter().find(|(pattern, _)| pattern.matches(value)).map(|(_, limits)| limits);
        self.exact.get(value).or_else(by_wildcard).map(|limits| &**limits)
    }
}

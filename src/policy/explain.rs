//! Why a request's descriptor finds the rule that it finds.

use std::fmt;

use serde::Serialize;

use super::candidates::Candidates;
use super::describe::{LimitDescription, RuleDescription};
use super::matcher::{Chosen, Domain, PathPart, RuleNode, Rules, Siblings, Tenants};
use super::pattern::Pattern;
use super::rule::RuleLimit;
use super::visible::{Visible, readable};

/// The path of a descriptor through the rules of a domain, level by level: the same one that [`Domain::find`] takes, with
/// what was tried on it.
#[derive(Debug)]
pub struct Walk<'p> {
    /// One for each entry that was looked at, the last of which may have found nothing.
    pub levels: Vec<Level>,
    /// The steps taken, as they count for a bucket's identity.
    pub path: Vec<PathPart<'p>>,
    /// The rule at the last entry; `None` if an entry found no rule.
    pub end: Option<End<'p>>,
}

/// The rule at the last entry, and the limits that it has for this descriptor.
#[derive(Debug)]
pub struct End<'p> {
    pub tenant: TenantsTried,
    /// None if the rule has no limit for this descriptor.
    pub limits: Vec<(&'p RuleLimit, LimitDescription)>,
}

/// What an entry met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    pub key: String,
    pub value: String,
    /// The rules that have this key; `None` if there are none.
    pub rules: Option<RulesTried>,
    /// The keys that there are instead, if this one has no rule.
    pub other_keys: Option<Candidates>,
    pub matched: Option<Matched>,
}

/// The rules of one level that have the entry's key, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RulesTried {
    /// Rules with a value without wildcard.
    pub exact_values: Candidates,
    pub wildcards: WildcardsTried,
    pub has_rule_without_value: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WildcardsTried {
    pub count: usize,
    /// Those that were tried before one matched, in the order of the files.
    pub not_matching: Candidates,
}

/// The rule that an entry found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Matched {
    pub by: MatchedBy,
    /// The rule's value or pattern.
    pub value: Option<String>,
    pub rule: RuleDescription,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchedBy {
    ExactValue,
    Wildcard,
    AnyValue,
}

/// The tenants of the last rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TenantsTried {
    pub count: usize,
    /// The one that gives the limits: a name, or a pattern. `None` if the limits are the rule's own.
    pub matched: Option<String>,
    pub matched_by_pattern: bool,
}

impl Domain {
    /// Follows a descriptor's entries, (key, value) each, as [`find`](Self::find) does, and takes notes.
    #[must_use]
    pub fn explain<'p>(&'p self, entries: &[(&'p [u8], &'p [u8])]) -> Walk<'p> {
        let mut walk = Walk { levels: Vec::with_capacity(entries.len()), path: Vec::new(), end: None };
        let mut rules = Some(self.rules());
        let mut last = None;
        for &(key, value) in entries {
            let siblings = rules.and_then(|rules| rules.by_key.get(key));
            let chosen = siblings.and_then(|siblings| siblings.choose(value));
            walk.levels.push(Level {
                key: readable(key),
                value: readable(value),
                rules: siblings.map(|siblings| siblings.tried(value, chosen.as_ref())),
                other_keys: siblings.is_none().then(|| other_keys(rules, key)),
                matched: chosen.as_ref().map(|chosen| chosen.describe(value)),
            });
            let Some(chosen) = chosen else { return walk };
            walk.path.push(chosen.path_part(key, value));
            rules = chosen.node().rules.as_deref();
            last = Some((chosen.node(), value));
        }
        walk.end = last.map(|(node, value)| node.end(value));
        walk
    }
}

fn other_keys(rules: Option<&Rules>, key: &[u8]) -> Candidates {
    rules.map_or_else(Candidates::default, |rules| {
        Candidates::nearest_to(key, rules.by_key.iter().map(|(name, _)| name))
    })
}

impl Siblings {
    /// What was tried for a value before the rule that was chosen, or before there was nothing left to try.
    fn tried(&self, value: &[u8], chosen: Option<&Chosen<'_>>) -> RulesTried {
        let exact_values = if matches!(chosen, Some(Chosen::Exact(_))) {
            Candidates { count: self.exact.len(), names: Vec::new() }
        } else {
            Candidates::nearest_to(value, self.exact.iter().map(|(name, _)| name))
        };
        let not_matching = match chosen {
            Some(Chosen::Exact(_)) => 0,
            Some(Chosen::Wildcard { index, .. }) => *index,
            Some(Chosen::Any(_)) | None => self.wildcards.len(),
        };
        let patterns = self.wildcards.iter().map(|wildcard| wildcard.pattern.text());
        RulesTried {
            exact_values,
            wildcards: WildcardsTried {
                count: self.wildcards.len(),
                not_matching: Candidates::first(patterns.take(not_matching)),
            },
            has_rule_without_value: self.any.is_some(),
        }
    }
}

impl Chosen<'_> {
    fn describe(&self, value: &[u8]) -> Matched {
        let (by, value, is_shared) = match self {
            Self::Exact(_) => (MatchedBy::ExactValue, Some(readable(value)), false),
            Self::Wildcard { wildcard, .. } => {
                (MatchedBy::Wildcard, Some(readable(wildcard.pattern.text())), wildcard.is_shared)
            }
            Self::Any(_) => (MatchedBy::AnyValue, None, false),
        };
        Matched { by, value, rule: RuleDescription::of(&self.node().rule, is_shared) }
    }
}

impl RuleNode {
    fn end(&self, value: &[u8]) -> End<'_> {
        let mut tenant = TenantsTried::default();
        let mut limits = self.limits.as_deref();
        if let Some(tenants) = &self.tenants {
            tenant.count = tenants.exact.len() + tenants.wildcards.len();
            if let Some((pattern, of_tenant)) = tenants.choose(value) {
                tenant.matched = Some(readable(pattern.map_or(value, Pattern::text)));
                tenant.matched_by_pattern = pattern.is_some();
                limits = Some(of_tenant);
            }
        }
        let describe = |limit| (limit, LimitDescription::of(limit, &self.rule.file));
        End { tenant, limits: limits.unwrap_or_default().iter().map(describe).collect() }
    }
}

impl Tenants {
    /// How many there are, and the first of them: names before patterns.
    pub(super) fn names(&self) -> Candidates {
        let mut names = Candidates::lowest(self.exact.iter().map(|(name, _)| name));
        names.append(Candidates::first(self.wildcards.iter().map(|(pattern, _)| pattern.text())));
        names
    }
}

/// `key=value`, and a line for each thing that was tried.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}={}", Visible(&self.key), Visible(&self.value))?;
        if let Some(others) = &self.other_keys {
            return match others.count {
                0 => writeln!(f, "   no: there are no rules at this level"),
                _ => writeln!(f, "   no: no rule at this level has this key; there are {others}"),
            };
        }
        if let Some(rules) = &self.rules {
            rules.write(f, self.matched.as_ref())?;
        }
        match &self.matched {
            None => writeln!(f, "   no: no rule at this level is for this value"),
            Some(matched) => matched.fmt(f),
        }
    }
}

impl RulesTried {
    fn write(&self, f: &mut fmt::Formatter<'_>, matched: Option<&Matched>) -> fmt::Result {
        let by = matched.map(|matched| matched.by);
        if by == Some(MatchedBy::ExactValue) {
            return Ok(());
        }
        if self.exact_values.count > 0 {
            let counted = if self.exact_values.count == 1 {
                "the one exact value".to_owned()
            } else {
                format!("the {} exact values", self.exact_values.count)
            };
            writeln!(f, "   not {counted}: {}", self.exact_values)?;
        }
        let not_matching = &self.wildcards.not_matching;
        if not_matching.count > 0 {
            writeln!(f, "   not by wildcard: {not_matching}")?;
        }
        if by.is_none() {
            writeln!(f, "   not by a rule without a value: there is none")?;
        }
        Ok(())
    }
}

impl fmt::Display for Matched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.as_deref().unwrap_or_default();
        match self.by {
            MatchedBy::ExactValue => write!(f, "   yes: the rule with exactly this value")?,
            MatchedBy::Wildcard => write!(f, "   yes: the rule with the wildcard \"{}\"", Visible(value))?,
            MatchedBy::AnyValue => write!(f, "   yes: the rule without a value, which is for any")?,
        }
        writeln!(f, ", {}", self.rule)?;
        match &self.rule.flags()[..] {
            [] => Ok(()),
            flags => writeln!(f, "   it has {}", flags.join(", ")),
        }
    }
}

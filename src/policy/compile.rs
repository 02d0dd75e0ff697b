//! Makes one policy of all files, and finds what only several parts together can have wrong.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::fault::{FaultSink, Place, Quoted};
use super::file::{FileSpec, LimitsSpec, PlanSpec, RuleSpec, TenantSpec, ValueSpec};
use super::known::nearest;
use super::matcher::{Domain, RuleNode, Rules, Siblings, Tenants, Wildcard};
use super::pattern::{Pattern, canonical, is_wildcard};
use super::rule::{Rule, RuleLimit};

/// All domains, and how many rules they have.
pub(super) struct Compiled {
    pub(super) domains: Vec<(Box<[u8]>, Domain)>,
    pub(super) rule_count: u32,
}

/// Compiles all files, in their order. If `are_complete` is not set, some file could not be read, and what seems to be
/// missing may be there.
pub(super) fn compile(files: Vec<FileSpec>, are_complete: bool, sink: &mut FaultSink<'_>) -> Compiled {
    let mut specs: BTreeMap<DomainName, DomainSpec> = BTreeMap::new();
    for mut file in files {
        // A file without a domain is a fault; its rules are still looked at, as those of a domain of its own.
        let name = file.domain.take().map_or(DomainName::Missing(file.file), DomainName::Given);
        specs.entry(name).or_default().add(file, sink);
    }

    let mut all = Compiled { domains: Vec::with_capacity(specs.len()), rule_count: 0 };
    for (name, spec) in specs {
        let mut compiler =
            Compiler { sink, plans: &spec.plans, are_complete, rule_count: all.rule_count, shown_above: Vec::new() };
        let rules = compiler.rules(spec.rules);
        all.rule_count = compiler.rule_count;
        if let DomainName::Given(name) = name {
            all.domains.push((name.as_bytes().into(), Domain::new((&*name).into(), all.domains.len(), rules)));
        }
    }
    all
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum DomainName {
    Given(Rc<str>),
    Missing(u32),
}

/// What the files of one domain say together.
#[derive(Default)]
struct DomainSpec {
    plans: BTreeMap<Rc<str>, PlacedPlan>,
    rules: Vec<RuleSpec>,
}

struct PlacedPlan {
    place: Place,
    limits: Option<Arc<[RuleLimit]>>,
}

impl DomainSpec {
    fn add(&mut self, file: FileSpec, sink: &mut FaultSink<'_>) {
        self.rules.extend(file.rules);
        for PlanSpec { place, name, limits } in file.plans {
            if let Some(first) = self.plans.get(&name) {
                let first = sink.describe(first.place);
                sink.fault(place, format_args!("duplicate of the plan {} at {first}: rename one", Quoted(&name)));
            } else {
                self.plans.insert(name, PlacedPlan { place, limits });
            }
        }
    }
}

struct Compiler<'c, 's> {
    sink: &'c mut FaultSink<'s>,
    plans: &'c BTreeMap<Rc<str>, PlacedPlan>,
    are_complete: bool,
    /// Of all domains so far.
    rule_count: u32,
    /// Of the rules above the one that is compiled: whether metrics name the request's value.
    shown_above: Vec<bool>,
}

impl Compiler<'_, '_> {
    /// Compiles one level of the tree and all below it. As deep as the files, which have a bound.
    fn rules(&mut self, specs: Vec<RuleSpec>) -> Rules {
        let mut by_key: BTreeMap<Rc<str>, Vec<RuleSpec>> = BTreeMap::new();
        for spec in specs {
            if let Some(key) = &spec.key {
                by_key.entry(Rc::clone(key)).or_default().push(spec);
            } else {
                // The rule is lost, but not the faults below it.
                self.node(spec, None);
            }
        }
        let compiled = by_key.into_iter().map(|(key, specs)| (key.as_bytes().into(), self.siblings(&key, specs)));
        Rules { by_key: compiled.collect() }
    }

    fn siblings(&mut self, key: &str, specs: Vec<RuleSpec>) -> Siblings {
        let exact_values = self.check_siblings(key, &specs);
        let (mut exact, mut wildcards, mut any) = (Vec::new(), Vec::new(), None);
        for mut spec in specs {
            let tenants = std::mem::take(&mut spec.tenants);
            match std::mem::replace(&mut spec.value, ValueSpec::Any) {
                ValueSpec::Exactly(value) => exact.push((value.as_bytes().into(), self.node(spec, None))),
                ValueSpec::Wildcard { pattern, is_shared } => {
                    let pattern = Pattern::new(&pattern);
                    let tenants = self.tenants(tenants, Some(&pattern), &exact_values);
                    wildcards.push(Wildcard { pattern, is_shared, node: self.node(spec, tenants) });
                }
                ValueSpec::Any => {
                    let tenants = self.tenants(tenants, None, &exact_values);
                    any = Some(Box::new(self.node(spec, tenants)));
                }
            }
        }
        Siblings { exact: exact.into_iter().collect(), wildcards: wildcards.into(), any }
    }

    /// Tells of rules for the same values, and returns where each exact value stands.
    fn check_siblings(&mut self, key: &str, specs: &[RuleSpec]) -> HashMap<Rc<str>, Place> {
        let (mut exact, mut wildcards, mut any) = (HashMap::new(), HashMap::new(), None);
        for RuleSpec { place, value, .. } in specs {
            let first = match value {
                ValueSpec::Any => *any.get_or_insert(*place),
                ValueSpec::Exactly(value) => *exact.entry(Rc::clone(value)).or_insert(*place),
                ValueSpec::Wildcard { pattern, .. } => *wildcards.entry(canonical(pattern)).or_insert(*place),
            };
            if first != *place {
                let first = self.sink.describe(first);
                let value = match value {
                    ValueSpec::Any => "no value".to_owned(),
                    ValueSpec::Exactly(value) | ValueSpec::Wildcard { pattern: value, .. } => {
                        format!("value {}", Quoted(value))
                    }
                };
                self.sink.fault(
                    *place,
                    format_args!(
                        "duplicate of the descriptor with key {} and {value} at {first}: make one of the two",
                        Quoted(key)
                    ),
                );
            }
        }
        exact
    }

    fn node(&mut self, spec: RuleSpec, tenants: Option<Box<Tenants>>) -> RuleNode {
        let index = self.rule_count;
        self.rule_count += 1;
        let limits = self.limits(spec.limits);
        self.shown_above.push(spec.rule.value_to_metric);
        let shown: Box<[bool]> = self.shown_above.iter().map(|shown| *shown || spec.rule.detailed_metric).collect();
        let shown_values = shown.contains(&true).then_some(shown);
        let rules = if spec.rules.is_empty() { None } else { Some(Box::new(self.rules(spec.rules))) };
        self.shown_above.pop();
        RuleNode { rule: Rule { shown_values, index, ..spec.rule }, limits, tenants, rules }
    }

    fn tenants(
        &mut self,
        specs: Vec<TenantSpec>,
        pattern: Option<&Pattern>,
        exact_values: &HashMap<Rc<str>, Place>,
    ) -> Option<Box<Tenants>> {
        if specs.is_empty() {
            return None;
        }
        let (mut exact, mut wildcards, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for TenantSpec { place, name, limits } in specs {
            let limits = self.limits(limits);
            let quoted = Quoted(&name);
            if is_wildcard(&name) {
                if !seen.insert(canonical(&name)) {
                    self.sink.fault(place, format_args!("duplicate of an earlier wildcard, {quoted}: remove one"));
                }
                wildcards.extend(limits.map(|limits| (Pattern::new(&name), limits)));
                continue;
            }
            if let Some(sibling) = exact_values.get(&name) {
                let sibling = self.sink.describe(*sibling);
                self.sink.fault(
                    place,
                    format_args!(
                        "the tenant {quoted} is also the value of the descriptor at {sibling}, which would go first: \
                         remove one"
                    ),
                );
            }
            if pattern.is_some_and(|pattern| !pattern.matches(name.as_bytes())) {
                self.sink.fault(
                    place,
                    format_args!("the tenant {quoted} does not match the value of its descriptor: move or remove it"),
                );
            }
            exact.extend(limits.map(|limits| (name.as_bytes().into(), limits)));
        }
        Some(Box::new(Tenants { exact: exact.into_iter().collect(), wildcards: wildcards.into() }))
    }

    fn limits(&mut self, spec: LimitsSpec) -> Option<Arc<[RuleLimit]>> {
        match spec {
            LimitsSpec::None => None,
            LimitsSpec::Inline(limits) => Some(limits),
            LimitsSpec::Plan { place, name } => {
                let Some(plan) = self.plans.get(&name) else {
                    self.unknown_plan(place, &name);
                    return None;
                };
                plan.limits.clone()
            }
        }
    }

    fn unknown_plan(&mut self, place: Place, name: &str) {
        if !self.are_complete || self.sink.is_full() {
            return;
        }
        let advice = if let Some(meant) = nearest(name, self.plans.keys().map(|plan| &**plan)) {
            format!("did you mean {meant}?")
        } else if self.plans.is_empty() {
            "this domain has no plans: add it under plans at the top of the file".to_owned()
        } else {
            let first: Vec<String> = self.plans.keys().take(5).map(|plan| Quoted(plan).to_string()).collect();
            format!("add it under plans, or use one of this domain's, such as {}", first.join(", "))
        };
        self.sink.fault(place, format_args!("unknown plan {}: {advice}", Quoted(name)));
    }
}

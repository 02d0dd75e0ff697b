//! What a policy file may say.

use std::rc::Rc;
use std::sync::Arc;

use super::fault::{Place, Position};
use super::known::Level;
use super::limits::read_limits;
use super::metadata::read_metadata;
use super::pattern;
use super::reader::Reader;
use super::rule::{Plan, Rule, RuleLimit};
use super::yaml::{Key, Kind, Node};

/// A file as it stands, with its places: every part makes sense in itself, and not yet together with other files.
#[derive(Debug)]
pub(super) struct FileSpec {
    pub(super) file: u32,
    /// `None` after a fault, like all that is optional here and not in the language.
    pub(super) domain: Option<Rc<str>>,
    pub(super) plans: Vec<PlanSpec>,
    pub(super) rules: Vec<RuleSpec>,
}

#[derive(Debug)]
pub(super) struct PlanSpec {
    pub(super) place: Place,
    pub(super) name: Rc<str>,
    pub(super) limits: Option<Arc<[RuleLimit]>>,
}

#[derive(Debug)]
pub(super) struct RuleSpec {
    pub(super) place: Place,
    pub(super) key: Option<Rc<str>>,
    pub(super) value: ValueSpec,
    pub(super) limits: LimitsSpec,
    pub(super) tenants: Vec<TenantSpec>,
    pub(super) rules: Vec<RuleSpec>,
    pub(super) rule: Rule,
}

/// Which values of its key a rule is for.
#[derive(Debug)]
pub(super) enum ValueSpec {
    Any,
    Exactly(Rc<str>),
    Wildcard { pattern: Rc<str>, is_shared: bool },
}

#[derive(Debug)]
pub(super) enum LimitsSpec {
    None,
    Plan { place: Place, name: Rc<str> },
    Inline(Arc<[RuleLimit]>),
}

#[derive(Debug)]
pub(super) struct TenantSpec {
    pub(super) place: Place,
    pub(super) name: Rc<str>,
    pub(super) limits: LimitsSpec,
}

/// Reads the root node of a file.
pub(super) fn read_file(reader: &mut Reader<'_, '_>, root: &Node) -> FileSpec {
    let mut spec = FileSpec { file: reader.faults.file, domain: None, plans: Vec::new(), rules: Vec::new() };
    if matches!(root.kind, Kind::Null) {
        reader.fault(Position::START, format_args!("this file is empty: a policy begins with domain"));
        return spec;
    }
    let Some(entries) = reader.map("a policy file", root, "a mapping with domain and descriptors") else {
        return spec;
    };
    let mut has_domain = false;
    for (key, value) in entries {
        match &*key.text {
            "domain" => {
                has_domain = true;
                spec.domain = reader.text("domain", value);
            }
            "plans" => spec.plans = read_plans(reader, value),
            "descriptors" => spec.rules = read_rules(reader, value),
            _ => has_domain |= reader.unknown_key(key, Level::File) == Some("domain"),
        }
    }
    if !has_domain {
        reader.fault(root.at, format_args!("domain is missing: give the one that Envoy's rate limit filter names"));
    }
    spec
}

fn read_plans(reader: &mut Reader<'_, '_>, node: &Node) -> Vec<PlanSpec> {
    if matches!(node.kind, Kind::Null) {
        return Vec::new();
    }
    let Some(entries) = reader.map("plans", node, "a mapping of names to limits") else { return Vec::new() };
    let mut plans = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        if key.text.is_empty() {
            reader.fault(key.at, format_args!("the name of a plan is empty: give it one"));
        }
        let plan = Plan { name: (*key.text).into(), file: reader.faults.file_name() };
        let limits = read_limits(reader, "a plan", value, Some(&Arc::new(plan)));
        plans.push(PlanSpec { place: reader.faults.place(key.at), name: Rc::clone(&key.text), limits });
    }
    plans
}

/// Reads a list of descriptors. As deep as the node, which has a bound.
fn read_rules(reader: &mut Reader<'_, '_>, node: &Node) -> Vec<RuleSpec> {
    let items = reader.list("descriptors", node);
    let mut rules = Vec::with_capacity(items.len());
    for item in items {
        if let Some(entries) = reader.map("a descriptor", item, "a mapping with a key") {
            rules.push(read_rule(reader, item, entries));
        }
    }
    rules
}

/// Where keys of a descriptor stand that must be looked at together.
#[derive(Default)]
struct Seen {
    key: Option<Position>,
    plan: Option<Position>,
    rate_limit: Option<Position>,
    share_threshold: Option<Position>,
    tenants: Option<Position>,
}

fn read_rule(reader: &mut Reader<'_, '_>, node: &Node, entries: &[(Key, Node)]) -> RuleSpec {
    let place = reader.faults.place(node.at);
    let mut rule = Rule {
        shadow_mode: false,
        quota_mode: false,
        detailed_metric: false,
        value_to_metric: false,
        shown_values: None,
        metadata: None,
        index: 0,
        file: reader.faults.file_name(),
        line: node.at.line,
    };
    let (mut name, mut value, mut is_shared) = (None, None, false);
    let (mut limits, mut tenants, mut rules) = (LimitsSpec::None, Vec::new(), Vec::new());
    let mut seen = Seen::default();
    for (key, node) in entries {
        let what = &*key.text;
        match what {
            "key" => {
                seen.key = Some(node.at);
                name = reader.text(what, node);
            }
            "value" => value = reader.optional_text(what, node),
            "rate_limit" => {
                seen.rate_limit = Some(key.at);
                limits = read_rate_limit(reader, node);
            }
            "plan" => {
                seen.plan = Some(key.at);
                limits = read_plan(reader, node);
            }
            "tenants" => {
                seen.tenants = Some(key.at);
                tenants = read_tenants(reader, node);
            }
            "descriptors" => rules = read_rules(reader, node),
            "shadow_mode" => rule.shadow_mode = reader.flag(what, node).unwrap_or_default(),
            "quota_mode" => rule.quota_mode = reader.flag(what, node).unwrap_or_default(),
            "share_threshold" => {
                seen.share_threshold = Some(key.at);
                is_shared = reader.flag(what, node).unwrap_or_default();
            }
            "detailed_metric" => rule.detailed_metric = reader.flag(what, node).unwrap_or_default(),
            "value_to_metric" => rule.value_to_metric = reader.flag(what, node).unwrap_or_default(),
            "metadata" => rule.metadata = read_metadata(reader, node).map(Arc::new),
            _ => {
                if reader.unknown_key(key, Level::Descriptor) == Some("key") {
                    seen.key = Some(node.at);
                }
            }
        }
    }
    let value = match value {
        None => ValueSpec::Any,
        Some(pattern) if pattern::is_wildcard(&pattern) => ValueSpec::Wildcard { pattern, is_shared },
        Some(value) => ValueSpec::Exactly(value),
    };
    let key = check_key(reader, node.at, &seen, name);
    check_together(reader, &seen, &value, is_shared);
    RuleSpec { place, key, value, limits, tenants, rules, rule }
}

fn check_key(reader: &mut Reader<'_, '_>, at: Position, seen: &Seen, key: Option<Rc<str>>) -> Option<Rc<str>> {
    let Some(key_at) = seen.key else {
        reader.fault(at, format_args!("key is missing: give the key of an entry of the request's descriptor"));
        return None;
    };
    let key = key?;
    if pattern::is_wildcard(&key) {
        reader.fault(key_at, format_args!("a key takes no wildcard: write out the key, and put the * into value"));
    }
    Some(key)
}

fn check_together(reader: &mut Reader<'_, '_>, seen: &Seen, value: &ValueSpec, is_shared: bool) {
    if let (Some(plan), Some(rate_limit)) = (seen.plan, seen.rate_limit) {
        reader.fault(plan.max(rate_limit), format_args!("plan and rate_limit exclude each other: remove one"));
    }
    if let Some(at) = seen.share_threshold
        && is_shared
        && !matches!(value, ValueSpec::Wildcard { .. })
    {
        reader.fault(at, format_args!("share_threshold needs a wildcard: put a * into value, or remove it"));
    }
    let Some(at) = seen.tenants else { return };
    match value {
        ValueSpec::Exactly(_) => {
            let advice = "remove value, or give the limit to the descriptor itself";
            reader.fault(at, format_args!("tenants do not go with the one value of this descriptor: {advice}"));
        }
        ValueSpec::Wildcard { is_shared: true, .. } => {
            reader.fault(at, format_args!("tenants do not go with share_threshold, one bucket for all: remove one"));
        }
        ValueSpec::Any | ValueSpec::Wildcard { .. } => {}
    }
}

fn read_rate_limit(reader: &mut Reader<'_, '_>, node: &Node) -> LimitsSpec {
    if matches!(node.kind, Kind::Scalar(_)) {
        reader.wrong(node, "rate_limit", "a limit or a list of limits (the name of a plan belongs to plan)");
        return LimitsSpec::None;
    }
    read_limits(reader, "rate_limit", node, None).map_or(LimitsSpec::None, LimitsSpec::Inline)
}

fn read_plan(reader: &mut Reader<'_, '_>, node: &Node) -> LimitsSpec {
    if matches!(node.kind, Kind::List(_) | Kind::Map(_)) {
        reader.wrong(node, "plan", "the name of a plan (a limit belongs to rate_limit)");
        return LimitsSpec::None;
    }
    let place = reader.faults.place(node.at);
    reader.text("plan", node).map_or(LimitsSpec::None, |name| LimitsSpec::Plan { place, name })
}

fn read_tenants(reader: &mut Reader<'_, '_>, node: &Node) -> Vec<TenantSpec> {
    if matches!(node.kind, Kind::Null) {
        return Vec::new();
    }
    let should_be = "a mapping of names to plans or limits";
    let Some(entries) = reader.map("tenants", node, should_be) else { return Vec::new() };
    let mut tenants = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        if key.text.is_empty() {
            reader.fault(key.at, format_args!("the name of a tenant is empty: give it one"));
        }
        let limits = if matches!(value.kind, Kind::Scalar(_)) {
            let place = reader.faults.place(value.at);
            let name = reader.text("the plan of a tenant", value);
            name.map_or(LimitsSpec::None, |name| LimitsSpec::Plan { place, name })
        } else {
            let limits = read_limits(reader, "the limit of a tenant", value, None);
            limits.map_or(LimitsSpec::None, LimitsSpec::Inline)
        };
        tenants.push(TenantSpec { place: reader.faults.place(key.at), name: Rc::clone(&key.text), limits });
    }
    tenants
}

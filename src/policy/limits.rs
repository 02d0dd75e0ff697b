//! Reads limits: the values of `rate_limit`, of a plan, of a tenant.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::fault::{Position, Quoted};
use super::known::Level;
use super::reader::Reader;
use super::rule::{FailureMode, Origin, Plan, Quota, RuleLimit, Scope};
use super::yaml::{Key, Kind, Node};
use crate::limit::{Algorithm, Limit, LimitError, Micros, Unit};

pub(super) const ALGORITHMS: [(&str, Algorithm); 2] =
    [(Algorithm::TokenBucket.name(), Algorithm::TokenBucket), (Algorithm::FixedWindow.name(), Algorithm::FixedWindow)];

pub(super) const FAILURE_MODES: [(&str, FailureMode); 4] = [
    (FailureMode::Local.name(), FailureMode::Local),
    (FailureMode::Open.name(), FailureMode::Open),
    (FailureMode::Closed.name(), FailureMode::Closed),
    (FailureMode::Unavailable.name(), FailureMode::Unavailable),
];

pub(super) const SCOPES: [(&str, Scope); 2] =
    [(Scope::Global.name(), Scope::Global), (Scope::Replica.name(), Scope::Replica)];

/// From this length on, the burst that a full token bucket adds to its first period deserves a note.
const LONG_PERIOD: Micros = Micros::from_seconds(Unit::Day.seconds());

/// Reads one limit or a list of them, which may be those of a plan. `None` if any of them is a fault, which has been
/// told.
pub(super) fn read_limits(
    reader: &mut Reader<'_, '_>,
    what: &str,
    node: &Node,
    plan: Option<&Arc<Plan>>,
) -> Option<Arc<[RuleLimit]>> {
    let items = match &node.kind {
        Kind::List(list) if list.items.is_empty() => {
            reader.fault(node.at, format_args!("{what} is an empty list: give a limit, or remove it"));
            return None;
        }
        Kind::List(list) => list.items.as_slice(),
        Kind::Null => {
            reader.fault(node.at, format_args!("{what} is null: give a limit, or remove it"));
            return None;
        }
        _ => std::slice::from_ref(node),
    };
    let limits: Vec<LimitSpec> = items.iter().filter_map(|item| read_limit(reader, what, item, plan)).collect();
    check_together(reader, &limits);
    (limits.len() == items.len()).then(|| limits.into_iter().map(|spec| spec.limit).collect())
}

struct LimitSpec {
    limit: RuleLimit,
    at: Position,
    replaces_at: Vec<Position>,
}

/// The faults that only several limits of one rule can have.
fn check_together(reader: &mut Reader<'_, '_>, specs: &[LimitSpec]) {
    let names: HashSet<&str> = specs.iter().filter_map(|spec| spec.limit.name.as_deref()).collect();
    let mut buckets = HashMap::new();
    for LimitSpec { limit, at, replaces_at } in specs {
        match limit.quota {
            Quota::Unlimited if specs.len() > 1 => reader
                .fault(*at, format_args!("an unlimited limit beside others has no effect: remove it, or the others")),
            Quota::Unlimited => {}
            Quota::Limited(quota) => {
                let bucket = (quota.unit(), quota.multiplier(), quota.algorithm());
                let first = *buckets.entry(bucket).or_insert(*at);
                if first != *at {
                    let Position { line, column } = first;
                    reader.fault(
                        *at,
                        format_args!(
                            "a duplicate of the limit at {line}:{column}: with the same unit, unit_multiplier and \
                             algorithm they would be one bucket, so keep the stricter one"
                        ),
                    );
                }
            }
        }
        for (replaced, at) in limit.replaces.iter().zip(replaces_at) {
            if names.contains(&**replaced) {
                reader.fault(
                    *at,
                    format_args!("replaces names this rule itself, {}: name a limit of another rule", Quoted(replaced)),
                );
            }
        }
    }
}

/// A key that is there, with its value unless that is a fault.
struct Given<T> {
    at: Position,
    value: Option<T>,
}

impl<T> Given<T> {
    const fn at(node: &Node, value: Option<T>) -> Self {
        Self { at: node.at, value }
    }
}

/// What was said about a quota, before it is known to make sense.
#[derive(Default)]
struct QuotaSpec {
    unit: Option<Given<Unit>>,
    amount: Option<Given<u32>>,
    multiplier: Option<Given<u32>>,
    burst: Option<Given<u32>>,
    algorithm: Option<Given<Algorithm>>,
}

fn read_limit(reader: &mut Reader<'_, '_>, what: &str, node: &Node, plan: Option<&Arc<Plan>>) -> Option<LimitSpec> {
    let entries = reader.map(what, node, "a limit such as {unit: minute, requests_per_unit: 60}")?;
    let mut quota = QuotaSpec::default();
    let (mut is_unlimited, mut overdraft) = (Some(false), None);
    let (mut name, mut failure_mode, mut scope) = (None, None, Scope::default());
    let mut replaces = Vec::new();
    for (key, value) in entries {
        let what = &*key.text;
        match what {
            "unit" => quota.unit = Some(Given::at(value, read_unit(reader, value))),
            "requests_per_unit" => quota.amount = Some(Given::at(value, reader.number(what, value))),
            "unit_multiplier" => quota.multiplier = Some(Given::at(value, reader.number(what, value))),
            "burst" => quota.burst = Some(Given::at(value, reader.number(what, value))),
            "algorithm" => quota.algorithm = Some(Given::at(value, reader.choice(what, value, &ALGORITHMS))),
            "unlimited" => is_unlimited = reader.flag(what, value),
            "name" => name = reader.optional_text(what, value),
            "replaces" => replaces = read_replaces(reader, value),
            "failure_mode" => failure_mode = reader.choice(what, value, &FAILURE_MODES),
            "scope" => scope = reader.choice(what, value, &SCOPES).unwrap_or_default(),
            "overdraft" => overdraft = reader.flag(what, value),
            _ => match reader.unknown_key(key, Level::Limit) {
                Some("unit") => quota.unit = Some(Given::at(value, None)),
                Some("requests_per_unit") => quota.amount = Some(Given::at(value, None)),
                _ => {}
            },
        }
    }
    let origin = Origin {
        plan: plan.cloned(),
        line: node.at.line,
        has_default_algorithm: quota.algorithm.is_none(),
        has_default_overdraft: overdraft.is_none(),
    };
    let overdraft = overdraft.unwrap_or(reader.defaults.overdraft);
    // When `unlimited` is a fault nobody knows whether a unit is missing.
    let quota = if is_unlimited? {
        check_unlimited(reader, entries);
        Quota::Unlimited
    } else {
        Quota::Limited(quota.check(reader, node.at)?)
    };
    let (replaces_at, replaces): (Vec<Position>, Vec<Arc<str>>) = replaces.into_iter().unzip();
    let name = name.map(|name| Arc::from(&*name));
    let limit = RuleLimit { quota, name, replaces: replaces.into(), failure_mode, scope, overdraft, origin };
    Some(LimitSpec { limit, at: node.at, replaces_at })
}

fn read_unit(reader: &mut Reader<'_, '_>, node: &Node) -> Option<Unit> {
    if let Kind::Scalar(scalar) = &node.kind
        && let Some(unit) = Unit::from_name(&scalar.text)
    {
        return Some(unit);
    }
    reader.wrong(node, "unit", &one_of_the_units());
    None
}

fn one_of_the_units() -> String {
    format!("one of {}", Unit::ALL.map(Unit::name).join(", "))
}

fn read_replaces(reader: &mut Reader<'_, '_>, node: &Node) -> Vec<(Position, Arc<str>)> {
    let mut replaced = Vec::new();
    for item in reader.list("replaces", node) {
        let Some(entries) = reader.map("an entry of replaces", item, "a mapping such as {name: other}") else {
            continue;
        };
        let mut has_name = false;
        for (key, value) in entries {
            if &*key.text == "name" {
                has_name = true;
                let name = reader.text("a name in replaces", value);
                replaced.extend(name.map(|name| (value.at, Arc::from(&*name))));
            } else {
                has_name |= reader.unknown_key(key, Level::Replaced) == Some("name");
            }
        }
        if !has_name {
            reader.fault(item.at, format_args!("an entry of replaces has no name: give it the name of a limit"));
        }
    }
    replaced
}

fn check_unlimited(reader: &mut Reader<'_, '_>, entries: &[(Key, Node)]) {
    for (key, _) in entries {
        let belongs = matches!(&*key.text, "unlimited" | "name" | "replaces");
        if !belongs && Level::Limit.keys().contains(&&*key.text) {
            reader.fault(
                key.at,
                format_args!("{} does not go with unlimited: true: remove one of the two", Quoted(&key.text)),
            );
        }
    }
}

impl QuotaSpec {
    fn check(self, reader: &mut Reader<'_, '_>, at: Position) -> Option<Limit> {
        if self.unit.is_none() {
            reader.fault(at, format_args!("unit is missing: give {}", one_of_the_units()));
        }
        if self.amount.is_none() {
            reader.fault(at, format_args!("requests_per_unit is missing: give a number, or unlimited: true"));
        }
        let (unit_at, unit) = self.unit.map(|unit| (unit.at, unit.value))?;
        let (amount_at, amount) = self.amount.map(|amount| (amount.at, amount.value))?;
        let (unit, amount) = (unit?, amount?);
        let multiplier_at = self.multiplier.as_ref().map_or(unit_at, |multiplier| multiplier.at);
        let multiplier = self.multiplier.map_or(Some(1), |multiplier| multiplier.value)?;
        let burst_at = self.burst.as_ref().map_or(amount_at, |burst| burst.at);
        let burst = match self.burst {
            Some(Given { value: None, .. }) => return None,
            Some(burst) => burst.value,
            None => None,
        };
        let names_neither = self.algorithm.is_none() && burst.is_none();
        let algorithm = self.algorithm.map_or(Some(reader.defaults.algorithm), |algorithm| algorithm.value)?;

        let limit = match Limit::new(amount, unit, multiplier, burst, algorithm) {
            Ok(limit) => limit,
            Err(error) => {
                let at = match error {
                    LimitError::NoPeriod | LimitError::PeriodTooLong => multiplier_at,
                    LimitError::NoBurst | LimitError::BurstOfNothing | LimitError::BurstOfWindow => burst_at,
                };
                reader.fault(at, format_args!("{}", wrong_and_advice(error)));
                return None;
            }
        };
        let most = limit.most_exact_amount();
        if u64::from(amount) > most {
            reader.fault(
                amount_at,
                format_args!(
                    "requests_per_unit is more than Redis can count exactly over so long a period: give at most \
                     {most}, or algorithm: fixed_window"
                ),
            );
            return None;
        }
        let is_long_bucket = algorithm == Algorithm::TokenBucket && limit.period() >= LONG_PERIOD && amount > 0;
        if is_long_bucket && names_neither {
            reader.faults.note(
                unit_at,
                format_args!(
                    "this token bucket starts full, so it may admit twice its amount in its first period: if that is \
                     too much give a lower burst or algorithm: fixed_window, else algorithm: token_bucket"
                ),
            );
        }
        Some(limit)
    }
}

/// What is wrong with a quota and what to do, by the keys of the policy.
const fn wrong_and_advice(error: LimitError) -> &'static str {
    match error {
        LimitError::NoPeriod => "unit_multiplier is 0: give at least 1",
        LimitError::PeriodTooLong => {
            "the limit's period is longer than ten years: lower unit_multiplier or take a shorter unit"
        }
        LimitError::NoBurst => "burst is 0: give at least 1, or requests_per_unit: 0 to block everything",
        LimitError::BurstOfNothing => "a limit of 0 requests blocks everything and takes no burst: remove burst",
        LimitError::BurstOfWindow => {
            "burst belongs to algorithm: token_bucket; a fixed_window has none: remove burst or set the algorithm"
        }
    }
}

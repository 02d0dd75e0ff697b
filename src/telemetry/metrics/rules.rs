use std::borrow::Cow;
use std::fmt;

use siphasher::sip::SipHasher13;

use super::family::Families;
use crate::engine::{ActivePolicy, Engine, Tally, limit_suffix};
use crate::limit::Limit;
use crate::policy::RuleLimit;

/// The longest path of a rule in a label, in bytes; longer ones are cut and end with a hash, by which a rule has the same label
/// in every policy.
const LONGEST_RULE: usize = 200;

/// A rule that has decided something, or what stands for descriptors without one.
struct Counted<'a> {
    domain: &'a str,
    rule: &'a str,
    is_shadow: bool,
    limits: &'a [RuleLimit],
    tally: &'a Tally,
}

/// What each rule has decided since a policy first had it. Rules that have decided nothing are not shown: a policy may have
/// a hundred thousand.
pub(super) fn encode(engine: &Engine, families: &mut Families<'_, '_>) -> fmt::Result {
    let (active, shadow_mode) = (&engine.active(), engine.shadow_mode());
    let help = "Descriptors decided, by rule; {none} found no limit, {request} brought its own";
    let mut decisions = families.counter("decisions", help)?;
    for_each_decision(active, shadow_mode, |labels, count, _| decisions.of(labels, count))?;
    let mut hits = families.counter("hits", "Hits that these descriptors asked for")?;
    for_each_decision(active, shadow_mode, |labels, _, count| hits.of(labels, count))?;

    let help = "Hits that passed while at least --near-limit-ratio of the limit was used";
    let mut near = families.counter("near_limit_hits", help)?;
    for_each(active, |it| match it.tally.near_limit_hits() {
        0 => Ok(()),
        hits => near.of(&[("domain", it.domain), ("rule", it.rule)], hits),
    })?;

    let help = "Descriptors that were over their limit and not refused for it, by rule and by what prevented it";
    let mut would_be = families.counter("would_be_refusals", help)?;
    for_each(active, |it| {
        it.tally.prevented().try_for_each(|(prevention, count)| {
            would_be.of(&[("domain", it.domain), ("rule", it.rule), ("reason", prevention.name())], count)
        })
    })?;

    let help = "Descriptors of rules with detailed_metric or value_to_metric, by value; {overflow} are all beyond \
                --metric-series-per-rule";
    let mut values = families.counter("value_decisions", help)?;
    for_each(active, |it| {
        it.tally.values().for_each(|value, code, count| {
            let labels = [("domain", it.domain), ("rule", it.rule), ("value", value), ("code", code.name())];
            values.of(&labels, count)
        })
    })?;

    let mut amounts =
        families.gauge("limit_hits_per_second", "Hits a second that a rule's limit lets pass for each key")?;
    for_each_limit(active, |labels, limit| amounts.of(labels, f64::from(limit.amount()) * 1e6 / micros(limit)))?;
    let help = "Hits that a rule's limit lets pass at once: its burst, or the amount of a fixed window";
    let mut bursts = families.gauge("limit_burst_hits", help)?;
    for_each_limit(active, |labels, limit| bursts.of(labels, u64::from(limit.capacity())))
}

#[expect(clippy::cast_precision_loss, reason = "ten years are exact")]
fn micros(limit: &Limit) -> f64 {
    limit.period().0 as f64
}

fn for_each_decision(
    active: &ActivePolicy,
    shadow_mode: bool,
    mut visit: impl FnMut(&[(&str, &str)], u64, u64) -> fmt::Result,
) -> fmt::Result {
    for_each(active, |it| {
        let shadow = if it.is_shadow || shadow_mode { "true" } else { "false" };
        it.tally.decisions().try_for_each(|(source, code, decisions, hits)| {
            let (code, source) = (code.name(), source.name());
            let labels =
                [("domain", it.domain), ("rule", it.rule), ("code", code), ("source", source), ("shadow", shadow)];
            visit(&labels, decisions, hits)
        })
    })
}

fn for_each_limit(active: &ActivePolicy, mut visit: impl FnMut(&[(&str, &str)], &Limit) -> fmt::Result) -> fmt::Result {
    for_each(active, |it| {
        it.limits.iter().filter_map(|limit| limit.quota.limit()).try_for_each(|limit| {
            visit(&[("domain", it.domain), ("rule", it.rule), ("unit", &limit_suffix(limit))], limit)
        })
    })
}

/// Shows every tally that has counted something. What is not of a rule has a name that no rule can have: in the path of a
/// rule braces are escaped, and no domain has an empty name.
fn for_each(active: &ActivePolicy, mut visit: impl FnMut(Counted<'_>) -> fmt::Result) -> fmt::Result {
    let mut visit = |counted: Counted<'_>| if counted.tally.is_empty() { Ok(()) } else { visit(counted) };
    let without_rule = |domain, rule, tally| Counted { domain, rule, is_shadow: false, limits: &[], tally };
    for domain in active.policy.domains() {
        let of_domain = active.tallies.domain(domain);
        visit(without_rule(domain.name(), "{none}", &of_domain.no_limit))?;
        visit(without_rule(domain.name(), "{request}", &of_domain.own_limit))?;
        let mut visited = Ok(());
        domain.for_each_rule(|path, rule, limits| {
            let path = if path.len() <= LONGEST_RULE {
                Cow::Borrowed(path)
            } else {
                let hash = SipHasher13::new().hash(path.as_bytes());
                Cow::Owned(format!("{}...{hash:016x}", &path[..LONGEST_RULE]))
            };
            let (domain, tally) = (domain.name(), active.tallies.rule(rule));
            let counted = Counted { domain, rule: &path, is_shadow: rule.shadow_mode, limits, tally };
            visited = visited.and_then(|()| visit(counted));
        });
        visited?;
    }
    visit(without_rule("", "{none}", &active.tallies.unknown_domain))
}

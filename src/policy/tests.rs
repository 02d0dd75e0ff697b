//! The policy language from text to answer.

mod explain;
mod faults;
mod files;
mod matching;
mod schema;
mod size;
mod yaml;

use std::fmt::Write;

use super::*;
use crate::clock::Clock;
use crate::limit::{Algorithm, Limit, Micros};

/// What `work` returns. The seconds that it may take are ten times what it does take or more: a busy machine never needs
/// them, and work that grows with the square of its input exceeds them.
pub(super) fn within<T>(seconds: u64, work: impl FnOnce() -> T) -> T {
    let clock = Clock::start();
    let result = work();
    let took = clock.now().monotonic;
    assert!(took <= Micros::from_seconds(seconds), "it took {took:?}");
    result
}

/// The policy of one file.
fn policy(text: &str) -> Policy {
    match load_texts(&[("policy.yaml", text)], &Defaults::default()) {
        Ok(loaded) => loaded.policy,
        Err(faults) => panic!("{faults}"),
    }
}

/// The faults of one file, each as `line:column: message`.
fn faults(text: &str) -> Vec<String> {
    match load_texts(&[("policy.yaml", text)], &Defaults::default()) {
        Ok(_) => Vec::new(),
        Err(Faults { faults, .. }) => {
            let shown = |fault: &Fault| format!("{}:{}: {}", fault.line, fault.column, fault.message);
            faults.iter().map(shown).collect()
        }
    }
}

/// What `domain: d` answers to a descriptor such as `a=1 b=2`: the limits, as `5/minute + 10 per 2 day`.
fn answer(policy: &Policy, descriptor: &str) -> String {
    let entries = descriptor.split_whitespace().map(|entry| entry.split_once('=').unwrap());
    let domain = policy.domain(b"d").unwrap();
    let found = domain.find(entries.map(|(key, value)| (key.as_bytes(), value.as_bytes())), |_| {});
    let Some(Match { limits, .. }) = found else { return "none".to_owned() };
    let limits: Vec<String> = limits.iter().map(|limit| shown(&limit.quota)).collect();
    limits.join(" + ")
}

fn shown(quota: &Quota) -> String {
    match quota {
        Quota::Unlimited => "unlimited".to_owned(),
        Quota::Limited(limit) if limit.multiplier() == 1 => format!("{}/{}", limit.amount(), limit.unit()),
        Quota::Limited(limit) => format!("{} per {} {}", limit.amount(), limit.multiplier(), limit.unit()),
    }
}

/// The only limit of `domain: d` for `k`.
fn only_limit(policy: &Policy) -> (&RuleLimit, Limit) {
    let domain = policy.domain(b"d").unwrap();
    let found = domain.find([(&b"k"[..], &b"v"[..])].into_iter(), |_| {}).unwrap();
    let [limit] = found.limits else { panic!("{:?}", found.limits) };
    let Quota::Limited(quota) = limit.quota else { panic!("{limit:?}") };
    (limit, quota)
}

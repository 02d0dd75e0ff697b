//! A policy of a hundred thousand tenants: how long it takes to load, and its memory.
//!
//!     cargo bench --bench policy_load

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a benchmark stops when it cannot run, and prints")]

#[path = "fixture/memory.rs"]
mod memory;

use std::time::Duration;

use comporta::clock::Clock;
use comporta::engine::{Engine, EngineSettings};
use comporta::policy::{Defaults, load_texts};

use memory::resident_bytes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TENANTS: usize = 100_000;
const RUNS: usize = 5;

fn main() {
    let plans = "plans: {free: {requests_per_unit: 60, unit: minute}, gold: {requests_per_unit: 6000, unit: minute}}";
    let lines = |line: fn(usize) -> String| (0..TENANTS).map(line).collect::<Vec<_>>().concat();
    let tenants = lines(|n| format!("      tenant-{n}: {}\n", if n % 2 == 0 { "free" } else { "gold" }));
    let own_limits = lines(|n| format!("      tenant-{n}: {{requests_per_unit: {n}, unit: minute}}\n"));
    let rules = lines(|n| {
        format!("  - {{key: tenant, value: tenant-{n}, rate_limit: {{requests_per_unit: {n}, unit: minute}}}}\n")
    });
    let of_tenants =
        |tenants| format!("domain: d\n{plans}\ndescriptors:\n  - key: tenant\n    plan: free\n    tenants:\n{tenants}");
    measure("tenants of two plans", &of_tenants(tenants));
    measure("tenants with limits of their own", &of_tenants(own_limits));
    measure("rules, one for each value", &format!("domain: d\ndescriptors:\n{rules}"));
}

/// Memory is that of the first run, with the tallies that the engine keeps of each rule: what is freed may stay resident.
fn measure(what: &str, text: &str) {
    let clock = Clock::start();
    let mut times: Vec<Duration> = Vec::new();
    let mut grown = None;
    for _ in 0..RUNS {
        let (before, begin) = (resident_bytes(), clock.read());
        let policy = load_texts(&[("policy.yaml", text)], &Defaults::default()).expect("the policy is good").policy;
        let engine = Engine::new(policy, EngineSettings::default(), clock.now());
        times.push(begin.elapsed());
        grown.get_or_insert(resident_bytes().saturating_sub(before));
        drop(engine);
    }
    times.sort_unstable();
    let (size, grown) = (text.len() / 1_000_000, grown.unwrap_or(0) / 1_000_000);
    println!(
        "{TENANTS} {what}, {size} MB of YAML: {:?} (of {RUNS}; {:?} to {:?}), {grown} MB more resident",
        times[RUNS / 2],
        times[0],
        times[RUNS - 1]
    );
}

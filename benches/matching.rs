//! What it costs to find a descriptor's rule: `cargo bench --bench matching`.
//!
//! Values come in an order in which no two neighbours are near each other in memory, as those of a large policy do.

#![expect(clippy::expect_used, reason = "a benchmark stops when it cannot run")]

#[path = "fixture/policy.rs"]
mod policy;

use std::hint::black_box;

use comporta::policy::Domain;
use criterion::{Criterion, criterion_group, criterion_main};

use policy::policy;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LIMIT: &str = "rate_limit: {requests_per_unit: 10, unit: second}";

/// `count` numbers below `count`, each once.
fn scattered(count: usize) -> impl Iterator<Item = usize> {
    // A step that has no factor in common with any of the counts here.
    (0..count).map(move |n| n * 611_953 % count)
}

fn find(domain: &Domain, path: &[(&str, &str)]) {
    let entries = path.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
    let found = domain.find(black_box(entries), |part| {
        black_box(part);
    });
    assert!(found.is_some(), "the policy has a rule for it");
}

/// Finds each of these values in turn, for the key `path`.
fn bench_values(c: &mut Criterion, name: &str, descriptors: &str, values: &[String]) {
    let policy = policy(descriptors);
    let domain = policy.domain(b"bench").expect("it is the policy's domain");
    let mut values = values.iter().cycle();
    c.bench_function(name, |b| {
        b.iter(|| find(domain, &[("path", values.next().expect("a cycle does not end"))]));
    });
}

fn exact(c: &mut Criterion) {
    for count in [10, 10_000, 100_000] {
        let rules =
            (0..count).map(|n| format!("- {{key: path, value: /p{n}, {LIMIT}}}\n")).collect::<Vec<_>>().concat();
        let values: Vec<String> = scattered(count).map(|n| format!("/p{n}")).collect();
        bench_values(c, &format!("match: one of {count} exact values"), &format!("\n{rules}"), &values);
    }
}

fn tenants(c: &mut Criterion) {
    const COUNT: usize = 100_000;
    let tenants =
        (0..COUNT).map(|n| format!("    t{n}: {{requests_per_unit: 7, unit: second}}\n")).collect::<Vec<_>>().concat();
    let values: Vec<String> = scattered(COUNT).map(|n| format!("t{n}")).collect();
    let descriptors = format!("\n- key: path\n  {LIMIT}\n  tenants:\n{tenants}");
    bench_values(c, &format!("match: one of {COUNT} tenants"), &descriptors, &values);
}

/// Wildcards are tried in their order; these requests match any of them.
fn wildcards(c: &mut Criterion) {
    for count in [10, 100, 1_000] {
        let rules =
            (0..count).map(|n| format!("- {{key: path, value: /p{n}/*/end, {LIMIT}}}\n")).collect::<Vec<_>>().concat();
        let values: Vec<String> = scattered(count).map(|n| format!("/p{n}/some/where/end")).collect();
        bench_values(c, &format!("match: one of {count} wildcards"), &format!("\n{rules}"), &values);
    }
}

fn levels(c: &mut Criterion) {
    let descriptors = format!(
        "[{{key: a, descriptors: [{{key: b, value: x, descriptors: [{{key: c, descriptors: [{{key: d, {LIMIT}}}]}}]}}]}}]"
    );
    let policy = policy(&descriptors);
    let domain = policy.domain(b"bench").expect("it is the policy's domain");
    c.bench_function("match: four levels", |b| {
        b.iter(|| find(domain, &[("a", "one"), ("b", "x"), ("c", "three"), ("d", "four")]));
    });
}

criterion_group!(benches, exact, tenants, wildcards, levels);
criterion_main!(benches);

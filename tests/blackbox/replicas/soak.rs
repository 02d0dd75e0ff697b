//! Every combination, for long, with up to eight replicas.

use std::time::Duration;

use super::healthy::{USED, callers, one_each, run};
use super::is_soak;
use super::limit::Limit;
use super::load::{Caller, Keys, Pace, Route};

#[test]
fn every_combination_keeps_its_limits() {
    if !is_soak() {
        return;
    }
    let limits: [&[Limit]; 7] = [
        &[Limit::tokens(10, 1).burst(80)],
        &[Limit::tokens(1000, 1).burst(200)],
        &[Limit::tokens(5000, 1)],
        &[Limit::tokens(600, 10)],
        &[Limit::window(1000, 1)],
        &[Limit::window(2000, 5)],
        &[Limit::tokens(1000, 1), Limit::window(2000, 4)],
    ];
    for limits in limits {
        for replicas in [1, 2, 4, 8] {
            for (name, callers) in loads(replicas) {
                let figures = run(&format!("{limits:?}, {name}"), replicas, limits, &callers, 5);
                if limits.iter().all(|limit| limit.burst >= 10 * replicas as u64) {
                    figures.assert_used(least_used(limits));
                }
            }
        }
    }
}

/// A burst of less than a second is lost whenever the machine does something else for that long.
fn least_used(limits: &[Limit]) -> f64 {
    let is_long = |limit: &Limit| limit.burst * limit.period() >= limit.amount * 1_000_000;
    if limits.iter().all(is_long) { USED } else { 0.9 }
}

fn loads(replicas: usize) -> Vec<(&'static str, Vec<Caller>)> {
    let every = Duration::from_secs(2);
    let moving = |first| Caller::open(400).keys(Keys::Skewed(100)).route(Route::Moving { first, every });
    vec![
        ("open", callers(2000).to_vec()),
        ("closed", one_each(replicas, Pace::Closed { under_way: 3 })),
        ("skewed and moving", (0..replicas).map(moving).collect()),
    ]
}

#[test]
fn costs_up_to_a_tenth_of_the_burst_are_admitted() {
    if !is_soak() {
        return;
    }
    for replicas in [1, 2, 4, 8] {
        let costly = callers(400).map(|caller| caller.hits(1..=100));
        run("costs up to 100", replicas, &[Limit::tokens(10_000, 1).burst(1000)], &costly, 5).assert_used(0.9);
    }
}

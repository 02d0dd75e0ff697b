//! What users are promised of leases: how much of a limit can be used, and how often the store is asked.

use super::traffic::{Load, Shape};
use super::world::{Plan, Report, SECOND, World};
use crate::limit::{Algorithm, Limit, Unit};

fn run(plan: Plan, seed: u64) -> Report {
    let report = World::new(plan, seed).run();
    assert!(report.excess <= 0.0, "seed {seed}: {} hits too many", report.excess);
    report
}

/// 1,000 a second.
fn a_thousand(burst: u32) -> Limit {
    Limit::new(1_000, Unit::Second, 1, Some(burst), Algorithm::TokenBucket).unwrap()
}

#[test]
fn with_ten_hits_of_burst_for_each_replica_hardly_any_are_lost() {
    for replicas in [1_u32, 2, 8] {
        for share in [10, 50] {
            let limit = a_thousand(share * replicas);
            for most_cost in [1, u64::from(limit.capacity() / 10)] {
                for over in [0.5, 0.95, 1.0, 1.5, 5.0] {
                    #[expect(clippy::cast_precision_loss, reason = "a small cost")]
                    let mean_cost = (1 + most_cost) as f64 / 2.0;
                    let per_replica = over * 1_000.0 / f64::from(replicas) / mean_cost;
                    let load = Load::constant(per_replica);
                    let plan = Plan { most_cost, ..Plan::of(&[limit], replicas as usize, load, 5) };
                    let [util, ..] = run(plan, 1).measures();
                    assert!(
                        util >= 0.98,
                        "{util:.3} of {over} of a thousand a second, burst {}, {replicas} replicas, costs to {most_cost}",
                        limit.capacity()
                    );
                }
            }
        }
    }
}

#[test]
fn a_load_that_moves_between_replicas_loses_hardly_any() {
    for per_replica in [300.0, 475.0, 1_000.0] {
        let load = Load { per_replica, shape: Shape::Moving { every: 3 * SECOND } };
        let [util, ..] = run(Plan::of(&[a_thousand(200)], 4, load, 15), 1).measures();
        assert!(util >= 0.98, "{util:.3} at {per_replica}");
    }
}

#[test]
fn a_hot_key_costs_few_calls() {
    // Bursts of half a second and more.
    for burst in [500, 1_000, 3_000] {
        for (per_replica, replicas, most) in
            [(250.0, 1, 0.025), (240.0, 4, 0.025), (1_000.0, 2, 0.1), (1_000.0, 8, 0.1)]
        {
            let [_, calls, _] =
                run(Plan::of(&[a_thousand(burst)], replicas, Load::constant(per_replica), 5), 1).measures();
            assert!(calls <= most, "{calls:.3} at {per_replica} on each of {replicas}, burst {burst}");
        }
    }
}

#[test]
fn few_requests_wait_even_for_a_slow_limit() {
    let limit = Limit::per(60, Unit::Minute, Algorithm::TokenBucket);
    for seed in 1..=3 {
        let [util, _, waits] = run(Plan::of(&[limit], 2, Load::constant(0.5), 600), seed).measures();
        assert!(waits <= 0.1 && util >= 0.98, "{waits:.3} wait, {util:.3} are used");
    }
}

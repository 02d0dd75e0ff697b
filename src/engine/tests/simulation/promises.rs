//! What users are promised of leases: how much of a limit can be used, and how often the store is asked.

use super::plan::{Plan, Report, SECOND};
use super::traffic::{Load, Shape, pulses};
use super::world::World;
use crate::limit::{Algorithm, Limit, Unit};

fn run(plan: Plan, seed: u64) -> Report {
    let report = World::new(plan, seed).run();
    assert!(report.excess <= 0.0, "seed {seed}: {} hits too many", report.excess);
    report
}

/// The middle of three runs, in each respect.
fn median(plan: &Plan) -> [f64; 3] {
    let runs = [1, 2, 3].map(|seed| run(plan.clone(), seed).measures());
    [0, 1, 2].map(|index| {
        let mut values = runs.map(|measures| measures[index]);
        values.sort_by(f64::total_cmp);
        values[1]
    })
}

/// 1,000 a second.
fn a_thousand(burst: u32) -> Limit {
    Limit::new(1_000, Unit::Second, 1, Some(burst), Algorithm::TokenBucket).unwrap()
}

#[test]
fn with_ten_hits_of_burst_for_each_replica_hardly_any_are_lost() {
    // Bursts of 50 ms of the rate and more: the way to the store and back takes one.
    for (amount, hits_for_each) in [(100, 10), (1_000, 50), (1_000, 100)] {
        for replicas in [1_u32, 2, 8] {
            let burst = hits_for_each * replicas;
            let limit = Limit::new(amount, Unit::Second, 1, Some(burst), Algorithm::TokenBucket).unwrap();
            for most_cost in [1, u64::from(hits_for_each / 10)] {
                for over in [0.5, 0.95, 1.5, 5.0] {
                    #[expect(clippy::cast_precision_loss, reason = "a small cost")]
                    let mean_cost = (1 + most_cost) as f64 / 2.0;
                    let load = Load::constant(over * f64::from(amount) / f64::from(replicas) / mean_cost);
                    let seconds = 5_000 / u64::from(amount);
                    let plan = Plan { most_cost, ..Plan::of(&[limit], replicas as usize, load, seconds) };
                    let [util, _, _] = median(&plan);
                    assert!(
                        util >= 0.98,
                        "{util:.3} of {over} times {amount} a second, burst {burst}, {replicas} replicas, costs to {most_cost}"
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
        let [util, ..] = median(&Plan::of(&[a_thousand(200)], 4, load, 15));
        assert!(util >= 0.98, "{util:.3} at {per_replica}");
    }
}

#[test]
fn a_load_that_moves_and_grows_loses_hardly_any() {
    // What one replica holds is idle when the other needs all that there is. The first does not know that: when it last heard
    // of the bucket, half of it was free. If it returned nothing because of that, a twentieth would be lost here.
    for (burst, before, after) in [(1_000, 0.4, 1.5), (1_000, 0.6, 1.0), (200, 0.4, 1.5), (3_000, 0.4, 3.0)] {
        let rows = vec![vec![before, 0.0], vec![0.0, after]];
        let load = Load { per_replica: 1_000.0, shape: Shape::Steps { rows, step: 3 * SECOND } };
        let [util, ..] = median(&Plan::of(&[a_thousand(burst)], 2, load, 18));
        assert!(util >= 0.98, "{util:.3}, burst {burst}, from {before} to {after}");
    }
}

#[test]
fn quiet_pulses_lose_hardly_any() {
    let per = |amount, unit| Limit::per(amount, unit, Algorithm::TokenBucket);
    let minutes = |minutes: u64| minutes * 60 * SECOND;
    for (limits, requests, every, replicas, seconds, least) in [
        (vec![per(5, Unit::Second)], 5, 1_100_000, 1, 60, 1.0),
        (vec![per(5, Unit::Second), per(100, Unit::Second)], 5, 1_100_000, 1, 60, 1.0),
        (vec![per(100, Unit::Hour)], 5, minutes(2), 1, 20_000, 0.98),
        (vec![per(100, Unit::Hour)], 5, minutes(2), 2, 20_000, 0.98),
        (vec![per(100, Unit::Day)], 20, minutes(30), 1, 20_000, 0.98),
        (vec![per(1_000, Unit::Hour)], 30, minutes(1), 2, 10_000, 0.98),
    ] {
        let plan = Plan {
            arrivals: pulses(requests, every, replicas, seconds),
            ..Plan::of(&limits, replicas, Load::constant(0.0), seconds)
        };
        let [util, calls, _] = median(&plan);
        assert!(util >= least && calls <= 2.0, "{util:.3}, {calls:.3} for {requests} of {limits:?} each {every} µs");
    }
}

#[test]
fn a_hot_key_costs_few_calls() {
    for (burst, per_replica, replicas, most) in [
        (500, 300.0, 1, 0.025),
        (500, 400.0, 2, 0.025),
        (1_000, 250.0, 3, 0.025),
        (3_000, 240.0, 4, 0.025),
        (500, 1_000.0, 2, 0.1),
        (1_000, 1_000.0, 4, 0.1),
        (1_000, 1_200.0, 8, 0.1),
        (3_000, 2_000.0, 4, 0.1),
    ] {
        let [_, calls, _] = median(&Plan::of(&[a_thousand(burst)], replicas, Load::constant(per_replica), 5));
        assert!(calls <= most, "{calls:.3} at {per_replica} on each of {replicas}, burst {burst}");
    }
}

#[test]
fn few_requests_wait_even_for_a_slow_limit() {
    let limit = Limit::per(60, Unit::Minute, Algorithm::TokenBucket);
    let [util, _, waits] = median(&Plan::of(&[limit], 2, Load::constant(0.5), 600));
    assert!(waits <= 0.1 && util >= 0.98, "{waits:.3} wait, {util:.3} are used");
}

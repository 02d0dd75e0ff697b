//! Loads without faults: what is admitted, and what it costs.

use super::plan::{Plan, SECOND};
use super::traffic::{Load, Shape, pulses};
use super::world::World;
use crate::limit::{Algorithm, Limit, Unit};

fn per(amount: u32, unit: Unit) -> Limit {
    Limit::per(amount, unit, Algorithm::TokenBucket)
}

fn with_burst(amount: u32, burst: u32) -> Limit {
    Limit::new(amount, Unit::Second, 1, Some(burst), Algorithm::TokenBucket).unwrap()
}

struct Case {
    name: &'static str,
    plan: Plan,
    /// What the reference has: admitted, of what one bucket would have admitted; calls per request; the part of the
    /// requests that wait.
    reference: [f64; 3],
}

fn case(name: &'static str, reference: [f64; 3], plan: Plan) -> Case {
    Case { name, plan, reference }
}

fn cases() -> Vec<Case> {
    use Unit::{Hour, Minute, Second};
    let constant = |limits: &[Limit], replicas, per_replica, seconds| {
        Plan::of(limits, replicas, Load::constant(per_replica), seconds)
    };
    let moving = Load { per_replica: 475.0, shape: Shape::Moving { every: 3 * SECOND } };
    let pulsing =
        |limits: &[Limit]| Plan { load: None, arrivals: pulses(5, 1_100_000, 1, 60), ..constant(limits, 1, 0.0, 60) };
    let window = Limit::per(1000, Second, Algorithm::FixedWindow);
    vec![
        case("well below the limit", [1.0, 0.013, 0.001], constant(&[per(5000, Second)], 4, 250.0, 10)),
        case("at the limit", [1.0, 0.024, 0.001], constant(&[per(1000, Second)], 4, 250.0, 10)),
        case("five times over", [0.999, 0.073, 0.161], constant(&[per(1000, Second)], 4, 1250.0, 5)),
        case("a low limit, far over", [1.0, 0.254, 0.265], constant(&[per(10, Second)], 4, 50.0, 10)),
        case("60 a minute, 0.5/s on each of 2", [1.0, 0.322, 0.055], constant(&[per(60, Minute)], 2, 0.5, 600)),
        case("100 a second, 5/s on each of 4", [1.0, 0.438, 0.169], constant(&[per(100, Second)], 4, 5.0, 60)),
        case("1000 an hour, 0.25/s", [1.0, 0.357, 0.160], constant(&[per(1000, Hour)], 4, 0.0625, 3600)),
        case("pulses of 5 on 5/s", [1.0, 1.0, 0.4], pulsing(&[per(5, Second)])),
        case("pulses, two limits", [1.0, 1.519, 0.467], pulsing(&[per(5, Second), per(100, Second)])),
        case(
            "8 replicas, 10 tokens each, 0.95",
            [0.997, 0.268, 0.023],
            constant(&[with_burst(1000, 80)], 8, 119.0, 10),
        ),
        case("64 replicas, twice over", [0.986, 0.041, 0.026], constant(&[per(10_000, Second)], 64, 312.0, 2)),
        case("load moves every 3 s, burst 200", [1.0, 0.043, 0.002], Plan::of(&[with_burst(1000, 200)], 4, moving, 15)),
        case(
            "costs 1 to 200, 0.8",
            [1.0, 0.226, 0.012],
            Plan { most_cost: 200, ..constant(&[per(10_000, Second)], 4, 20.0, 30) },
        ),
        case(
            "two limits, 1000 and 700 a second",
            [0.992, 0.225, 0.154],
            constant(&[per(1000, Second), per(700, Second)], 4, 250.0, 8),
        ),
        case("a fixed window, five times over", [1.0, 0.010, 0.007], constant(&[window], 4, 1250.0, 5)),
    ]
}

#[test]
fn every_case_is_as_good_as_the_reference() {
    let mut worse = Vec::new();
    eprintln!(
        "{:34}{:>8}{:>8}{:>10}{:>8}{:>8}{:>8}{:>8}",
        "case", "util", "(ref)", "excess", "calls", "(ref)", "waits", "(ref)"
    );
    for Case { name, plan, reference } in cases() {
        let mut runs: Vec<_> = (1..=3).map(|seed| World::new(plan.clone(), seed).run()).collect();
        let excess = runs.iter().map(|run| run.excess).fold(f64::MIN, f64::max);
        assert!(excess <= 0.0, "{name}: {excess} hits too many");
        let mut median = |index: usize| {
            runs.sort_by(|one, other| one.measures()[index].total_cmp(&other.measures()[index]));
            runs[1].measures()[index]
        };
        let [util, calls, waits] = [median(0), median(1), median(2)];
        let [util_there, calls_there, waits_there] = reference;
        eprintln!(
            "{name:34}{util:>8.3}{util_there:>8.3}{excess:>10.3}{calls:>8.3}{calls_there:>8.3}{waits:>8.3}{waits_there:>8.3}"
        );
        if util < util_there - 0.03 || calls > calls_there * 1.15 + 0.02 || waits > waits_there + 0.03 {
            worse.push(name);
        }
    }
    assert!(worse.is_empty(), "worse than the reference: {worse:?}");
}

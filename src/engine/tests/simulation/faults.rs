//! Random loads, and everything that goes wrong. Whatever does, no interval ever admits more than the limit allows.
//!
//! `COMPORTA_SOAK=1` makes many runs of each fault. A run that fails says how it is run again alone.

use super::layout::Layout;
use super::network::Network;
use super::plan::{Event, MILLISECOND, Plan, Report, SECOND};
use super::random::Random;
use super::traffic::{Load, Shape};
use super::world::World;
use crate::limit::{Algorithm, Limit, Unit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    LostCallsAndReplies,
    LateCalls,
    LateReplies,
    Crashes,
    Pauses,
    CutOff,
    ClockGoesBackASecond,
    ClockGoesBackAnHour,
    LimitChanges,
    ReplicasDisagree,
    RefundsDebitsAndPeeks,
    Overdrafts,
    CallersLeave,
    NoRoom,
    Everything,
}

/// Runs of each fault, without and with `COMPORTA_SOAK`.
const RUNS: u64 = 30;
const SOAK_RUNS: u64 = 1_000;

/// The run to make alone, such as `Crashes 17`.
const ALONE: &str = "COMPORTA_SIMULATION";

#[test]
fn without_faults_little_is_lost() {
    let utils = hold(Fault::None);
    assert!(utils.is_empty() || utils[utils.len() / 2] > 0.95, "{utils:?}");
}

#[test]
fn calls_and_replies_are_lost() {
    hold(Fault::LostCallsAndReplies);
}

#[test]
fn calls_are_late() {
    hold(Fault::LateCalls);
}

#[test]
fn replies_are_late() {
    hold(Fault::LateReplies);
}

#[test]
fn replicas_crash() {
    hold(Fault::Crashes);
}

#[test]
fn replicas_pause() {
    hold(Fault::Pauses);
}

#[test]
fn replicas_are_cut_off() {
    hold(Fault::CutOff);
}

#[test]
fn the_stores_clock_goes_back_a_second() {
    hold(Fault::ClockGoesBackASecond);
}

#[test]
fn the_stores_clock_goes_back_an_hour() {
    hold(Fault::ClockGoesBackAnHour);
}

#[test]
fn limits_change() {
    hold(Fault::LimitChanges);
}

#[test]
fn replicas_disagree_on_a_limit() {
    hold(Fault::ReplicasDisagree);
}

#[test]
fn requests_refund_and_overdraw_and_look() {
    hold(Fault::RefundsDebitsAndPeeks);
}

#[test]
fn all_limits_may_be_overdrawn() {
    hold(Fault::Overdrafts);
}

#[test]
fn callers_leave() {
    hold(Fault::CallersLeave);
}

#[test]
fn two_buckets_have_room_for_one() {
    hold(Fault::NoRoom);
}

#[test]
fn everything_goes_wrong_at_once() {
    hold(Fault::Everything);
}

/// Makes the runs of a fault, and shows what they did. Returns how well busy runs used what was there, ascending.
fn hold(fault: Fault) -> Vec<f64> {
    let runs = if std::env::var_os("COMPORTA_SOAK").is_some() { SOAK_RUNS } else { RUNS };
    let alone = std::env::var(ALONE).ok();
    let is_wanted = |seed: u64| alone.as_ref().is_none_or(|alone| *alone == format!("{fault:?} {seed}"));
    let reports: Vec<_> = (0..runs).filter(|seed| is_wanted(*seed)).map(|seed| run(fault, seed)).collect();
    let busy: Vec<_> = reports.iter().filter(|report| report.passed >= 20).map(Report::measures).collect();
    let ascending = |index: usize| {
        let mut values: Vec<f64> = busy.iter().map(|measures| measures[index]).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let [utils, calls, waits] = [0, 1, 2].map(ascending);
    if !busy.is_empty() {
        let worst = reports.iter().map(|report| report.excess).fold(f64::MIN, f64::max);
        let middle = busy.len() / 2;
        eprintln!(
            "{:24}{:>4} runs   util {:.3} (p5 {:.3})   excess {worst:.3}   calls {:.3}   waits {:.3}",
            format!("{fault:?}"),
            reports.len(),
            utils[middle],
            utils[busy.len() / 20],
            calls[middle],
            waits[middle],
        );
    }
    utils
}

/// Says how to repeat a run that panics.
struct Repeat(Fault, u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(fault, seed) = self;
            eprintln!("again: {ALONE}='{fault:?} {seed}' COMPORTA_SOAK=1 cargo test --lib simulation::faults");
        }
    }
}

fn run(fault: Fault, seed: u64) -> Report {
    let _repeat = Repeat(fault, seed);
    let mut random = Random::new(fault as u64 * 1_000_003 + seed);
    let plan = draw(fault, &mut random);
    let report = World::new(plan, random.seed()).run();
    assert!(report.excess <= 0.0, "{} hits too many", report.excess);
    report
}

/// A world with a random load, and a fault.
fn draw(fault: Fault, random: &mut Random) -> Plan {
    let replicas = random.one_of(&[1, 2, 4, 6]);
    let seconds = random.one_of(&[8, 15]);
    let limits: Vec<_> = (0..random.one_of(&[1, 1, 2])).map(|_| draw_limit(random)).collect();
    let least = limits.iter().map(|limit| u64::from(limit.capacity())).min().unwrap_or(1);
    let most_cost = (least / random.one_of(&[1, 10, 1_000_000_000])).max(1);
    let load = draw_load(&limits, most_cost, replicas, seconds, random);
    let mut plan = Plan { most_cost, ..Plan::of(&limits, replicas, load, seconds) };
    if random.chance(0.5) {
        plan.layout = Layout::Descriptors;
    }
    add(fault, &mut plan, random);
    plan
}

fn draw_limit(random: &mut Random) -> Limit {
    let (unit, multiplier) =
        random.one_of(&[(Unit::Second, 1), (Unit::Second, 1), (Unit::Second, 10), (Unit::Minute, 1), (Unit::Hour, 1)]);
    let is_window = random.chance(0.2);
    let amount = random.one_of(&[1_u32, 5, 50, 200, 1000]);
    let seconds = u32::try_from(unit.seconds()).unwrap() * multiplier;
    let amount = if random.chance(0.5) { amount * seconds } else { amount };
    if is_window {
        // Windows that end while the world lasts.
        return Limit::new(amount, Unit::Second, seconds.min(5), None, Algorithm::FixedWindow).unwrap();
    }
    let burst = scaled(amount, random.one_of(&[0.1, 0.5, 1.0, 3.0]));
    Limit::new(amount, unit, multiplier, Some(burst), Algorithm::TokenBucket).unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn draw_load(limits: &[Limit], most_cost: u64, replicas: usize, seconds: u64, random: &mut Random) -> Load {
    let fair = |limit: &Limit| {
        let flows = f64::from(limit.amount()) * SECOND as f64 / limit.period().0 as f64;
        flows + f64::from(limit.capacity()) / seconds as f64
    };
    let fair = limits.iter().map(fair).fold(f64::MAX, f64::min);
    let hits_a_second = (random.one_of(&[0.7, 1.0, 2.0, 4.0]) * fair).clamp(2.0, 800.0);
    let per_replica = hits_a_second / replicas as f64 / ((1 + most_cost) as f64 / 2.0);
    let row = |random: &mut Random| {
        let mut row: Vec<_> = (0..24).map(|_| random.one_of(&[0.0, 0.0, 0.2, 0.5, 1.0, 3.0])).collect();
        row.push(1.0);
        row
    };
    let rows = (0..replicas).map(|_| row(random)).collect();
    let step = random.one_of(&[200, 400, 1_000, 3_000]) * MILLISECOND;
    Load { per_replica, shape: Shape::Steps { rows, step } }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
fn scaled(amount: u32, factor: f64) -> u32 {
    ((f64::from(amount) * factor) as u32).max(1)
}

/// The same limit with other numbers.
fn another(limit: &Limit, random: &mut Random) -> Limit {
    let amount = scaled(limit.amount(), random.one_of(&[0.1, 0.5, 3.0]));
    let burst = match limit.algorithm() {
        Algorithm::TokenBucket => Some(scaled(limit.capacity(), random.one_of(&[0.1, 0.5, 1.0, 3.0]))),
        Algorithm::FixedWindow => None,
    };
    Limit::new(amount, limit.unit(), limit.multiplier(), burst, limit.algorithm()).unwrap()
}

/// Lets a fault into a world.
fn add(fault: Fault, plan: &mut Plan, random: &mut Random) {
    let late = random.one_of(&[5.0, 30.0, 300.0, 1_000.0, 3_000.0]) * 1_000.0;
    match fault {
        Fault::None => {}
        Fault::LostCallsAndReplies => {
            plan.network = Network { lost_request: 0.05, lost_reply: 0.05, ..Network::default() };
        }
        Fault::LateCalls => plan.network = Network { late_request: 0.15, late, ..Network::default() },
        Fault::LateReplies => plan.network = Network { late_reply: 0.15, late, ..Network::default() },
        Fault::Crashes => crash(plan, 6, random),
        Fault::Pauses => pause(plan, 6, random),
        Fault::CutOff => {
            for _ in 0..5 {
                let (replica, from) = (any_replica(plan, random), any_time(plan, random));
                let until = from + random.between(SECOND / 5, 4 * SECOND);
                plan.network.cut.push((replica, from, until));
            }
        }
        Fault::ClockGoesBackASecond => clock_goes_back(plan, SECOND, random),
        Fault::ClockGoesBackAnHour => clock_goes_back(plan, 3_600 * SECOND, random),
        Fault::LimitChanges => {
            plan.network = Network { late_request: 0.1, late, ..Network::default() };
            for part in [3, 2] {
                let limit = another(&plan.limits[0], random);
                for replica in 0..plan.replicas {
                    let when = plan.seconds * SECOND / part + random.up_to(50 * MILLISECOND);
                    plan.script.push((when, Event::Limit { replica, limit }));
                }
            }
        }
        Fault::ReplicasDisagree => {
            plan.network = Network { late_request: 0.1, late, ..Network::default() };
            change_limits(plan, 10, random);
        }
        Fault::RefundsDebitsAndPeeks => (plan.refunds, plan.debits, plan.peeks) = (0.05, 0.05, 0.05),
        Fault::Overdrafts => {
            plan.overdraft = true;
            plan.network = Network { lost_request: 0.02, late_request: 0.1, late, ..Network::default() };
        }
        Fault::CallersLeave => {
            plan.leavers = 0.3;
            plan.network = Network { late_request: 0.1, late_reply: 0.1, late, ..Network::default() };
        }
        Fault::NoRoom => {
            (plan.layout, plan.max_buckets, plan.peeks) = (Layout::Descriptors, 1, 0.1);
            plan.network = Network { late_request: 0.1, late_reply: 0.1, late, ..Network::default() };
        }
        Fault::Everything => {
            plan.network =
                Network { lost_request: 0.03, lost_reply: 0.03, late_request: 0.1, late_reply: 0.1, late, cut: vec![] };
            crash(plan, 2, random);
            clock_goes_back(plan, SECOND, random);
            pause(plan, 3, random);
            change_limits(plan, 5, random);
            (plan.refunds, plan.debits, plan.peeks, plan.leavers) = (0.03, 0.03, 0.02, 0.1);
        }
    }
}

fn any_time(plan: &Plan, random: &mut Random) -> u64 {
    random.up_to(plan.seconds * SECOND)
}

fn any_replica(plan: &Plan, random: &mut Random) -> usize {
    random.index(plan.replicas)
}

fn crash(plan: &mut Plan, times: usize, random: &mut Random) {
    for _ in 0..times {
        let (when, replica) = (any_time(plan, random), any_replica(plan, random));
        plan.script.push((when, Event::Crash { replica }));
    }
}

fn pause(plan: &mut Plan, times: usize, random: &mut Random) {
    for _ in 0..times {
        let (when, replica) = (any_time(plan, random), any_replica(plan, random));
        let most = random.one_of(&[10, 300, 4_000]) * MILLISECOND;
        let length = random.up_to(most);
        plan.script.push((when, Event::Pause { replica, length }));
    }
}

fn clock_goes_back(plan: &mut Plan, by: u64, random: &mut Random) {
    for _ in 0..2 {
        plan.script.push((any_time(plan, random), Event::ClockGoesBack { by }));
    }
}

fn change_limits(plan: &mut Plan, times: usize, random: &mut Random) {
    for _ in 0..times {
        let (when, replica) = (any_time(plan, random), any_replica(plan, random));
        let limit = another(&plan.limits[0], random);
        plan.script.push((when, Event::Limit { replica, limit }));
    }
}

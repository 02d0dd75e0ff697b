//! A hot key costs Redis little. Only counts are judged, and only where the machine is fast enough for the key to be hot.

use super::figures::Figures;
use super::healthy::{one_each, run};
use super::is_soak;
use super::limit::Limit;
use super::load::Pace;

/// Asserts how many calls a decision takes, if each replica has been asked so often.
fn assert_calls(figures: &Figures, replicas: usize, per_second: f64, most: f64) {
    if figures.rate_of_each(replicas) < per_second || figures.is_slow() {
        eprintln!("this machine is too slow to judge the calls, {per_second}/s are needed: {figures}");
        return;
    }
    assert!(figures.store().calls <= most, "more than {most} calls a decision: {figures}");
}

#[test]
fn below_its_limit_a_hot_key_costs_one_call_in_forty_decisions() {
    for replicas in if is_soak() { vec![1, 2, 4, 8] } else { vec![2] } {
        let limit = Limit::tokens(1000 * replicas as u64, 1);
        let callers = one_each(replicas, Pace::per_second(300));
        let figures = run("hot key below its limit", replicas, &[limit], &callers, 5);
        assert_calls(&figures, replicas, 250.0, 0.025);
        assert_eq!(figures.refused, 0, "{figures}");
    }
}

#[test]
fn above_its_limit_a_hot_key_costs_one_call_in_ten_decisions() {
    for replicas in if is_soak() { vec![1, 2, 4] } else { vec![1] } {
        let callers = one_each(replicas, Pace::Closed { under_way: 4 });
        let figures = run("hot key above its limit", replicas, &[Limit::tokens(300, 1)], &callers, 3);
        assert_calls(&figures, replicas, 1000.0, 0.1);
    }
}

#[test]
fn a_low_limit_answers_mostly_without_waiting() {
    if !is_soak() {
        return;
    }
    // For so long that the first requests, which all wait, do not count for much.
    let callers = one_each(2, Pace::Open { every: 2_000_000 });
    let figures = run("60 a minute, asked every 2 s", 2, &[Limit::tokens(60, 60)], &callers, 180);
    assert!(figures.store().waits <= 0.1, "{figures}");
    assert_eq!(figures.refused, 0, "{figures}");
}

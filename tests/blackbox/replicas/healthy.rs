//! Nothing goes wrong: no limit is exceeded, nothing is decided without Redis, and together the replicas admit what one
//! bucket would.

use std::time::Duration;

use super::figures::Figures;
use super::fleet::Fleet;
use super::limit::Limit;
use super::load::{Caller, Keys, Load, Pace, Route};
use super::timeline::Timeline;

/// What is promised where a burst has ten hits for each replica, and no request costs more than a tenth of it.
pub(super) const USED: f64 = 0.98;

/// Lets callers ask so many replicas, and asserts that all went well.
pub(super) fn run(name: &str, replicas: usize, limits: &[Limit], callers: &[Caller], seconds: u64) -> Figures {
    let fleet = Fleet::start(replicas, limits);
    let time = Duration::from_secs(seconds);
    let load = Load::start(Timeline::begin(), fleet.targets(), callers.to_vec(), time);
    let name = format!("{name}, replicas: {replicas}");
    let figures = Figures::of(name, &load.history(), limits, &fleet);
    figures.assert_healthy();
    figures
}

/// Callers of different kinds, which together ask so often: one asks all replicas in turn, one moves from each to the
/// next, and one asks the first alone.
pub(super) fn callers(per_second: u64) -> [Caller; 3] {
    let open = |part| Caller::open(per_second * part / 10);
    let every = Duration::from_millis(700);
    [open(5), open(3).route(Route::Moving { first: 0, every }), open(2).route(Route::To(0))]
}

#[test]
fn one_two_and_four_replicas_keep_one_token_bucket() {
    for replicas in [1, 2, 4] {
        run("token bucket", replicas, &[Limit::tokens(150, 1)], &callers(250), 4).assert_used(USED);
    }
}

#[test]
fn two_replicas_keep_a_fixed_window() {
    run("fixed window", 2, &[Limit::window(150, 1)], &callers(250), 5).assert_used(USED);
}

#[test]
fn a_low_limit_is_shared_too() {
    run("low limit", 2, &[Limit::tokens(10, 1).burst(20)], &callers(40), 6).assert_used(USED);
}

#[test]
fn below_a_high_limit_nothing_is_refused() {
    let callers = [Caller::closed(4), Caller::closed(4).route(Route::To(1))];
    let figures = run("high limit", 2, &[Limit::tokens(5000, 1)], &callers, 3);
    // On a machine so fast that the limit is reached, what one bucket admits is the measure.
    assert!(figures.refused == 0 || figures.rate > 5000.0, "refused below the limit: {figures}");
    figures.assert_used(USED);
}

#[test]
fn callers_that_wait_for_each_answer_are_held_to_the_limit() {
    let callers = [0, 1, 2].map(|replica| Caller::closed(2).route(Route::To(replica)));
    run("closed loop", 3, &[Limit::tokens(200, 1)], &callers, 4).assert_used(USED);
}

#[test]
fn skewed_keys_that_move_between_replicas_keep_their_limits() {
    let every = Duration::from_millis(500);
    let moving = |first| Caller::open(150).keys(Keys::Skewed(40)).route(Route::Moving { first, every });
    run("skewed and moving", 2, &[Limit::tokens(10, 1).burst(40)], &[moving(0), moving(1)], 5).assert_used(USED);
}

#[test]
fn two_limits_hold_together_whatever_requests_cost() {
    let limits = [Limit::tokens(400, 1), Limit::tokens(1500, 5).burst(600)];
    let costly = callers(60).map(|caller| caller.hits(1..=20));
    run("two limits, costs up to 20", 2, &limits, &costly, 6).assert_used(USED);
}

#[test]
fn a_token_bucket_and_a_fixed_window_hold_together() {
    let limits = [Limit::tokens(125, 1), Limit::window(300, 3)];
    run("bucket and window", 2, &limits, &callers(250), 6).assert_used(USED);
}

/// One caller for each replica, which asks it so often.
pub(super) fn one_each(replicas: usize, pace: Pace) -> Vec<Caller> {
    (0..replicas).map(|replica| Caller { pace, ..Caller::open(1) }.route(Route::To(replica))).collect()
}

//! Things go wrong under load: no limit is exceeded, and no error reaches a caller whose replica lives.

use std::thread::sleep;
use std::time::Duration;

use super::figures::Figures;
use super::fleet::Fleet;
use super::healthy::{USED, callers, one_each};
use super::history::{Answer, History};
use super::limit::Limit;
use super::load::{Load, Pace};
use super::timeline::{Timeline, micros};

/// With a unit of a second a lease ends at the latest after two epochs of a second.
pub(super) const TWO_EPOCHS: Duration = Duration::from_secs(2);

const LIMIT: Limit = Limit::tokens(150, 1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_killed_replica_takes_with_it_no_more_than_its_lease() {
    let mut fleet = Fleet::start(3, &[LIMIT]);
    let timeline = Timeline::begin();
    let load = Load::start(timeline, fleet.targets(), one_each(3, Pace::per_second(100)), seconds(8));
    sleep(seconds(2));
    let killed = timeline.rounded_down();
    fleet.kill(0);
    let history = load.history();

    let figures = Figures::of("one of three is killed", &history, &[LIMIT], &fleet);
    figures.assert_exact();
    assert_eq!(figures.store().fallback, 0, "{figures}");
    assert!(figures.failed > 0, "the killed one was asked again");
    assert_only_the_ended_one_failed(&history, 0, killed);
    let expired = killed + micros(TWO_EPOCHS) + 200_000;
    let end = history.asked.last().unwrap().sent;
    let admitted = history.admitted(|asked| asked.sent >= expired);
    let at_full_rate = LIMIT.amount * (end - expired) / LIMIT.period();
    assert!(admitted * 100 >= at_full_rate * 97, "the others admit {admitted} of {at_full_rate} hits: {figures}");
}

#[test]
fn a_replica_that_is_started_under_load_joins_the_others() {
    let mut fleet = Fleet::start(1, &[LIMIT]);
    let timeline = Timeline::begin();
    let first = Load::start(timeline, fleet.targets(), one_each(1, Pace::per_second(200)), seconds(5));
    sleep(Duration::from_millis(1500));
    fleet.add();
    let started = fleet.targets().split_off(1);
    let second = Load::start(timeline, started, one_each(1, Pace::per_second(200)), seconds(3));
    let history = History::of_all([first.history(), second.history()]);

    let figures = Figures::of("one more is started", &history, &[LIMIT], &fleet);
    figures.assert_healthy();
    figures.assert_used(0.95);
    assert!(history.admitted(|asked| asked.replica == 1) > 0, "the new one admits its share: {figures}");
}

#[test]
fn a_replica_that_is_stopped_returns_its_lease() {
    // So slow a limit gives nothing back in the time of the test.
    let limit = Limit::tokens(1000, 86_400);
    let mut fleet = Fleet::start(2, &[limit]);
    let timeline = Timeline::begin();
    let load = Load::start(timeline, fleet.targets(), one_each(2, Pace::per_second(150)), seconds(7));
    sleep(Duration::from_millis(1500));
    let stopped = timeline.rounded_down();
    fleet.stop(0);
    let history = load.history();

    let figures = Figures::of("one of two is stopped", &history, &[limit], &fleet);
    figures.assert_exact();
    assert_only_the_ended_one_failed(&history, 0, stopped);
    assert!(history.admitted(|asked| asked.replica == 0) > 100, "the stopped one had admitted its share: {figures}");
    assert_eq!(figures.hits_admitted, 1000, "no token is lost: {figures}");
}

#[test]
fn replicas_that_stop_leave_in_redis_exactly_what_was_admitted() {
    let limit = Limit::tokens(100_000, 86_400);
    let mut fleet = Fleet::start(2, &[limit]);
    let load = Load::start(Timeline::begin(), fleet.targets(), callers(400).to_vec(), seconds(3));
    sleep(seconds(2));
    fleet.stop(1);
    fleet.stop(0);
    let history = load.history();

    let admitted = history.admitted(|_| true);
    assert!(admitted > 300, "{admitted} hits were admitted");
    let bucket = fleet.bucket();
    let refilled = limit.amount * 10 / 86_400;
    let used = bucket["used"].div_ceil(1_000_000);
    assert!(used <= admitted && admitted <= used + refilled, "{admitted} hits were admitted, in Redis is {bucket:?}");
    assert_eq!(bucket["out"] + bucket["out_before"], 0, "all leases are returned or reported: {bucket:?}");
}

#[test]
fn lost_connections_and_lost_scripts_reach_no_caller() {
    let fleet = Fleet::start(2, &[LIMIT]);
    let load = Load::start(Timeline::begin(), fleet.targets(), callers(250).to_vec(), seconds(6));
    for _ in 0..5 {
        sleep(seconds(1));
        fleet.redis().script_flush();
        assert!(fleet.redis().kill_clients() >= 2, "each replica has a connection");
    }
    let history = load.history();

    let figures = Figures::of("CLIENT KILL and SCRIPT FLUSH", &history, &[LIMIT], &fleet);
    figures.assert_exact();
    assert_eq!(figures.failed, 0, "{figures}");
    figures.assert_used(0.9);
}

#[test]
fn a_redis_that_forgets_everything_grants_one_burst_more() {
    for limit in [LIMIT, Limit::window(150, 1)] {
        let fleet = Fleet::start(2, &[limit]);
        let load = Load::start(Timeline::begin(), fleet.targets(), callers(250).to_vec(), seconds(4));
        sleep(seconds(2));
        fleet.redis().flush_all();
        let history = load.history();

        let figures = Figures::of(format!("FLUSHALL, {limit:?}"), &history, &[limit], &fleet);
        let (_, worst) = history.worst(&limit.burst(2 * limit.burst)).unwrap();
        assert!(!worst.is_excess(), "more than a burst was added: {figures}");
        assert_eq!((figures.failed, figures.store().fallback), (0, 0), "{figures}");
        figures.assert_used(USED);
    }
}

/// Requests to all other replicas were answered, and to this one until it ended.
fn assert_only_the_ended_one_failed(history: &History, replica: u16, ended: u64) {
    let failed = history.asked.iter().filter(|asked| asked.answer == Answer::Failed);
    let strange: Vec<_> = failed.filter(|asked| asked.replica != replica || asked.answered < ended).collect();
    assert!(strange.is_empty(), "{} requests failed that had no reason to: {:?}", strange.len(), strange[0]);
}

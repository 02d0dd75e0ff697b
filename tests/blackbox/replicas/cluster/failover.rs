//! A replica takes the place of its primary.

use std::thread::sleep;
use std::time::Duration;

use super::super::figures::Figures;
use super::super::fleet::Fleet;
use super::super::history::Asked;
use super::super::load::Load;
use super::super::timeline::{Timeline, micros};
use super::{
    LIMIT, PATIENCE, assert_no_call_crossed_slots, assert_unnoticed, busiest_shard, callers_of_all_keys, flags,
};
use crate::harness::{ClusterSetup, Flavour};

/// So soon after a replica has been promoted it must be used.
const USED_AGAIN_WITHIN: Duration = Duration::from_secs(3);

/// With a unit of a second a lease ends at the latest after two epochs of a second.
const TWO_EPOCHS: Duration = Duration::from_secs(2);

#[test]
fn the_replica_of_a_killed_primary_is_used_on_redis() {
    assert_the_replica_of_a_killed_primary_is_used(Flavour::Redis);
}

#[test]
fn the_replica_of_a_killed_primary_is_used_on_valkey() {
    assert_the_replica_of_a_killed_primary_is_used(Flavour::Valkey);
}

fn assert_the_replica_of_a_killed_primary_is_used(flavour: Flavour) {
    let setup = ClusterSetup::new(flavour).with_replicas().with_partial_coverage().soon_missed();
    let mut cluster = setup.start();
    let fleet = Fleet::with_timeout(PATIENCE, flags(cluster.setup()), 2, &[LIMIT]);
    let (victim, moved) = busiest_shard(&cluster);
    let timeline = Timeline::begin();
    let load = Load::start(timeline, fleet.targets(), callers_of_all_keys(250), Duration::from_secs(60));
    sleep(Duration::from_millis(1500));
    let killed = timeline.rounded_down();
    cluster.kill_node(victim);
    cluster.wait_until_primary(victim + ClusterSetup::SHARDS);
    let promoted = timeline.rounded_up();
    sleep(USED_AGAIN_WITHIN);
    cluster.restart_node(victim);
    cluster.wait_until_whole();
    assert!(!cluster.is_primary(victim), "the old primary has come back as a replica");
    sleep(Duration::from_secs(1));
    let history = load.stop();

    let figures_of = |name: &str, which: &dyn Fn(&Asked) -> bool| {
        Figures::of(format!("failover, {name}, {flavour:?}"), &history.part(which), &[LIMIT], &fleet)
    };
    let is_moved = |asked: &Asked| moved.contains(&asked.key);
    let others = figures_of("the others", &|asked| !is_moved(asked));
    others.assert_exact();
    assert_eq!(others.failed, 0, "the other shards were there all the time: {others}");
    let before = figures_of("before", &|asked| is_moved(asked) && asked.answered <= killed);
    before.assert_exact();
    assert_eq!(before.failed, 0, "{before}");
    // What the dead primary lent last and did not tell its replica may be spent until it ends.
    let forgotten = promoted + micros(TWO_EPOCHS);
    figures_of("after", &|asked| is_moved(asked) && asked.sent >= forgotten).assert_exact();
    let used_again = promoted + micros(USED_AGAIN_WITHIN);
    let later = figures_of("later", &|asked| is_moved(asked) && asked.sent >= used_again);
    assert_eq!(later.failed, 0, "the replica is used, and the old primary disturbs nobody: {later}");
    assert!(later.hits_admitted > 50, "{later}");
    let (_, worst) = history.worst(&LIMIT.burst(2 * LIMIT.burst)).unwrap();
    assert!(!worst.is_excess(), "more than a burst was added: {worst:?}");
    assert_no_call_crossed_slots(&cluster);
}

/// Its connections stay open, so that nothing but the silence tells of it.
#[test]
fn the_replica_of_a_primary_that_hangs_is_used() {
    let setup = ClusterSetup::new(Flavour::Redis).with_replicas().with_partial_coverage().soon_missed();
    let cluster = setup.start();
    // A call that was sent is waited for ten times as long; who asks later must not have to.
    let fleet = Fleet::with_timeout("1s", flags(cluster.setup()), 2, &[LIMIT]);
    let (victim, moved) = busiest_shard(&cluster);
    let timeline = Timeline::begin();
    let load = Load::start(timeline, fleet.targets(), callers_of_all_keys(250), Duration::from_secs(60));
    sleep(Duration::from_secs(1));
    cluster.node(victim).pause();
    cluster.wait_until_primary(victim + ClusterSetup::SHARDS);
    let promoted = timeline.rounded_up();
    sleep(USED_AGAIN_WITHIN + Duration::from_secs(1));
    cluster.node(victim).resume();
    cluster.wait_until_whole();
    assert!(!cluster.is_primary(victim), "the old primary has become a replica");
    sleep(Duration::from_secs(1));
    let history = load.stop();

    let figures = Figures::of("a primary hangs", &history, &[LIMIT], &fleet);
    let (_, worst) = history.worst(&LIMIT.burst(2 * LIMIT.burst)).unwrap();
    assert!(!worst.is_excess(), "more than a burst was added: {figures}");
    let used_again = promoted + micros(USED_AGAIN_WITHIN);
    let later = history.part(|asked| moved.contains(&asked.key) && asked.sent >= used_again);
    assert!(later.admitted(|_| true) > 50, "the replica is used");
    assert_eq!(later.failures(), 0, "the old primary disturbs nobody, hung or not");
}

#[test]
fn a_primary_that_changes_places_with_its_replica_reaches_no_caller() {
    let cluster = ClusterSetup::new(Flavour::Redis).with_replicas().soon_missed().start();
    let fleet = Fleet::on(flags(cluster.setup()), 2, &[LIMIT]);
    let (primary, _) = busiest_shard(&cluster);
    let load = Load::start(Timeline::begin(), fleet.targets(), callers_of_all_keys(250), Duration::from_secs(60));
    for promoted in [primary + ClusterSetup::SHARDS, primary] {
        sleep(Duration::from_secs(1));
        cluster.failover(promoted);
    }
    sleep(Duration::from_secs(1));
    let history = load.stop();

    let figures = Figures::of("planned failover", &history, &[LIMIT], &fleet);
    assert_unnoticed(&figures);
    assert_no_call_crossed_slots(&cluster);
}

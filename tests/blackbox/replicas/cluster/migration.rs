//! A slot moves from one shard to another while its keys are asked for.

use std::thread::sleep;
use std::time::Duration;

use super::super::figures::Figures;
use super::super::fleet::Fleet;
use super::super::history::History;
use super::super::limit::Limit;
use super::super::load::{Caller, Keys, Load};
use super::super::timeline::Timeline;
use super::{HOT_KEY, KEYS, assert_no_call_crossed_slots, assert_unnoticed, bucket, callers_of_all_keys, flags, next};
use crate::harness::{Cluster, ClusterSetup, Flavour};

/// Both buckets of a key are in one slot, and the first key is asked for more often than each allows.
const LIMITS: [Limit; 2] = [Limit::tokens(20, 1), Limit::tokens(100, 6).burst(70)];

#[test]
fn a_slot_that_moves_reaches_no_caller_on_redis() {
    assert_a_slot_that_moves_reaches_no_caller(&Cluster::start(Flavour::Redis), next);
}

#[test]
fn a_slot_that_moves_reaches_no_caller_on_redis_6() {
    assert_a_slot_that_moves_reaches_no_caller(&Cluster::start(Flavour::OldRedis), next);
}

#[test]
fn a_slot_that_moves_reaches_no_caller_on_valkey() {
    assert_a_slot_that_moves_reaches_no_caller(&Cluster::start(Flavour::Valkey), next);
}

#[test]
fn a_slot_that_moves_to_a_new_server_reaches_no_caller() {
    let cluster = ClusterSetup::new(Flavour::Redis).with_spare().start();
    assert_a_slot_that_moves_reaches_no_caller(&cluster, |_| 3);
}

fn assert_a_slot_that_moves_reaches_no_caller(cluster: &Cluster, receiver: impl Fn(usize) -> usize) {
    let fleet = Fleet::on(flags(cluster.setup()), 2, &LIMITS.map(Limit::or_unavailable));
    let from = cluster.owner(&bucket(HOT_KEY));
    let to = receiver(from);
    let migration = cluster.migration(&bucket(HOT_KEY), to);
    let new_key = another_key_in(cluster, migration.slot());
    let timeline = Timeline::begin();
    let start = |callers| Load::start(timeline, fleet.targets(), callers, Duration::from_secs(60));
    let asked = |error: &str| cluster.node(from).error_counts().get(error).copied().unwrap_or_default();

    let load = start(callers_of_all_keys(250));
    sleep(Duration::from_secs(1));
    assert_eq!((asked("ASK"), asked("MOVED")), (0, 0), "whoever asks knows where the slot is");
    migration.begin();
    sleep(Duration::from_millis(500));
    let load_of_new_key = start(vec![Caller::open(30).keys(Keys::Only(new_key))]);
    sleep(Duration::from_millis(500));
    let asked_for_new_key = asked("ASK");
    assert!(asked_for_new_key > 0, "a key that is not there is looked for in both places");
    migration.move_keys();
    sleep(Duration::from_millis(500));
    // Whoever is sent on and finds no script there must be let in once more.
    cluster.node(to).script_flush();
    sleep(Duration::from_millis(500));
    assert!(asked("ASK") > asked_for_new_key + 5, "a key that has moved is looked for in both places");
    migration.finish();
    sleep(Duration::from_secs(1));
    let histories = [load, load_of_new_key].map(Load::stop);

    let figures = Figures::of(format!("a slot moves to node {to}"), &History::of_all(histories), &LIMITS, &fleet);
    assert_unnoticed(&figures);
    assert_no_call_crossed_slots(cluster);
    assert_eq!(cluster.owner(&bucket(HOT_KEY)), to);
    let keys = &cluster.keys()[to];
    assert!([HOT_KEY, new_key].iter().all(|key| keys.contains(&bucket(*key))), "{keys:?}");
}

/// Where a call is sent on, it must be done once, whatever becomes of connections and scripts.
#[test]
fn a_slot_that_moves_back_and_forth_under_broken_connections_keeps_its_limits() {
    let cluster = Cluster::start(Flavour::Redis);
    let fleet = Fleet::on(flags(cluster.setup()), 2, &LIMITS);
    let mut from = cluster.owner(&bucket(HOT_KEY));
    let load = Load::start(Timeline::begin(), fleet.targets(), callers_of_all_keys(250), Duration::from_secs(5));
    for _ in 0..20 {
        let migration = cluster.migration(&bucket(HOT_KEY), next(from));
        migration.begin();
        migration.move_keys();
        cluster.node(next(from)).kill_clients();
        sleep(Duration::from_millis(100));
        cluster.node(next(from)).script_flush();
        migration.finish();
        cluster.node(from).kill_clients();
        sleep(Duration::from_millis(100));
        from = next(from);
    }
    let history = load.history();

    let figures = Figures::of("a slot moves again and again", &history, &LIMITS, &fleet);
    figures.assert_exact();
    assert_eq!(figures.failed, 0, "{figures}");
    figures.assert_used(0.9);
    let errors = cluster.error_counts();
    let met = |error| errors.get(error).is_some_and(|&count| count >= 20);
    assert!(["ASK", "MOVED", "NOSCRIPT"].into_iter().all(met), "{errors:?}");
}

/// A key in this slot, which nobody has asked for yet.
fn another_key_in(cluster: &Cluster, slot: u16) -> u32 {
    const TRIED_AT_ONCE: u32 = 10_000;
    let find = |first: u32| {
        let buckets: Vec<_> = (first..first + TRIED_AT_ONCE).map(bucket).collect();
        let mut slots = (first..).zip(cluster.slots(&buckets));
        slots.find(|(_, of_key)| *of_key == slot).map(|(key, _)| key)
    };
    (KEYS..).step_by(TRIED_AT_ONCE as usize).find_map(find).expect("a key in each slot")
}

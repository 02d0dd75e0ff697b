//! Keys on all shards, and nothing that a caller may notice.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use super::super::figures::Figures;
use super::super::fleet::Fleet;
use super::super::healthy::USED;
use super::super::limit::Limit;
use super::super::load::Load;
use super::super::timeline::Timeline;
use super::{
    KEYS, LIMIT, assert_no_call_crossed_slots, assert_unnoticed, bucket, callers_of_all_keys, flags, key_of,
    keys_of_shards,
};
use crate::harness::{Cluster, Flavour};

#[test]
fn keys_on_all_shards_keep_their_limits_on_redis() {
    assert_keys_on_all_shards_keep_their_limits(Flavour::Redis);
}

#[test]
fn keys_on_all_shards_keep_their_limits_on_redis_6() {
    assert_keys_on_all_shards_keep_their_limits(Flavour::OldRedis);
}

#[test]
fn keys_on_all_shards_keep_their_limits_on_valkey() {
    assert_keys_on_all_shards_keep_their_limits(Flavour::Valkey);
}

fn assert_keys_on_all_shards_keep_their_limits(flavour: Flavour) {
    let cluster = Cluster::start(flavour);
    let fleet = Fleet::on(flags(cluster.setup()), 2, &[LIMIT]);
    let load = Load::start(Timeline::begin(), fleet.targets(), callers_of_all_keys(250), Duration::from_secs(3));
    let history = load.history();

    let figures = Figures::of(format!("all shards, {flavour:?}"), &history, &[LIMIT], &fleet);
    assert_unnoticed(&figures);
    figures.assert_used(USED);
    assert_no_call_crossed_slots(&cluster);
    let all_keys = cluster.keys();
    for (shard, keys) in keys_of_shards(&cluster, 0..KEYS).iter().enumerate() {
        // The first keys are asked for so often that their buckets are there.
        let hottest = keys.first().unwrap();
        assert!(all_keys[shard].contains(&bucket(*hottest)), "{all_keys:?}");
        let counts = cluster.node(shard).command_counts();
        assert_eq!(counts.get("eval"), None, "every node had the scripts before the first call");
    }
}

#[test]
fn scripts_that_every_node_forgets_reach_no_caller() {
    let cluster = Cluster::start(Flavour::Redis);
    let fleet = Fleet::on(flags(cluster.setup()), 2, &[LIMIT]);
    let load = Load::start(Timeline::begin(), fleet.targets(), callers_of_all_keys(250), Duration::from_secs(60));
    for _ in 0..6 {
        sleep(Duration::from_millis(400));
        for node in cluster.nodes() {
            node.script_flush();
        }
    }
    let history = load.stop();

    let figures = Figures::of("SCRIPT FLUSH on every shard", &history, &[LIMIT], &fleet);
    assert_unnoticed(&figures);
    for node in cluster.nodes() {
        let errors = node.error_counts();
        assert!(errors.get("NOSCRIPT").is_some_and(|&count| count >= 3), "{errors:?}");
    }
}

#[test]
fn replicas_that_stop_leave_in_each_shard_exactly_what_was_admitted() {
    let limit = Limit::tokens(100_000, 86_400);
    let cluster = Cluster::start(Flavour::Redis);
    let mut fleet = Fleet::on(flags(cluster.setup()), 2, &[limit]);
    let load = Load::start(Timeline::begin(), fleet.targets(), callers_of_all_keys(400), Duration::from_secs(60));
    sleep(Duration::from_secs(2));
    fleet.stop(1);
    fleet.stop(0);
    let history = load.stop();

    let mut buckets = 0;
    for (node, names) in cluster.nodes().iter().zip(cluster.keys()) {
        for name in names {
            let key = key_of(&name).expect("nothing but buckets: the replicas have taken their leave");
            let admitted = history.admitted(|asked| asked.key == key);
            let bucket: BTreeMap<String, u64> = node.command(&["HGETALL", &name]);
            let (used, refilled) = (bucket["used"].div_ceil(1_000_000), limit.amount * 10 / 86_400);
            assert!(used <= admitted && admitted <= used + refilled, "{admitted} hits were admitted of {bucket:?}");
            assert_eq!(bucket["out"] + bucket["out_before"], 0, "all leases are returned or reported: {bucket:?}");
            buckets += 1;
        }
    }
    assert_eq!(buckets, KEYS);
}

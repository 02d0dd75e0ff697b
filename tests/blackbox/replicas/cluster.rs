//! Replicas share a Redis Cluster: its shards hold together what one Redis would, and what befalls one of them is no
//! matter of the others.

mod dead_shard;
mod failover;
mod hung_shard;
mod migration;
mod requests;
mod shards;
mod start;

use std::collections::BTreeSet;
use std::ops::Range;

use super::figures::Figures;
use super::healthy::callers;
use super::limit::Limit;
use super::load::{Caller, Keys};
use crate::harness::{Cluster, ClusterSetup};

/// Of these keys each shard has several.
const KEYS: u32 = 24;

/// The first one, which is asked for most often.
const HOT_KEY: u32 = 0;

/// Some of the keys are asked for more often than that, and some less.
const LIMIT: Limit = Limit::tokens(10, 1).burst(40).or_unavailable();

/// So long a request waits for a shard, where one is away.
const PATIENCE: &str = "1s";

/// What a replica must be told to use a Cluster.
fn flags(setup: &ClusterSetup) -> [String; 2] {
    ["--redis-url".to_owned(), setup.url()]
}

/// Callers of different kinds, which together ask so often for all the keys.
fn callers_of_all_keys(per_second: u64) -> Vec<Caller> {
    callers(per_second).map(|caller| caller.keys(Keys::Skewed(KEYS))).into()
}

/// The name that Redis knows the bucket of a key by.
fn bucket(key: u32) -> String {
    format!("comporta:{{d|key={key}}}:second")
}

/// The key of a bucket that Redis knows by this name. `None` if that is no bucket.
fn key_of(bucket: &str) -> Option<u32> {
    bucket.split_once("{d|key=")?.1.split_once('}')?.0.parse().ok()
}

/// Which of these keys each shard has. All nodes run.
fn keys_of_shards(cluster: &Cluster, keys: Range<u32>) -> [BTreeSet<u32>; ClusterSetup::SHARDS] {
    let mut shards = [const { BTreeSet::new() }; ClusterSetup::SHARDS];
    for key in keys {
        shards[cluster.owner(&bucket(key))].insert(key);
    }
    assert!(shards.iter().all(|keys| keys.len() >= 3), "each shard has several keys: {shards:?}");
    shards
}

/// The shard beside this one.
fn next(shard: usize) -> usize {
    (shard + 1) % ClusterSetup::SHARDS
}

/// The shard that is asked most, and its keys. All nodes run.
fn busiest_shard(cluster: &Cluster) -> (usize, BTreeSet<u32>) {
    let shards = keys_of_shards(cluster, 0..KEYS);
    let busiest = shards.into_iter().enumerate().find(|(_, keys)| keys.contains(&HOT_KEY));
    busiest.expect("a shard with that key")
}

/// No limit was exceeded, and every request was answered: with its store, because no limit answers without.
fn assert_unnoticed(figures: &Figures) {
    figures.assert_exact();
    assert_eq!(figures.failed, 0, "requests without an answer, or a limit without its store: {figures}");
}

/// No call was for keys of two slots, which a Cluster does not serve.
fn assert_no_call_crossed_slots(cluster: &Cluster) {
    let errors = cluster.error_counts();
    assert_eq!(errors.get("CROSSSLOT"), None, "{errors:?}");
}

//! One request that asks all shards.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use tonic::Status;

use super::{PATIENCE, flags, key_of, keys_of_shards};
use crate::harness::grpc::{Client, ask, request};
use crate::harness::{Cluster, ClusterSetup, Comporta, Flavour, Redis, Setup, wait_for};

/// Nothing flows back while a test runs.
const POLICY: &str = "
domain: d
descriptors:
  - {key: key, rate_limit: {requests_per_unit: 10, unit: day, algorithm: fixed_window, failure_mode: unavailable}}
";

/// Starts one whose requests wait so long for a shard.
fn start(cluster: &Cluster, patience: &str) -> (Setup, Comporta) {
    let patience = ["--redis-timeout", patience].map(str::to_owned);
    let setup = Setup::new(POLICY).flags(flags(cluster.setup()).into_iter().chain(patience));
    let comporta = setup.start();
    (setup, comporta)
}

/// Asks for so many hits of each of these keys in one request.
async fn try_to_take(
    client: &mut Client,
    keys: impl IntoIterator<Item = u32>,
    hits: u32,
) -> Result<RateLimitResponse, Status> {
    let descriptors: Vec<_> = keys.into_iter().map(|key| format!("key={key}")).collect();
    let mut question = request("d", descriptors.iter().map(String::as_str));
    question.hits_addend = hits;
    ask(client, question).await
}

async fn take(client: &mut Client, keys: impl IntoIterator<Item = u32>, hits: u32) -> RateLimitResponse {
    try_to_take(client, keys, hits).await.unwrap()
}

/// What a shard has counted for each bucket.
fn used(shard: &Redis) -> BTreeMap<String, u64> {
    let buckets = shard.keys().into_iter().filter(|key| key.contains('{'));
    buckets.map(|key| (key.clone(), shard.command(&["HGET", &key, "used"]))).collect()
}

#[tokio::test]
async fn a_request_for_keys_of_all_shards_is_decided_as_one() {
    let cluster = Cluster::start(Flavour::Redis);
    let (_setup, comporta) = start(&cluster, "10s");
    let mut client = comporta.client();
    let codes = |answer: &RateLimitResponse| answer.statuses.iter().map(DescriptorStatus::code).collect::<Vec<_>>();

    let all = take(&mut client, 0..10, 1).await;
    assert_eq!((all.overall_code(), codes(&all)), (Code::Ok, vec![Code::Ok; 10]));
    assert!(all.statuses.iter().all(|status| status.limit_remaining == 9), "{all:?}");
    assert_eq!(take(&mut client, [4], 9).await.overall_code(), Code::Ok);

    let refused = take(&mut client, 0..10, 1).await;
    let mut only_one_is_over = vec![Code::Ok; 10];
    only_one_is_over[4] = Code::OverLimit;
    assert_eq!((refused.overall_code(), codes(&refused)), (Code::OverLimit, only_one_is_over));

    for key in (0..10).filter(|key| *key != 4) {
        let rest = take(&mut client, [key], 9).await;
        assert_eq!(rest.overall_code(), Code::Ok, "what was refused has taken nothing: {rest:?}");
        assert_eq!(take(&mut client, [key], 1).await.overall_code(), Code::OverLimit);
    }
    let counted: Vec<_> = cluster.nodes().iter().map(used).collect();
    assert!(counted.iter().all(|shard| !shard.is_empty()), "each shard has some of the keys: {counted:?}");
    let of_all: Vec<_> = counted.iter().flatten().collect();
    assert_eq!(of_all.len(), 10, "each bucket is in one place: {counted:?}");
    assert!(of_all.iter().all(|&(_, used)| *used == 10), "{counted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_slow_is_asked_at_the_same_time_as_the_others() {
    let cluster = Cluster::start(Flavour::Redis);
    let (_setup, comporta) = start(&cluster, "10s");
    for (slow, first) in [(0, 0), (1, 20), (2, 40)] {
        let shards = keys_of_shards(&cluster, first..first + 20);
        cluster.node(slow).command::<()>(&["CLIENT", "PAUSE", "60000", "WRITE"]);
        let mut client = comporta.client();
        let asked = tokio::spawn(async move { take(&mut client, first..first + 20, 1).await });
        for (node, keys) in shards.iter().enumerate().filter(|(node, _)| *node != slow) {
            wait_for("the others to be asked", || keys.is_subset(&keys_on(cluster.node(node))).then_some(()));
        }
        assert!(keys_on(cluster.node(slow)).is_disjoint(&shards[slow]));
        assert!(!asked.is_finished(), "the slow shard is waited for");
        cluster.node(slow).command::<()>(&["CLIENT", "UNPAUSE"]);
        assert_eq!(asked.await.unwrap().overall_code(), Code::Ok);
        assert!(shards[slow].is_subset(&keys_on(cluster.node(slow))));
    }
}

#[tokio::test]
async fn a_request_that_meets_a_dead_shard_takes_nothing_from_the_others() {
    let mut cluster = ClusterSetup::new(Flavour::Redis).with_partial_coverage().start();
    let (_setup, comporta) = start(&cluster, PATIENCE);
    let mut client = comporta.client();
    let shards = keys_of_shards(&cluster, 0..20);
    cluster.kill_node(0);
    let unavailable = try_to_take(&mut client, 0..20, 4).await.unwrap_err();
    assert_eq!(unavailable.code(), tonic::Code::Unavailable, "{unavailable:?}");
    for key in shards[1..].iter().flatten() {
        assert_eq!(take(&mut client, [*key], 10).await.overall_code(), Code::Ok);
        assert_eq!(take(&mut client, [*key], 1).await.overall_code(), Code::OverLimit);
    }
}

/// The keys of which a shard has a bucket.
fn keys_on(shard: &Redis) -> BTreeSet<u32> {
    shard.keys().iter().filter_map(|bucket| key_of(bucket)).collect()
}

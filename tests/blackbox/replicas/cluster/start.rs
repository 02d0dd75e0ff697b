//! How a replica and a Cluster find each other.

use std::time::{Duration, Instant};

use super::super::limit::policy;
use super::{LIMIT, bucket, flags, next};
use crate::harness::{Cluster, ClusterSetup, Comporta, Flavour, Redis, Setup, free_address, http, wait_for};

fn start<S: Into<String>>(flags: impl IntoIterator<Item = S>) -> (Setup, Comporta) {
    let setup = Setup::new(&policy(&[LIMIT])).flags(flags);
    let comporta = setup.start();
    (setup, comporta)
}

/// The HTTP status of a request for each of some keys, which all shards have: 200 with the store, 503 without.
fn ask(comporta: &Comporta) -> [u16; 6] {
    [0, 1, 2, 3, 4, 5].map(|key| {
        let body =
            format!(r#"{{"domain": "d", "descriptors": [{{"entries": [{{"key": "key", "value": "{key}"}}]}}]}}"#);
        http::post_json(comporta.addresses.http, "/json", &body).unwrap().status
    })
}

fn wait_until_all_shards_are_used(comporta: &Comporta) {
    wait_for("all shards to be used", || (ask(comporta) == [200; 6]).then_some(()));
}

#[test]
fn a_cluster_that_comes_late_is_used_without_a_restart() {
    let setup = ClusterSetup::new(Flavour::Redis);
    let (_setup, comporta) = start(flags(&setup));
    assert_eq!(ask(&comporta), [503; 6], "nothing is there");
    let cluster = setup.launch();
    wait_for("the servers to be found", || {
        comporta.log().contains("slots of the Cluster have no server").then_some(())
    });
    assert_eq!(ask(&comporta), [503; 6], "servers are there, and serve nothing");
    cluster.form();
    let formed = Instant::now();
    wait_until_all_shards_are_used(&comporta);
    assert!(formed.elapsed() < Duration::from_secs(3), "{:?}", formed.elapsed());
}

#[test]
fn one_address_that_answers_is_enough() {
    let cluster = Cluster::start(Flavour::Valkey);
    let dead = free_address();
    let url = format!("redis-cluster://{dead},{}", cluster.setup().seeds());
    let list = format!("{dead},{}", cluster.node(2).address());
    for flags in [vec!["--redis-url", &url], vec!["--redis-type", "cluster", "--redis-url", &list]] {
        let (_setup, comporta) = start(flags);
        wait_until_all_shards_are_used(&comporta);
    }
}

/// As behind a tunnel, where the nodes have other addresses than they know of.
#[test]
fn nodes_that_name_no_host_have_that_of_the_one_who_names_them() {
    let cluster = ClusterSetup::new(Flavour::Redis).without_hosts().start();
    let (_setup, comporta) = start(flags(cluster.setup()));
    wait_until_all_shards_are_used(&comporta);
    let migration = cluster.migration(&bucket(0), next(cluster.owner(&bucket(0))));
    migration.begin();
    migration.move_keys();
    assert_eq!(ask(&comporta), [200; 6], "ASK is followed");
    migration.finish();
    assert_eq!(ask(&comporta), [200; 6], "MOVED is followed");
}

#[test]
fn a_password_opens_all_nodes() {
    let cluster = ClusterSetup::new(Flavour::Redis).password("hunter2").start();
    let (_setup, comporta) = start(flags(cluster.setup()));
    wait_until_all_shards_are_used(&comporta);
    assert!(!comporta.log().contains("hunter2"), "{}", comporta.log());
}

#[test]
fn a_redis_that_is_no_cluster_is_told_of_and_failure_modes_decide() {
    let redis = Redis::start();
    let (_setup, comporta) = start(["--redis-url".to_owned(), format!("redis-cluster://{}", redis.address())]);
    assert_eq!(ask(&comporta), [503; 6]);
    let log = comporta.log();
    // Once by who asks for the Cluster, and once by who decides without it.
    let advice = format!("{}: it belongs to no Cluster; give redis://HOST:PORT in --redis-url", redis.url());
    assert_eq!((log.matches(&advice).count(), log.matches("WARN").count()), (2, 2), "{log}");
}

//! How many replicas there are.

use std::sync::Arc;
use std::time::Duration;

use comporta::store::redis::RedisStore;
use tokio::time::timeout;

use super::{connected, start};
use crate::harness::{PATIENCE, Redis};

pub(super) async fn wait_until_replicas_are(store: &Arc<RedisStore>, wanted: u32) {
    let mut replicas = store.replicas();
    let counted = timeout(PATIENCE, replicas.wait_for(|count| *count == wanted)).await;
    assert!(counted.is_ok(), "{} replicas, and not {wanted}", *store.replicas().borrow());
}

#[tokio::test]
async fn replicas_are_counted_and_leave_when_they_stop() {
    let redis = Redis::start();
    let one = start(&redis.url());
    let other = start(&redis.url());
    wait_until_replicas_are(&one, 2).await;
    wait_until_replicas_are(&other, 2).await;
    other.stop().await;
    assert_eq!(redis.command::<u64>(&["ZCARD", "test:replicas"]), 1);
    wait_until_replicas_are(&one, 1).await;
    one.stop().await;
    assert_eq!(redis.keys(), [""; 0]);
}

#[tokio::test]
async fn a_replica_that_died_is_forgotten_after_ten_seconds() {
    let redis = Redis::start();
    let one = start(&redis.url());
    wait_until_replicas_are(&one, 1).await;
    let now: Vec<u64> = redis.command(&["TIME"]);
    let heard = |ago: u64| (now[0] * 1000 - ago).to_string();
    redis.command::<()>(&["ZADD", "test:replicas", &heard(9_000), "silent", &heard(20_000), "dead"]);
    wait_until_replicas_are(&one, 2).await;
    wait_until_replicas_are(&one, 1).await;
    let left: u64 = redis.command(&["PTTL", "test:replicas"]);
    assert!((5_000..=10_000).contains(&left), "the key expires by itself in {left} ms");
}

#[tokio::test]
async fn after_the_clock_went_back_nobody_is_counted_for_long() {
    let redis = Redis::start();
    let now: Vec<u64> = redis.command(&["TIME"]);
    let in_an_hour = ((now[0] + 3600) * 1000).to_string();
    redis.command::<()>(&["ZADD", "test:replicas", &in_an_hour, "early"]);
    let one = start(&redis.url());
    wait_until_replicas_are(&one, 2).await;
    wait_until_replicas_are(&one, 1).await;
}

#[tokio::test]
async fn something_else_in_the_place_of_the_replicas_does_no_harm() {
    let redis = Redis::start();
    redis.command::<()>(&["SET", "test:replicas", "x"]);
    let store = connected(&redis.url()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(*store.replicas().borrow(), 1);
    super::call(&store).await.unwrap();
    redis.command::<()>(&["DEL", "test:replicas"]);
    let other = start(&redis.url());
    wait_until_replicas_are(&other, 2).await;
}

#[tokio::test]
async fn a_redis_that_has_lost_its_data_is_not_believed_that_there_is_one_replica() {
    let redis = Redis::start();
    let (one, other) = (start(&redis.url()), start(&redis.url()));
    wait_until_replicas_are(&one, 2).await;
    wait_until_replicas_are(&other, 2).await;
    redis.flush_all();
    // Both report themselves anew in this time.
    for store in [&one, &other] {
        let fewer = timeout(Duration::from_secs(3), store.replicas().wait_for(|count| *count < 2)).await.is_ok();
        assert!(!fewer, "each of them knows of the other");
    }
    other.stop().await;
    wait_until_replicas_are(&one, 1).await;
}

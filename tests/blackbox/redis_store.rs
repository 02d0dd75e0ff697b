//! The store in a real Redis, through the library.

mod auth;
mod cluster;
mod command_line;
mod faults;
mod heartbeat;
mod log;
mod strange_servers;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use comporta::limit::{Algorithm, Limit, Unit};
use comporta::store::redis::{KeyPrefix, RedisAddress, RedisSettings, RedisStore};
use comporta::store::{Facts, Operation, Reply, Store, StoreCall, StoreError};

use crate::harness::{PATIENCE, Redis, RedisSetup};

/// Longer than the default, because the machine may be busy.
const TIMEOUT: Duration = Duration::from_millis(100);
/// What follows from it.
const LONGEST_CALL: Duration = Duration::from_secs(1);

fn settings(url: &str) -> RedisSettings {
    let (address, prefix) = (RedisAddress::parse(url).unwrap(), KeyPrefix::new("test:").unwrap());
    RedisSettings { timeout: TIMEOUT, ..RedisSettings::at(address, prefix) }
}

fn start(url: &str) -> Arc<RedisStore> {
    RedisStore::start(&settings(url)).unwrap()
}

/// Takes hits of a bucket of 1000 an hour, of which none comes back while a test runs.
fn take(bucket: &str, hits: u64) -> StoreCall {
    StoreCall {
        bucket: format!("{{test|key={bucket}}}:hour").into(),
        limit: Limit::per(1000, Unit::Hour, Algorithm::FixedWindow),
        operation: Operation::Acquire { needed: hits, want: 0, facts: Facts::default() },
    }
}

/// One that fails does so at once, perhaps, and others want to go on.
async fn call(store: &RedisStore) -> Result<Reply, StoreError> {
    let answer = store.call(&take("a", 1)).await;
    if answer.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    answer
}

/// Calls until one succeeds, and returns its reply and the errors before it.
async fn call_until_it_succeeds(store: &RedisStore) -> (Reply, Vec<StoreError>) {
    let deadline = Instant::now() + PATIENCE;
    let mut errors = Vec::new();
    loop {
        match call(store).await {
            Ok(reply) => return (reply, errors),
            Err(error) => errors.push(error),
        }
        assert!(Instant::now() < deadline, "no call succeeds: {errors:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What keeps a store from being connected, once it has tried.
async fn refusal_or_absence(store: &RedisStore) -> StoreError {
    store.tried().await;
    call(store).await.unwrap_err()
}

/// A store that is connected.
async fn connected(url: &str) -> Arc<RedisStore> {
    let store = start(url);
    call_until_it_succeeds(&store).await;
    store
}

#[tokio::test]
async fn calls_are_done_over_tcp_and_over_a_socket() {
    for setup in [RedisSetup::new(), RedisSetup::new().on_socket(), RedisSetup::new().password("secret")] {
        let redis = setup.start();
        let store = connected(&redis.url()).await;
        let reply = store.call(&take("b", 7)).await.unwrap();
        assert_eq!((reply.granted, reply.used), (true, 7));
        assert!(redis.keys().contains(&"test:{test|key=b}:hour".to_owned()), "{:?}", redis.keys());
    }
}

#[tokio::test]
async fn the_default_timeouts_suffice_for_a_server_that_is_near() {
    let redis = Redis::start();
    let near = RedisSettings { timeout: Duration::from_millis(10), ..settings(&redis.url()) };
    let store = RedisStore::start(&near).unwrap();
    call_until_it_succeeds(&store).await;
    for _ in 0..100 {
        call(&store).await.unwrap();
    }
}

#[tokio::test]
async fn both_kinds_of_buckets_are_served() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    let mut tokens = take("tokens", 3);
    tokens.limit = Limit::per(10, Unit::Hour, Algorithm::TokenBucket);
    assert_eq!(store.call(&tokens).await.unwrap().used, 3_000_000);
    let before = redis.command_counts();
    assert_eq!(store.call(&take("window", 3)).await.unwrap().used, 3);
    let after = redis.command_counts();
    assert_eq!(after["evalsha"] - before["evalsha"], 1, "a call is one command");
    assert_eq!(after.get("eval"), None, "the script was there already");
}

#[tokio::test]
async fn a_call_with_a_long_name_has_a_bucket_of_its_own() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    let (one, other) = ("x".repeat(1000), format!("{}y", "x".repeat(999)));
    for hits in [1, 2] {
        assert_eq!(store.call(&take(&one, 1)).await.unwrap().used, hits);
        assert_eq!(store.call(&take(&other, 1)).await.unwrap().used, hits);
    }
    assert!(redis.keys().iter().all(|key| key.len() <= 205), "{:?}", redis.keys());
}

/// What is polled first comes first, whatever else its task has done in the same turn.
#[tokio::test]
async fn calls_arrive_in_the_order_of_their_first_polls() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    // Tokio lets a task that has done much in one turn wait; this one has.
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..1000 {
        sender.send(()).unwrap();
    }
    let mut calls: Vec<_> = (0..500).map(|_| store.call(&take("ordered", 1))).collect();
    std::future::poll_fn(|context| {
        while receiver.poll_recv(context).is_ready() {}
        for call in &mut calls {
            assert!(call.as_mut().poll(context).is_pending());
        }
        std::task::Poll::Ready(())
    })
    .await;
    let mut used = Vec::new();
    // The last one is asked first: it was sent all the same.
    for call in calls.into_iter().rev() {
        used.push(call.await.unwrap().used);
    }
    assert_eq!(used, (1..=500).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.call(&take("shared", 1)).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(store.call(&take("shared", 0)).await.unwrap().used, 200);
    let clients: String = redis.command(&["CLIENT", "LIST", "TYPE", "normal"]);
    // The other one asks.
    assert_eq!(clients.lines().count(), 2, "{clients}");
}

#[tokio::test]
async fn a_dropped_store_closes_its_connection() {
    let redis = Redis::start();
    drop(connected(&redis.url()).await);
    let deadline = Instant::now() + PATIENCE;
    while redis.command::<String>(&["CLIENT", "LIST", "TYPE", "normal"]).lines().count() > 1 {
        assert!(Instant::now() < deadline, "the connection stays");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

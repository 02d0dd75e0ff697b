//! A Redis that comes late, dies, hangs, forgets or forbids.

use std::time::{Duration, Instant};

use comporta::store::redis::{RedisSettings, RedisStore};
use comporta::store::{Facts, LeaseFact, Operation, Store, StoreError};

use super::{LONGEST_CALL, TIMEOUT, call, call_until_it_succeeds, connected, settings, start, take};
use crate::harness::{Redis, RedisSetup};

/// How much later than it should something may happen on a machine that is busy.
const SLACK: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_server_that_comes_late_is_used_without_a_restart() {
    let setup = RedisSetup::new();
    let store = start(&setup.url());
    for _ in 0..3 {
        let begun = Instant::now();
        let error = call(&store).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
        assert!(error.to_string().contains(&setup.address().to_string()), "{error}");
        assert!(begun.elapsed() < TIMEOUT + SLACK, "{:?}", begun.elapsed());
    }
    let _redis = setup.start();
    let begun = Instant::now();
    call_until_it_succeeds(&store).await;
    assert!(begun.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_is_used_again_within_a_second() {
    let mut redis = Redis::start();
    let store = connected(&redis.url()).await;
    redis.kill();
    let begun = Instant::now();
    let mut errors = Vec::new();
    // So long that the pauses are at their longest.
    while begun.elapsed() < Duration::from_secs(3) {
        errors.push(call(&store).await.unwrap_err());
    }
    assert!(errors.iter().skip(1).all(|error| matches!(error, StoreError::Unreachable(_))), "{errors:?}");
    redis.restart();
    let begun = Instant::now();
    call_until_it_succeeds(&store).await;
    assert!(begun.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_a_server_that_hangs_is_lost_and_the_connection_made_anew() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    redis.pause();
    let begun = Instant::now();
    let error = call(&store).await.unwrap_err();
    assert!(matches!(error, StoreError::Lost(_)), "{error:?}");
    let waited = begun.elapsed();
    assert!(waited >= LONGEST_CALL && waited < LONGEST_CALL + SLACK, "{waited:?}");
    // The connection is given up, and no other can be opened. A report of the replica that was answered just before the
    // server hung may have passed for its sign of life, but not twice.
    let errors = [call(&store).await.unwrap_err(), call(&store).await.unwrap_err()];
    assert!(matches!(errors[1], StoreError::Unreachable(_)), "{errors:?}");
    redis.resume();
    call_until_it_succeeds(&store).await;
}

#[tokio::test]
async fn more_calls_than_may_be_under_way_fail_at_once() {
    let redis = Redis::start();
    let store = RedisStore::start(&RedisSettings { max_in_flight: 3, ..settings(&redis.url()) }).unwrap();
    call_until_it_succeeds(&store).await;
    redis.pause();
    let calls: Vec<_> = ["a", "b", "c"].map(|bucket| tokio::spawn(store.call(&take(bucket, 1)))).into();
    let error = store.call(&take("d", 1)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("--redis-max-in-flight")), "{error:?}");
    // What tells of a lease waits for its turn.
    let leased = [LeaseFact { epoch: 1, spent: 1, returned: 0 }].into_iter().collect();
    let mut news = take("d", 0);
    news.operation = Operation::Acquire { needed: 0, want: 0, facts: Facts { leased, ..Facts::default() } };
    let news = tokio::spawn(store.call(&news));
    redis.resume();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    news.await.unwrap().unwrap();
    store.call(&take("d", 1)).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_late_is_still_an_answer() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    redis.pause();
    let call = tokio::spawn(store.call(&take("late", 5)));
    tokio::time::sleep(4 * TIMEOUT).await;
    redis.resume();
    let reply = call.await.unwrap().unwrap();
    assert_eq!((reply.granted, reply.used), (true, 5));
    assert_eq!(redis.command_counts().get("hset"), Some(&2), "it was done once, and so was the one that connected");
}

#[tokio::test]
async fn a_server_that_is_slow_but_answers_keeps_its_connection() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    let clients = || -> u64 {
        let stats: String = redis.command(&["INFO", "stats"]);
        stats.lines().find_map(|line| line.strip_prefix("total_connections_received:")?.trim().parse().ok()).unwrap()
    };
    // Those that ask make one connection each time.
    let before = clients();
    redis.command::<()>(&["CLIENT", "PAUSE", "600", "WRITE"]);
    call(&store).await.unwrap();
    assert_eq!(clients(), before + 2);
}

#[tokio::test]
async fn scripts_that_were_forgotten_are_sent_again() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    let used = call(&store).await.unwrap().used;
    for round in 1..=3 {
        redis.script_flush();
        assert_eq!(call(&store).await.unwrap().used, used + round);
    }
    let before = redis.command_counts();
    call(&store).await.unwrap();
    assert_eq!(redis.command_counts()["eval"], before["eval"], "the text made Redis keep it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_connection_loses_its_calls_and_no_more() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    // While Redis hangs, nobody closes the connection under the call; then it is closed before the call is read.
    let error = {
        redis.pause();
        let call = tokio::spawn(store.call(&take("a", 1)));
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(redis);
        call.await.unwrap().unwrap_err()
    };
    assert!(matches!(error, StoreError::Lost(_)), "{error:?}");
    assert!(!error.nothing_ran());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_the_server_closes_is_replaced_at_once() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    // It counts as a good one only after a second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    for _ in 0..3 {
        assert_eq!(redis.kill_clients(), 1);
        let begun = Instant::now();
        // It may have been on its way.
        if let Err(error) = call(&store).await {
            assert!(matches!(error, StoreError::Lost(_)), "{error:?}");
            call(&store).await.unwrap();
        }
        assert!(begun.elapsed() < TIMEOUT + SLACK, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_key_of_another_kind_is_malformed() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    redis.command::<()>(&["SET", "test:{test|key=taken}:hour", "x"]);
    let error = store.call(&take("taken", 1)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Malformed(text) if text.contains("WRONGTYPE")), "{error:?}");
    // It was this bucket's fault alone.
    call(&store).await.unwrap();
}

#[tokio::test]
async fn a_missing_or_wrong_password_is_refused_and_never_told() {
    let redis = RedisSetup::new().password("secret").start();
    let address = redis.address();
    for (url, advice) in [
        (format!("redis://{address}"), "it wants a password: give one in --redis-url"),
        (format!("redis://{address}/1"), "it wants a password: give one in --redis-url"),
        (format!("redis://:hunter2@{address}"), "the user or the password is wrong"),
        (format!("redis://secret:hunter2@{address}"), "the user or the password is wrong"),
    ] {
        let store = start(&url);
        let error = refusal(&store).await;
        let shown = format!("{error} {error:?} {store:?}");
        assert!(shown.contains(advice), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused() {
    let redis = Redis::start();
    let error = refusal(&start(&format!("{}/99", redis.url()))).await;
    assert!(error.to_string().contains("the database is the number at the end of --redis-url"), "{error}");
}

#[tokio::test]
async fn a_server_that_has_lost_everything_begins_anew() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    assert!(call(&store).await.unwrap().used > 1);
    redis.flush_all();
    assert_eq!(call(&store).await.unwrap().used, 1);
}

#[tokio::test]
async fn a_server_that_is_full_is_refused() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = call(&store).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("OOM")), "{error:?}");
    redis.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    call(&store).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_left_for_the_primary() {
    let redis = Redis::start();
    let store = connected(&redis.url()).await;
    redis.command::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    redis.command::<()>(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]);
    let error = call(&store).await.unwrap_err();
    // It says so when it is asked to write, or it is noticed before that.
    let is_told = |text: &str| text.contains("READONLY") || text.contains("it is a read-only replica");
    assert!(matches!(&error, StoreError::Misrouted(text) if is_told(text)), "{error:?}");
    redis.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    let (_, errors) = call_until_it_succeeds(&store).await;
    assert!(errors.iter().all(StoreError::nothing_ran), "{errors:?}");
}

#[tokio::test]
async fn a_user_with_few_rights_suffices() {
    let redis = Redis::start();
    redis.command::<()>(&[
        "ACL",
        "SETUSER",
        "few",
        "on",
        ">secret",
        "~test:*",
        "+evalsha",
        "+eval",
        "+time",
        "+hmget",
        "+hset",
        "+pexpire",
        "+zadd",
        "+zrem",
        "+zcard",
        "+zrangebyscore",
        "+zremrangebyscore",
    ]);
    let store = connected(&format!("redis://few:secret@{}", redis.address())).await;
    let mut replicas = store.replicas();
    call(&store).await.unwrap();
    replicas.wait_for(|count| *count == 1).await.unwrap();
    store.stop().await;
    let denied: Vec<String> =
        redis.command::<Vec<redis::Value>>(&["ACL", "LOG"]).into_iter().map(|entry| format!("{entry:?}")).collect();
    // It does without these.
    let dispensable = ["role", "script|load", "config|get", "client|setinfo"];
    assert!(denied.iter().all(|entry| dispensable.iter().any(|command| entry.contains(command))), "{denied:?}");
}

/// The refusal of a server, once it has been met.
async fn refusal(store: &RedisStore) -> StoreError {
    let deadline = Instant::now() + crate::harness::PATIENCE;
    loop {
        match call(store).await {
            Err(error @ StoreError::Refused(_)) => return error,
            other => assert!(Instant::now() < deadline, "not refused: {other:?}"),
        }
    }
}

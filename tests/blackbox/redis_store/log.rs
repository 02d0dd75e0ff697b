//! What the log tells of the connection.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;

use super::{call_until_it_succeeds, connected, start};
use crate::harness::{Redis, RedisSetup};

/// What is logged on this thread while it lives. A test's tasks are all on its thread.
struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn begin() -> Self {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    fn text(&self) -> String {
        String::from_utf8(self.lines.0.lock().clone()).unwrap()
    }

    fn count(&self, words: &str) -> usize {
        self.text().matches(words).count()
    }
}

#[tokio::test]
async fn a_loss_and_a_return_are_told_once() {
    let log = Log::begin();
    let mut redis = RedisSetup::new().password("hunter2").start();
    let store = connected(&redis.url()).await;
    let address = format!("redis://{}", redis.address());
    assert_eq!(
        log.count(&format!("INFO comporta::store::redis::keeper: connected to {address}\n")),
        1,
        "{}",
        log.text()
    );
    redis.kill();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    redis.restart();
    call_until_it_succeeds(&store).await;
    let text = log.text();
    // Five calls may fail until it is connected again, which opens the breaker.
    let breaker = log.count("WARN comporta::breaker: ");
    assert!(breaker <= 1, "{text}");
    assert_eq!(log.count("WARN"), 2 + breaker, "{text}");
    assert_eq!(log.count(&format!("lost the connection to {address}: ")), 1, "{text}");
    assert_eq!(log.count("Connection refused (os error 111); trying again until it is there"), 1, "{text}");
    assert_eq!(log.count(&format!("connected to {address} again, after ")), 1, "{text}");
    assert_eq!(log.count("hunter2"), 0, "{text}");
}

#[tokio::test]
async fn a_server_that_does_not_let_us_in_is_told_once_with_what_to_do() {
    let log = Log::begin();
    let redis = RedisSetup::new().password("secret").start();
    let store = start(&format!("redis://:hunter2@{}", redis.address()));
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(store);
    let text = log.text();
    assert_eq!(log.count("WARN comporta::store"), 1, "{text}");
    assert_eq!(log.count("the user or the password is wrong; correct them in --redis-url"), 1, "{text}");
    assert_eq!(log.count("hunter2"), 0, "{text}");
}

#[tokio::test]
async fn a_server_that_may_evict_buckets_is_warned_of_once() {
    let log = Log::begin();
    let evicting = RedisSetup::new().flags(["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"]);
    let redis = evicting.start();
    let store = connected(&redis.url()).await;
    redis.kill_clients();
    call_until_it_succeeds(&store).await;
    let text = log.text();
    assert_eq!(log.count("set maxmemory-policy to noeviction"), 1, "{text}");
    assert_eq!(log.count("volatile-ttl"), 1, "{text}");
}

#[tokio::test]
async fn a_server_that_keeps_buckets_is_not_warned_of() {
    let log = Log::begin();
    let full = RedisSetup::new().flags(["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]).start();
    let unbounded = Redis::start();
    unbounded.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    connected(&full.url()).await;
    connected(&unbounded.url()).await;
    assert_eq!(log.count("noeviction"), 0, "{}", log.text());
}

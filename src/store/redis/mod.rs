//! The store in a Redis that all replicas share.
//!
//! `Keeper` keeps one connection open, on which all calls are made at once; `Link` is how calls find it. A bucket is
//! one key, and a call is one script, so that each happens at one instant and any Cluster can hold the buckets.

mod address;
mod backoff;
mod connect;
mod eviction;
mod fault;
mod heartbeat;
mod keeper;
mod keys;
mod link;
mod script;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{JoinHandle, unconstrained};

pub use address::{AddressError, RedisAddress};
pub use keys::{KeyPrefix, PrefixError};

use self::connect::Connector;
use self::heartbeat::Heartbeat;
use self::keeper::Keeper;
use self::link::{Link, LinkState};
use self::script::PreparedScript;
use super::scripts::{self, Script};
use super::{Store, StoreCall, StoreError, StoreFuture};

/// What it takes to use a Redis.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    pub address: RedisAddress,
    /// How long a call waits for a connection when there is none. A decision waits no longer for its answer either, but
    /// that is up to the caller: see [`longest_call`](Self::longest_call).
    pub timeout: Duration,
    /// For everything from the name of the host to the login.
    pub connect_timeout: Duration,
    pub key_prefix: KeyPrefix,
}

impl RedisSettings {
    /// How long a call that was sent is waited for. An answer that is too late for the request that asked still brings
    /// hits, so this is far longer than the timeout.
    #[must_use]
    pub fn longest_call(&self) -> Duration {
        (10 * self.timeout).max(Duration::from_secs(1))
    }
}

/// The buckets in a Redis.
///
/// Dropped, it closes its connection; [`stop`](Self::stop) also tells the other replicas.
#[derive(Debug)]
pub struct RedisStore {
    link: Arc<Link>,
    key_prefix: KeyPrefix,
    token_bucket: Arc<PreparedScript>,
    fixed_window: Arc<PreparedScript>,
    heartbeat: Arc<Heartbeat>,
    heartbeat_task: BackgroundTask,
    _keeper_task: BackgroundTask,
}

impl RedisStore {
    /// Begins to connect, and returns at once: until there is a connection, calls fail as
    /// [`Unreachable`](StoreError::Unreachable).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(settings: &RedisSettings) -> Arc<Self> {
        let token_bucket = Arc::new(PreparedScript::new(Script::TokenBucket.text()));
        let fixed_window = Arc::new(PreparedScript::new(Script::FixedWindow.text()));
        let heartbeat_script = Arc::new(PreparedScript::new(heartbeat::SCRIPT));
        let connector = Connector {
            address: settings.address.clone(),
            timeout: settings.connect_timeout,
            scripts: [&token_bucket, &fixed_window, &heartbeat_script].map(Arc::clone).into(),
        };
        let not_yet = StoreError::Unreachable(format!("{}: not connected yet", settings.address));
        let (state, link_state) = watch::channel(LinkState::Down(not_yet));
        let keeper = Keeper { connector, call_bound: settings.longest_call(), state };
        let link = Arc::new(Link { state: link_state, patience: settings.timeout });

        let key_prefix = settings.key_prefix.clone();
        let heartbeat = Arc::new(Heartbeat::new(Arc::clone(&link), heartbeat_script, key_prefix.single("replicas")));
        let keeper_task = BackgroundTask::spawn(keeper.run());
        let heartbeat_task = BackgroundTask::spawn({
            let heartbeat = Arc::clone(&heartbeat);
            async move { heartbeat.run().await }
        });
        Arc::new(Self {
            link,
            key_prefix,
            token_bucket,
            fixed_window,
            heartbeat,
            heartbeat_task,
            _keeper_task: keeper_task,
        })
    }

    /// How many replicas use the same keys, this one included: as last heard, and 1 before anything was heard.
    #[must_use]
    pub fn replicas(&self) -> watch::Receiver<u32> {
        self.heartbeat.replicas()
    }

    /// Waits until the first attempt to connect has ended, whether or not it has succeeded.
    pub async fn tried(&self) {
        // An error means that the store is closed, and nothing will be tried any more.
        drop(self.link.state.clone().changed().await);
    }

    /// Tells the other replicas that this one is gone, if there is a connection. For the end of the process, after the
    /// last call; others would learn it within ten seconds.
    pub async fn stop(&self) {
        self.heartbeat_task.end().await;
        self.heartbeat.leave().await;
    }
}

impl Store for RedisStore {
    fn call(&self, call: &StoreCall) -> StoreFuture {
        let script = Arc::clone(match Script::of(&call.limit) {
            Script::TokenBucket => &self.token_bucket,
            Script::FixedWindow => &self.fixed_window,
        });
        let key = self.key_prefix.bucket(&call.bucket);
        let arguments = scripts::arguments(call);
        let link = Arc::clone(&self.link);
        // The client has a queue of commands, and tokio lets a task that has done much in one turn wait with taking its
        // place there; another call could then overtake this one.
        Box::pin(unconstrained(async move { scripts::reply(&link.run(&script, &key, &arguments).await?) }))
    }

    fn key(&self, bucket: &str) -> String {
        self.key_prefix.bucket(bucket)
    }
}

/// A task that ends when this is dropped.
#[derive(Debug)]
struct BackgroundTask(Mutex<Option<JoinHandle<()>>>);

impl BackgroundTask {
    fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Mutex::new(Some(tokio::spawn(task))))
    }

    /// Returns when it does nothing any more.
    async fn end(&self) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            task.abort();
            // That it was aborted is no news.
            let _ = task.await;
        }
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut().take() {
            task.abort();
        }
    }
}

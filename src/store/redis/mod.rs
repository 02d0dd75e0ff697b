//! The store in a Redis that all replicas share.
//!
//! A bucket is one key, and a call is one script, so that each happens at one instant and any Cluster can hold the
//! buckets. `Route` finds the server of a key: the only one, the primary that Sentinels name, or one of a Cluster. A
//! `Keeper` keeps one connection to each server; all calls share it, and find it through its `Link`.

mod address;
mod background;
mod backoff;
mod cluster;
mod connect;
mod door;
mod eviction;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod gather;
mod greeting;
mod heartbeat;
mod keeper;
mod keys;
mod link;
mod login;
mod node;
mod redirect;
mod route;
mod script;
mod sentinel;
mod stream;
mod tls;
mod traffic;

use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::unconstrained;

pub use address::{AddressError, RedisAddress, RedisKind, RedisUrl};
pub use keys::{KeyPrefix, PrefixError};
pub use login::{Credentials, Login, LoginError};
pub use tls::TlsSettings;

use self::address::Server;
use self::background::BackgroundTask;
use self::door::Door;
use self::heartbeat::Heartbeat;
use self::login::CurrentLogin;
use self::node::{Common, Probe};
use self::route::Route;
use self::script::{Invocation, PreparedScript, ScriptName};
use super::scripts::{self, Script};
use super::{Facts, Operation, ServerReport, Store, StoreCall, StoreError, StoreFuture, StoreServer};
use crate::limit::{Algorithm, Limit, Unit};

/// What it takes to use a Redis.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    pub address: RedisAddress,
    /// For the servers that hold keys. With none, the login of the address counts.
    pub credentials: Credentials,
    /// For the Sentinels, which have users of their own.
    pub sentinel_credentials: Credentials,
    pub tls: TlsSettings,
    /// How long a call waits for a connection when there is none. A decision waits no longer for its answer either, but
    /// that is up to the caller: see [`longest_call`](Self::longest_call).
    pub timeout: Duration,
    /// The most calls that are under way at a time, at least 1.
    pub max_in_flight: usize,
    /// For everything from the name of the host to the login.
    pub connect_timeout: Duration,
    pub key_prefix: KeyPrefix,
}

/// A file that cannot be used. The text says which setting names it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FileError(String);

impl RedisSettings {
    /// A Redis that is found there, with what is usual for the rest.
    #[must_use]
    pub fn at(address: RedisAddress, key_prefix: KeyPrefix) -> Self {
        Self {
            address,
            credentials: Credentials::None,
            sentinel_credentials: Credentials::None,
            tls: TlsSettings::default(),
            timeout: Duration::from_millis(10),
            max_in_flight: 1000,
            connect_timeout: Duration::from_millis(500),
            key_prefix,
        }
    }

    /// How long a call that was sent is waited for. An answer that is too late for the request that asked still brings
    /// hits, so this is far longer than the timeout.
    #[must_use]
    pub fn longest_call(&self) -> Duration {
        (10 * self.timeout).max(Duration::from_secs(1))
    }
}

/// The buckets in a Redis.
///
/// Dropped, it closes its connections; [`stop`](Self::stop) also tells the other replicas.
#[derive(Debug)]
pub struct RedisStore {
    route: Arc<Route>,
    /// Has a place for each call.
    in_flight: Arc<Semaphore>,
    key_prefix: KeyPrefix,
    token_bucket: Arc<PreparedScript>,
    fixed_window: Arc<PreparedScript>,
    heartbeat: Arc<Heartbeat>,
    heartbeat_task: BackgroundTask,
    /// Follow the files that logins are in.
    _logins: [BackgroundTask; 2],
}

impl RedisStore {
    /// Begins to connect, and returns at once: until there is a connection, calls fail as
    /// [`Unreachable`](StoreError::Unreachable).
    ///
    /// # Errors
    ///
    /// When a file that the settings name cannot be read or does not hold what it should.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(settings: &RedisSettings) -> Result<Arc<Self>, FileError> {
        let token_bucket = Arc::new(PreparedScript::new(ScriptName::TokenBucket));
        let fixed_window = Arc::new(PreparedScript::new(ScriptName::FixedWindow));
        let heartbeat_script = Arc::new(PreparedScript::new(ScriptName::Heartbeat));
        let common = Arc::new(Common {
            database: settings.address.database,
            scripts: [&token_bucket, &fixed_window, &heartbeat_script].map(Arc::clone).into(),
            probe: Probe {
                script: Arc::clone(&token_bucket),
                key: settings.key_prefix.single("probe"),
                arguments: scripts::arguments(&probe()),
            },
            patience: settings.timeout,
            longest_call: settings.longest_call(),
        });

        if settings.address.is_tls() {
            settings.tls.config().map_err(FileError)?;
        }
        let of_address = settings.address.credentials();
        let credentials = if settings.credentials == Credentials::None { &of_address } else { &settings.credentials };
        let (login, login_task) = CurrentLogin::of(credentials, "--redis-url").map_err(FileError)?;
        let (sentinel_login, sentinel_login_task) =
            CurrentLogin::of(&settings.sentinel_credentials, "--redis-sentinel-auth").map_err(FileError)?;
        let door = |login| Door { tls: settings.tls.clone(), login, timeout: settings.connect_timeout };
        let route = Arc::new(Route::start(&settings.address, door(login), &door(sentinel_login), common));

        let key_prefix = settings.key_prefix.clone();
        let heartbeat = Arc::new(Heartbeat::new(Arc::clone(&route), heartbeat_script, key_prefix.single("replicas")));
        let heartbeat_task = BackgroundTask::spawn({
            let heartbeat = Arc::clone(&heartbeat);
            async move { heartbeat.run().await }
        });
        let logins = [BackgroundTask::spawn(login_task), BackgroundTask::spawn(sentinel_login_task)];
        Ok(Arc::new(Self {
            route,
            in_flight: Arc::new(Semaphore::new(settings.max_in_flight)),
            key_prefix,
            token_bucket,
            fixed_window,
            heartbeat,
            heartbeat_task,
            _logins: logins,
        }))
    }

    /// How many replicas use the same keys, this one included: as last heard, and 1 before anything was heard.
    #[must_use]
    pub fn replicas(&self) -> watch::Receiver<u32> {
        self.heartbeat.replicas()
    }

    /// Waits until the first attempt to connect has ended, whether or not it has succeeded.
    pub async fn tried(&self) {
        self.route.tried().await;
    }

    /// Waits until there is a connection, however long it takes: in a Cluster, to one of its primaries.
    pub async fn connected(&self) {
        self.route.wait_until_up(&self.key_prefix.single("replicas")).await;
    }

    /// Tells the other replicas that this one is gone, if there is a connection. For the end of the process, after the
    /// last call; others would learn it within ten seconds.
    pub async fn stop(&self) {
        self.heartbeat_task.end().await;
        self.heartbeat.leave().await;
    }
}

/// Takes a hit of a bucket that is full again, and gone, within seconds.
fn probe() -> StoreCall {
    StoreCall {
        bucket: "".into(),
        limit: Limit::per(1000, Unit::Second, Algorithm::TokenBucket),
        operation: Operation::Acquire { needed: 1, want: 0, facts: Facts::default() },
    }
}

impl Store for RedisStore {
    fn call(&self, call: &StoreCall) -> StoreFuture {
        // What only tells of leases can wait for its turn, and must not be lost: nobody waits for it.
        let is_news = matches!(&call.operation, Operation::Acquire { needed: 0, want: 0, facts } if !facts.is_empty());
        let place = match Arc::clone(&self.in_flight).try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) if is_news => None,
            Err(_) => {
                let cause = "as many calls are under way as --redis-max-in-flight allows".to_owned();
                return Box::pin(ready(Err(StoreError::Refused(cause))));
            }
        };
        let in_flight = Arc::clone(&self.in_flight);
        let script = Arc::clone(match Script::of(&call.limit) {
            Script::TokenBucket => &self.token_bucket,
            Script::FixedWindow => &self.fixed_window,
        });
        let key = self.key_prefix.bucket(&call.bucket);
        let arguments = scripts::arguments(call);
        let most_extra = call.operation.most_extra();
        let route = Arc::clone(&self.route);
        // The client has a queue of commands, and tokio lets a task that has done much in one turn wait with taking its
        // place there; another call could then overtake this one.
        Box::pin(unconstrained(async move {
            let _place = match place {
                Some(place) => Some(place),
                // An error would mean that it is closed, and nobody closes it.
                None => in_flight.acquire_owned().await.ok(),
            };
            let call = Invocation { script: &script, key: &key, arguments: &arguments };
            scripts::reply(&route.run(&call).await?, most_extra)
        }))
    }

    fn key(&self, bucket: &str) -> String {
        self.key_prefix.bucket(bucket)
    }

    fn is_asked(&self) -> bool {
        self.route.is_asked()
    }

    fn server(&self, bucket: &str) -> Option<StoreServer> {
        Some(match self.route.server(&self.key(bucket))? {
            Server::Tcp { host, port, .. } => StoreServer { address: host, port: Some(port) },
            Server::Socket(path) => StoreServer { address: path.display().to_string(), port: None },
        })
    }

    fn condition(&self) -> String {
        self.route.condition()
    }

    fn servers(&self) -> Vec<ServerReport> {
        self.route.servers()
    }

    fn gives_up(&self, bucket: &str) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let link = self.route.link(&self.key(bucket));
        Box::pin(async move {
            match link {
                Some(link) => link.breaker.opened().await,
                None => pending().await,
            }
        })
    }

    fn count_failure(&self, bucket: &str) {
        if let Some(link) = self.route.link(&self.key(bucket)) {
            link.count_failure();
        }
    }
}

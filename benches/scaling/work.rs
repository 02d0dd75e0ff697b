//! What Redis is asked to do, again and again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use comporta::limit::{Algorithm, Limit, Unit};
use comporta::server::BoxError;
use comporta::store::redis::RedisStore;
use comporta::store::{Facts, LeaseFact, Operation, Store, StoreCall};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;

/// Hits that are borrowed and told of at a time.
const BORROWED: u64 = 100;

/// One kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The floor of everything: a command that does nothing.
    Ping,
    /// The floor of scripts: one that does nothing, with as many arguments as ours.
    Nothing,
    /// Hits for a request that waits.
    Ask,
    /// Hits ahead of need, and of a token bucket news of as many that were spent.
    Renew,
    /// As `Ask`, of a bucket that is used up.
    Refused,
}

impl Kind {
    pub(crate) const OURS: [Self; 3] = [Self::Ask, Self::Renew, Self::Refused];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ping => "PING",
            Self::Nothing => "a script that does nothing",
            Self::Ask => "ask",
            Self::Renew => "renew",
            Self::Refused => "be refused",
        }
    }
}

/// An answer to come.
pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// Somebody who can be asked the same again and again.
pub(crate) trait Work: Send + Sync + 'static {
    fn ask(&self) -> Asking;
}

/// Calls of our scripts, as replicas send them: for one bucket after the other, and on their connections in turn.
pub(crate) struct Calls {
    stores: Vec<Arc<RedisStore>>,
    kind: Kind,
    limit: Limit,
    buckets: Vec<Arc<Mutex<Bucket>>>,
    turn: AtomicUsize,
}

struct Bucket {
    name: Arc<str>,
    /// What is borrowed, and not yet told of: as many as were under way at a time, if all were for this bucket.
    leases: Vec<LeaseFact>,
}

impl Calls {
    pub(crate) fn new(stores: Vec<Arc<RedisStore>>, kind: Kind, algorithm: Algorithm, keys: usize) -> Self {
        let limit = match kind {
            // The first passes.
            Kind::Refused => Limit::per(1, Unit::Year, algorithm),
            _ => Limit::per(1_000_000_000, Unit::Hour, algorithm),
        };
        let suffix = comporta::engine::limit_suffix(&limit);
        let bucket = |key| {
            let name = format!("{{bench|user=user-{key:07}}}:{suffix}").into();
            Arc::new(Mutex::new(Bucket { name, leases: Vec::new() }))
        };
        Self { stores, kind, limit, buckets: (0..keys).map(bucket).collect(), turn: AtomicUsize::new(0) }
    }
}

impl Work for Calls {
    fn ask(&self) -> Asking {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let bucket = Arc::clone(&self.buckets[turn % self.buckets.len()]);
        let mut facts = Facts::default();
        let name = {
            let mut bucket = bucket.lock();
            facts.leased.extend(bucket.leases.pop());
            Arc::clone(&bucket.name)
        };
        let (needed, want) = if self.kind == Kind::Renew { (0, BORROWED) } else { (1, 0) };
        let operation = Operation::Acquire { needed, want, facts };
        let call =
            self.stores[turn % self.stores.len()].call(&StoreCall { bucket: name, limit: self.limit, operation });
        let may_be_refused = self.kind == Kind::Refused;
        let tells_spent = self.limit.algorithm() == Algorithm::TokenBucket;
        Box::pin(async move {
            let reply = call.await?;
            if !reply.granted && !may_be_refused {
                return Err("Redis has refused what is free".into());
            }
            // Of a fixed window nobody is told what was spent.
            if reply.extra > 0 && tells_spent {
                bucket.lock().leases.push(LeaseFact { epoch: reply.epoch, spent: reply.extra, returned: 0 });
            }
            Ok(())
        })
    }
}

/// A command that does nothing, on a connection of the same client library.
pub(crate) struct Floor {
    connection: MultiplexedConnection,
    command: redis::Cmd,
}

impl Floor {
    pub(crate) fn ping(connection: MultiplexedConnection) -> Self {
        Self { connection, command: redis::cmd("PING") }
    }

    /// Has the script loaded.
    pub(crate) async fn script(mut connection: MultiplexedConnection) -> Result<Self, BoxError> {
        let hash: String = redis::cmd("SCRIPT").arg("LOAD").arg("return 1").query_async(&mut connection).await?;
        let mut command = redis::cmd("EVALSHA");
        command.arg(hash).arg(1).arg("comporta:{bench|user=user-0000000}:hour").arg("acquire");
        command.arg(&["1", "0", "1000000000", "2778", "60000000", "1000000000", "3600", "0", "0"]);
        Ok(Self { connection, command })
    }
}

impl Work for Floor {
    fn ask(&self) -> Asking {
        let (mut connection, command) = (self.connection.clone(), self.command.clone());
        Box::pin(async move {
            connection.send_packed_command(&command).await?;
            Ok(())
        })
    }
}

//! The tier that replicas share: one bucket for each key, from which they borrow hits before they spend them.
//!
//! A [`StoreCall`] asks for something that happens to one bucket at one instant; a [`Reply`] says what happened. What it
//! means, and why no more than the limit can ever be admitted, is told in `docs/leases.md`.

mod error;
pub mod memory;
mod name;
pub mod redis;
pub mod scripts;
mod terms;

use std::pin::Pin;
use std::sync::Arc;

use smallvec::SmallVec;

pub use error::StoreError;
pub(crate) use name::shortened;
pub use terms::{RETRY_FLOOR, epoch_length, lease_pace, scarce_hits};

use crate::breaker::BreakerReport;
use crate::limit::{Limit, Micros};
use crate::measure::Snapshot;

/// The tier that replicas share.
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Does what a call asks, at most once.
    ///
    /// The first poll puts the call on its way, so that calls reach the store in the order in which they are first
    /// polled. A future that is dropped later leaves the call's fate unknown.
    fn call(&self, call: &StoreCall) -> StoreFuture;

    /// The name under which the store itself knows a bucket, for people who look there.
    fn key(&self, bucket: &str) -> String;

    /// The server that has a bucket, as far as is known at the moment.
    fn server(&self, bucket: &str) -> Option<StoreServer>;

    /// Whether all of it is asked at the moment, as far as is known.
    fn is_asked(&self) -> bool;

    /// The same, in words for people.
    fn condition(&self) -> String;

    /// What each of its servers has been asked, for those who watch. A server that has gone is not told of any more.
    fn servers(&self) -> Vec<ServerReport>;

    /// Ends when the server of a bucket is asked no more: what it was asked may not be answered.
    fn gives_up(&self, bucket: &str) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Takes note that a request has waited in vain for what others had asked of this bucket. Of calls it knows itself.
    fn count_failure(&self, bucket: &str);
}

/// What a server has been asked, and whether it still is.
#[derive(Debug)]
pub struct ServerReport {
    /// As it is configured, or as others name it.
    pub name: String,
    pub breaker: BreakerReport,
    /// Calls that were sent.
    pub calls: Vec<CallCount>,
    /// How long they took.
    pub times: Snapshot,
}

/// How many calls of one script came out so.
#[derive(Clone, Copy, Debug)]
pub struct CallCount {
    pub script: &'static str,
    pub outcome: Outcome,
    pub count: u64,
}

/// What came of a call that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Error,
}

impl Outcome {
    pub const ALL: [Self; 2] = [Self::Ok, Self::Error];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
        }
    }
}

/// A server of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreServer {
    /// The name or address of its host, or the path of its socket.
    pub address: String,
    /// `None` for a socket.
    pub port: Option<u16>,
}

/// A [`Reply`] to come.
pub type StoreFuture = Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

/// What is to happen to one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCall {
    /// The bucket's name, such as `{api|tenant=acme}:minute`, without the prefix that the store adds.
    pub bucket: Arc<str>,
    /// The limit that counts for the one who asks.
    pub limit: Limit,
    pub operation: Operation,
}

impl StoreCall {
    /// Asks what is used of a bucket, and changes nothing.
    #[must_use]
    pub fn look(bucket: Arc<str>, limit: Limit) -> Self {
        Self { bucket, limit, operation: Operation::Acquire { needed: 0, want: 0, facts: Facts::default() } }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Takes hits, if they are free. With `needed` and `want` both 0 it only looks, and tells `facts`.
    Acquire {
        /// Hits for a request that waits; all of them or none are granted. At most the limit's capacity.
        needed: u64,
        /// Further hits to borrow; as many as the store sees fit.
        want: u64,
        facts: Facts,
    },
    /// Gives back hits that were spent, as far as any are used.
    Refund { hits: u64 },
    /// Takes hits even if they are not free; what is used ends at twice the capacity at most.
    Debit { hits: u64 },
}

impl Operation {
    /// The most that [`Reply::extra`] can be.
    #[must_use]
    pub const fn most_extra(&self) -> u64 {
        match self {
            Self::Acquire { want, .. } => *want,
            Self::Refund { hits } => *hits,
            Self::Debit { .. } => 0,
        }
    }
}

/// What became of hits that were granted earlier. Each is told at most once, and is true whenever it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Of leases, by epoch; at most four: two that are held, and two that are held no more.
    pub leased: SmallVec<[LeaseFact; 2]>,
    /// Of hits that were granted as `needed`; at most [`Facts::MOST_UNUSED`].
    pub unused: SmallVec<[UnusedFact; 1]>,
}

impl Facts {
    /// So many unused hits are told in one call; others wait for the next.
    pub const MOST_UNUSED: usize = 4;

    /// Hits of leases that will not be spent.
    #[must_use]
    pub fn returned(&self) -> u64 {
        self.leased.iter().map(|lease| lease.returned).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leased.is_empty() && self.unused.is_empty()
    }
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseFact {
    /// The epoch in which it was granted.
    pub epoch: u64,
    /// Hits that were spent since this was last told.
    pub spent: u64,
    /// Hits that will not be spent.
    pub returned: u64,
}

/// Hits that were granted as `needed` and that nobody spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedFact {
    /// The epoch in which they were granted.
    pub epoch: u64,
    pub hits: u64,
    /// The [`Reply::mark`] with which they were granted.
    pub mark: u64,
}

/// What happened to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether `needed` hits were granted, or a debit passes. A refund is always granted.
    pub granted: bool,
    /// Hits that are borrowed: `want` or fewer. Of a refund, the hits that came back, rounded down.
    pub extra: u64,
    /// The name of the current epoch: of a token bucket the time (in the store's µs) at which it began, of a fixed
    /// window its number.
    pub epoch: u64,
    /// How long the borrowed hits may be spent, counted from when the call was sent.
    pub lease_time: Micros,
    /// How long until `needed` hits are free, if they are not; at most ten years.
    pub retry_after: Micros,
    /// What is used of the bucket now, all that is borrowed included: millionths of a token, or hits of a fixed window.
    pub used: u64,
    /// Millionths of a token that have been refilled in this epoch, refunds included; 0 for a fixed window.
    pub mark: u64,
}

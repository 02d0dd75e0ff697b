//! The store's side of the buckets, in memory: what the scripts in `lua/` do, in Rust.
//!
//! This is the model of the store. The scripts are held against it, step by step, on real servers; simulations of many
//! replicas use it as their store. It is pure: the time is an argument, and stands for the clock of the Redis server.

mod fixed_window;
#[cfg(test)]
mod tests;
mod token_bucket;

use std::collections::HashMap;
use std::sync::Arc;

pub use fixed_window::SharedFixedWindow;
pub use token_bucket::SharedTokenBucket;

use super::{Reply, StoreCall};
use crate::limit::{Algorithm, Micros};

/// The buckets of a store.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    token_buckets: HashMap<Arc<str>, Kept<SharedTokenBucket>>,
    fixed_windows: HashMap<Arc<str>, Kept<SharedFixedWindow>>,
}

/// A bucket, and until when the store keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept<B> {
    pub bucket: B,
    /// The last millisecond in which the bucket is still there.
    pub until_millis: u64,
}

impl<B> Kept<B> {
    /// Keeps a bucket for `millis` from `now`, as Redis does: it counts time in whole milliseconds, and a key is gone
    /// when the last of them is over.
    const fn new(bucket: B, now: Micros, millis: u64) -> Self {
        Self { bucket, until_millis: now.0 / 1000 + millis }
    }

    const fn is_there(&self, now: Micros) -> bool {
        now.0 / 1000 <= self.until_millis
    }
}

impl MemoryStore {
    /// Does what a call asks, at this time. The limit's amount must not be 0.
    ///
    /// A call that moves no hits writes nothing: settling uses the amount of the limit that asks, and one that only
    /// looks or is refused must not destroy what a faster limit of the same bucket has earned. But that the clock has
    /// gone back is written: tokens flow back only from then on.
    pub fn serve(&mut self, call: &StoreCall, now: Micros) -> Reply {
        match call.limit.algorithm() {
            Algorithm::TokenBucket => {
                let kept = find(&mut self.token_buckets, &call.bucket, now);
                let mut bucket = kept.unwrap_or_else(|| SharedTokenBucket::full(now));
                let clock_has_gone_back = now < bucket.at;
                bucket.settle(&call.limit, now);
                let outcome = bucket.apply(&call.limit, &call.operation);
                if outcome.moved || clock_has_gone_back {
                    let kept = Kept::new(bucket, now, bucket.lifetime_millis(&call.limit, now));
                    self.token_buckets.insert(call.bucket.clone(), kept);
                }
                bucket.reply(&call.limit, outcome, now)
            }
            Algorithm::FixedWindow => {
                let kept = find(&mut self.fixed_windows, &call.bucket, now);
                let mut window = kept.unwrap_or(SharedFixedWindow::UNUSED);
                window.settle(&call.limit, now);
                let outcome = window.apply(&call.limit, &call.operation, now);
                if outcome.moved {
                    let kept = Kept::new(window, now, window.lifetime_millis(&call.limit, now));
                    self.fixed_windows.insert(call.bucket.clone(), kept);
                }
                window.reply(&call.limit, outcome, now)
            }
        }
    }

    /// What is stored of a token bucket at this time.
    #[must_use]
    pub fn token_bucket(&self, name: &str, now: Micros) -> Option<Kept<SharedTokenBucket>> {
        self.token_buckets.get(name).filter(|kept| kept.is_there(now)).copied()
    }

    /// What is stored of a fixed window at this time.
    #[must_use]
    pub fn fixed_window(&self, name: &str, now: Micros) -> Option<Kept<SharedFixedWindow>> {
        self.fixed_windows.get(name).filter(|kept| kept.is_there(now)).copied()
    }
}

/// What is kept under a name. As in Redis, what is found to be over is gone, even if the clock then goes back.
fn find<B: Copy>(buckets: &mut HashMap<Arc<str>, Kept<B>>, name: &str, now: Micros) -> Option<B> {
    let kept = buckets.get(name)?;
    if !kept.is_there(now) {
        buckets.remove(name);
        return None;
    }
    Some(kept.bucket)
}

/// What an operation has done to a bucket.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    granted: bool,
    extra: u64,
    retry_after: Micros,
    /// Whether any hits were taken, given back or reported spent.
    moved: bool,
}

/// Hits that are borrowed when so many are free: at most half, so that other replicas find some; but all of them when
/// half is less than the rate yields before anybody asks again.
fn extra_hits(free: u64, scarce: u64, want: u64) -> u64 {
    let half = free / 2;
    want.min(if half < scarce { free } else { half })
}

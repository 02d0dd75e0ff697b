use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::key::BucketKey;
use crate::limit::{Micros, Now};

/// The store is told of so many debts at a time, besides those that come before a request's own call.
const MOST_AT_ONCE: usize = 4;

/// After a call has failed none is made for so long.
const PAUSE: Micros = Micros::from_seconds(1);

/// Buckets of which the store has to be told what was spent while it could not be asked.
#[derive(Debug)]
pub(super) struct Debtors {
    queue: Mutex<VecDeque<BucketKey>>,
    /// There may be as many as buckets. Buckets that are gone stay in the queue until it is their turn.
    most: usize,
    under_way: AtomicUsize,
    pause_until: AtomicU64,
}

impl Debtors {
    pub(super) fn new(most: usize) -> Self {
        Self {
            queue: Mutex::default(),
            most: most.max(1),
            under_way: AtomicUsize::new(0),
            pause_until: AtomicU64::new(0),
        }
    }

    /// Puts in one more. If there are too many the oldest goes: its debt is told when it is next asked for.
    pub(super) fn put(&self, key: BucketKey) {
        let mut queue = self.queue.lock();
        if queue.len() == self.most {
            queue.pop_front();
        }
        queue.push_back(key);
    }

    /// Takes out the oldest.
    pub(super) fn take(&self) -> Option<BucketKey> {
        self.queue.lock().pop_front()
    }

    /// Whether one more may be told of.
    pub(super) fn may_tell(&self, now: Now) -> bool {
        self.under_way.load(Ordering::Relaxed) < MOST_AT_ONCE
            && now.monotonic.0 >= self.pause_until.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self, has_failed: bool, now: Now) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        if has_failed {
            self.pause_until.store((now.monotonic + PAUSE).0, Ordering::Relaxed);
        }
    }
}

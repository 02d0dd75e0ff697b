use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::borrower::Borrower;
use super::key::BucketKey;
use crate::limit::{Bucket, Limit, Micros, Now};

/// Buckets a shard holds when the table is as full as it may be. A shard is swept and its idlest bucket looked for
/// under its lock; with so few buckets that takes a few microseconds. (And 350 ± 5 σ fit a table of 512 places, of which
/// seven eighths may be taken.)
const SHARD_BUCKETS: usize = 350;

/// All buckets of this process, in shards with a lock each.
///
/// A bucket that is full again is the same as none, so idle ones are swept away; beyond the cap the bucket that has
/// been idle longest in its shard goes.
#[derive(Debug)]
pub struct Table {
    shards: Box<[Shard]>,
    capacity: usize,
    len: AtomicUsize,
    evicted: AtomicU64,
    /// The shard that the next sweep begins with.
    next_sweep: AtomicUsize,
}

/// On a cache line of its own, so that the locks of two shards do not slow each other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(Mutex<HashTable<Slot>>);

/// A bucket in its place.
#[derive(Debug)]
pub(super) struct Slot {
    key: BucketKey,
    pub(super) record: Record,
    /// Who borrows for it from the store, if it is there that the hits are counted.
    pub(super) borrower: Option<Box<Borrower>>,
}

/// What is used of a bucket, and when it was asked for. Of a bucket in the store it is what can be known of it here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) bucket: Bucket,
    touched: Micros,
    /// When it can be forgotten, by the clock that the bucket goes by.
    full_at: Micros,
}

impl Record {
    pub(super) fn new(limit: &Limit, bucket: Bucket, now: Now) -> Self {
        Self { bucket, touched: now.monotonic, full_at: bucket.full_at(limit) }
    }

    /// How long until nothing is used any more.
    pub(super) fn until_full(&self, now: Now) -> Micros {
        self.bucket.until(self.full_at, now)
    }

    /// The same, used at a (monotonic) time too, which may be earlier: another thread may have read the clock later and
    /// come first.
    pub(super) fn touched_at(self, time: Micros) -> Self {
        Self { touched: self.touched.max(time), ..self }
    }

    /// The same, in the place of an earlier record of the bucket, for which nobody has asked in between.
    pub(super) const fn in_place_of(self, before: Self) -> Self {
        Self { touched: before.touched, ..self }
    }

    pub(super) const fn touched(&self) -> Micros {
        self.touched
    }

    /// Whole seconds since somebody last asked for it.
    pub(super) fn since_touched(&self, now: Now) -> u64 {
        (now.monotonic - self.touched).0 / 1_000_000
    }

    /// The same, in the place of an earlier record of the bucket. It is kept as long as that one would have been: limits
    /// of different amounts may share a bucket, and for the slower one it is not full when it is for the faster.
    pub(super) fn after(self, before: Self) -> Self {
        Self { touched: self.touched.max(before.touched), full_at: self.full_at.max(before.full_at), ..self }
    }

    /// Takes hits that somebody else has granted.
    pub(super) fn charge(&mut self, limit: &Limit, hits: u64, now: Now) {
        if hits > 0 {
            let mut bucket = self.bucket;
            bucket.settle(limit, now);
            bucket.charge(hits);
            *self = Self::new(limit, bucket, now).after(*self);
        }
    }

    /// Puts hits back that nobody has spent after all.
    pub(super) fn give_back(&mut self, limit: &Limit, hits: u64, now: Now) {
        if hits > 0 {
            let mut bucket = self.bucket;
            bucket.settle(limit, now);
            bucket.give_back(hits);
            *self = Self::new(limit, bucket, now).touched_at(self.touched());
        }
    }

    /// Hits that can be expected to be free.
    pub(super) fn free(&self, limit: &Limit, now: Now) -> u64 {
        let mut bucket = self.bucket;
        bucket.settle(limit, now);
        bucket.free(limit)
    }
}

impl Slot {
    pub(super) const fn new(key: BucketKey, record: Record, borrower: Option<Box<Borrower>>) -> Self {
        Self { key, record, borrower }
    }

    pub(super) const fn key(&self) -> BucketKey {
        self.key
    }

    const fn hash(&self) -> u64 {
        self.key.low
    }

    /// Whether it is the same as none.
    fn is_idle(&mut self, now: Now) -> bool {
        match &mut self.borrower {
            None => self.record.until_full(now) == Micros(0),
            Some(borrower) => borrower.is_idle(self.record.touched, now),
        }
    }

    fn is_busy(&self) -> bool {
        self.borrower.as_ref().is_some_and(|borrower| borrower.is_busy())
    }
}

impl Table {
    /// A table of at most `capacity` buckets, at least 1.
    pub(super) fn new(capacity: usize) -> Self {
        let shards = capacity.div_ceil(SHARD_BUCKETS).max(1);
        Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            capacity: capacity.max(1),
            len: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            next_sweep: AtomicUsize::new(0),
        }
    }

    /// How many buckets there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// How many buckets had to go because there was no room.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Locks the shards of these buckets, in the order of the shards, so that two requests never wait for each other.
    pub(super) fn lock(&self, keys: impl Iterator<Item = BucketKey>) -> Locked<'_> {
        let mut indices: SmallVec<[usize; 4]> = keys.map(|key| self.shard_of(key)).collect();
        if indices.len() > 1 {
            indices.sort_unstable();
            indices.dedup();
        }
        let shards = indices.into_iter().map(|index| (index, self.shards[index].0.lock())).collect();
        Locked { table: self, shards, evicted: Vec::new() }
    }

    /// Removes idle buckets from a part of the table: at least one shard, and all in `parts` calls.
    pub(super) fn sweep(&self, now: Now, parts: usize) {
        let shards = self.shards();
        let count = shards.div_ceil(parts.max(1));
        let first = self.next_sweep.fetch_add(count, Ordering::Relaxed);
        for index in first..first + count {
            let mut slots = self.shards[index % shards].0.lock();
            let before = slots.len();
            slots.retain(|slot| !slot.is_idle(now));
            self.len.fetch_sub(before - slots.len(), Ordering::Relaxed);
            if slots.len() < slots.capacity() / 4 {
                slots.shrink_to_fit(Slot::hash);
            }
        }
    }

    /// Visits every bucket, one shard after the other.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&mut Slot)) {
        for shard in &self.shards {
            shard.0.lock().iter_mut().for_each(&mut visit);
        }
    }

    fn shard_of(&self, key: BucketKey) -> usize {
        // The upper half of hash · shards is evenly spread below `shards`, without a division (Lemire, "Fast random
        // integer generation in an interval", 2019).
        #[expect(clippy::cast_possible_truncation, reason = "below the number of shards, which is a usize")]
        {
            ((u128::from(key.high) * self.shards() as u128) >> 64) as usize
        }
    }
}

/// The shards of one request's buckets, locked: what it reads stays true until it lets go.
pub(super) struct Locked<'t> {
    table: &'t Table,
    /// By index, ascending.
    shards: SmallVec<[(usize, MutexGuard<'t, HashTable<Slot>>); 4]>,
    /// Buckets that had to go and had borrowed something.
    pub(super) evicted: Vec<Slot>,
}

impl Locked<'_> {
    pub(super) fn get(&mut self, key: BucketKey) -> Option<&mut Slot> {
        self.shard(key)?.find_mut(key.low, |slot| slot.key == key)
    }

    /// Puts in a bucket that was not there.
    pub(super) fn insert(&mut self, new: Slot) -> Option<&mut Slot> {
        let table = self.table;
        let position = self.position(new.key)?;
        let slots = &mut *self.shards[position].1;
        table.len.fetch_add(1, Ordering::Relaxed);
        while table.len() > table.capacity {
            let Some(evicted) = evict_idlest(table, slots, new.record.touched) else { break };
            if evicted.borrower.is_some() {
                self.evicted.push(evicted);
            }
        }
        Some(slots.insert_unique(new.hash(), new, Slot::hash).into_mut())
    }

    pub(super) fn remove(&mut self, key: BucketKey) {
        let table = self.table;
        let Some(slots) = self.shard(key) else { return };
        if let Ok(entry) = slots.find_entry(key.low, |slot| slot.key == key) {
            entry.remove();
            table.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The shard of a key that was named when the shards were locked.
    fn shard(&mut self, key: BucketKey) -> Option<&mut HashTable<Slot>> {
        let position = self.position(key)?;
        Some(&mut *self.shards[position].1)
    }

    fn position(&self, key: BucketKey) -> Option<usize> {
        let position = match &self.shards[..] {
            [_] => Some(0),
            shards => {
                let index = self.table.shard_of(key);
                shards.binary_search_by_key(&index, |(index, _)| *index).ok()
            }
        };
        debug_assert!(position.is_some(), "the shard of this bucket is not locked");
        position
    }
}

/// The one that had to go, if there was one. (If not, the next bucket that comes to a shard with others makes room for
/// two.) One that waits for the store stays, and so does one that has lent hits at this very time: the request may be the
/// same, and give them back.
fn evict_idlest(table: &Table, slots: &mut HashTable<Slot>, now: Micros) -> Option<Slot> {
    let may_go = |slot: &&Slot| slot.borrower.is_none() || (!slot.is_busy() && slot.record.touched < now);
    let idlest = slots.iter().filter(may_go).min_by_key(|slot| slot.record.touched)?.key;
    let (evicted, _) = slots.find_entry(idlest.low, |slot| slot.key == idlest).ok()?.remove();
    table.len.fetch_sub(1, Ordering::Relaxed);
    table.evicted.fetch_add(1, Ordering::Relaxed);
    Some(evicted)
}

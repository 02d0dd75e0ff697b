use super::table::Record;
use super::terms::Terms;
use crate::limit::{Bucket, Hits, Limit, Micros, Now};

/// This replica's part of a bucket, from which it decides while the store cannot be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fallback {
    /// The whole limit of which this is a part.
    limit: Limit,
    record: Record,
    /// What has been spent here and has not flowed back yet. The store does not know of it.
    debt: Bucket,
    /// The store is being told of that.
    is_being_told: bool,
}

impl Fallback {
    /// Begins with its part of what is known to be `used` of the whole, so that an outage is no second burst.
    pub(super) fn begin(limit: &Limit, used: u64, terms: &Terms, now: Now) -> Self {
        let (part, unused) = (terms.local_part(limit), Bucket::unused(limit, now));
        let (whole, capacity) = (u64::from(limit.capacity()).max(1), u64::from(part.capacity()));
        let mut bucket = unused;
        bucket.charge((used.min(whole) * capacity).div_ceil(whole));
        Self { limit: *limit, record: Record::new(&part, bucket, now), debt: unused, is_being_told: false }
    }

    /// Does what `hits` says, if it can be done here, and tells whether it passes. `limit` is that of the one who asks.
    pub(super) fn apply(&mut self, limit: &Limit, hits: Hits, overdraft: bool, terms: &Terms, now: Now) -> bool {
        let part = terms.local_part(limit);
        let (mut bucket, mut debt) = (self.record.bucket, self.debt);
        bucket.settle(&part, now);
        debt.settle(&part, now);
        let used_before = bucket.used();
        let passes = bucket.apply(&part, hits, overdraft);
        debt.charge(bucket.used().saturating_sub(used_before));
        debt.give_back(used_before.saturating_sub(bucket.used()));
        (self.limit, self.record, self.debt) = (*limit, Record::new(&part, bucket, now), debt);
        passes
    }

    /// What it is now.
    pub(super) const fn record(&self) -> Record {
        self.record
    }

    pub(super) const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Hits of which the store has to be told. They count as being told from now on.
    pub(super) fn tell(&mut self, terms: &Terms, now: Now) -> Option<u64> {
        let hits = self.debt(terms, now);
        (!self.is_being_told && hits > 0).then(|| {
            self.is_being_told = true;
            hits
        })
    }

    /// The store was told of these, or nobody knows whether it was: it is not told twice.
    pub(super) fn is_told(&mut self, hits: u64) {
        self.debt.give_back(hits);
        self.is_being_told = false;
    }

    /// The store was certainly not told.
    pub(super) const fn is_not_told(&mut self) {
        self.is_being_told = false;
    }

    pub(super) fn debt(&self, terms: &Terms, now: Now) -> u64 {
        let mut debt = self.debt;
        debt.settle(&terms.local_part(&self.limit), now);
        debt.used()
    }

    /// Whether it may be forgotten.
    pub(super) fn is_full(&self, now: Now) -> bool {
        self.record.until_full(now) == Micros(0)
    }
}

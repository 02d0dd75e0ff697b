use super::question::Check;
use super::table::Record;
use super::terms::Terms;
use crate::limit::{Bucket, Limit, Micros, Now};

/// This replica's part of a bucket, from which it decides while the store cannot be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fallback {
    /// The whole limit of which this is a part.
    limit: Limit,
    record: Record,
    /// What has been spent here and has not flowed back yet. The store does not know of it.
    debt: Bucket,
    /// The number of the call that tells the store of that.
    being_told: Option<u64>,
}

impl Fallback {
    /// Begins with its part of what is known to be `used` of the whole, so that an outage is no second burst.
    pub(super) fn begin(limit: &Limit, used: u64, terms: &Terms, now: Now) -> Self {
        let (part, unused) = (terms.local_part(limit), Bucket::unused(limit, now));
        let (whole, capacity) = (u64::from(limit.capacity()).max(1), u64::from(part.capacity()));
        let mut bucket = unused;
        bucket.charge((used.min(whole) * capacity).div_ceil(whole));
        Self { limit: *limit, record: Record::new(&part, bucket, now), debt: unused, being_told: None }
    }

    /// Does what a check asks, if it can be done here, and tells whether it passes. `is_owed`: the store was not told.
    pub(super) fn apply(&mut self, check: &Check<'_>, is_owed: bool, terms: &Terms, now: Now) -> bool {
        let Check { limit, hits, overdraft, .. } = check;
        let part = terms.local_part(limit);
        let (mut bucket, mut debt) = (self.record.bucket, self.debt);
        bucket.settle(&part, now);
        debt.settle(&part, now);
        let used_before = bucket.used();
        let passes = bucket.apply(&part, *hits, *overdraft);
        if is_owed {
            debt.charge(bucket.used().saturating_sub(used_before));
            debt.give_back(used_before.saturating_sub(bucket.used()));
        }
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

    /// Hits of which the store has to be told, if a call of this number tells them. They count as being told from now on.
    pub(super) fn tell(&mut self, id: u64, terms: &Terms, now: Now) -> Option<u64> {
        let hits = self.debt(terms, now);
        (self.being_told.is_none() && hits > 0).then(|| {
            self.being_told = Some(id);
            hits
        })
    }

    /// The call has ended. Unless it certainly did nothing, it counts as told: nothing is told twice.
    pub(super) fn is_told(&mut self, id: u64, hits: u64, nothing_ran: bool) {
        if self.being_told == Some(id) {
            self.being_told = None;
            if !nothing_ran {
                self.debt.give_back(hits);
            }
        }
    }

    /// Whether there is something to tell, or that is being told.
    pub(super) fn is_owing(&self, terms: &Terms, now: Now) -> bool {
        self.being_told.is_some() || self.debt(terms, now) > 0
    }

    fn debt(&self, terms: &Terms, now: Now) -> u64 {
        let mut debt = self.debt;
        debt.settle(&terms.local_part(&self.limit), now);
        debt.used()
    }

    /// Whether it may be forgotten.
    pub(super) fn is_full(&self, now: Now) -> bool {
        self.record.until_full(now) == Micros(0)
    }
}

use super::decision::{Code, CurrentLimit, Status};
use super::question::{Check, Enforcement};
use super::table::{Locked, Slot};
use crate::limit::{Bucket, Micros, Now};

/// A check that has been made, and what is needed to answer it or to take it back.
#[derive(Debug)]
pub(super) struct Trial<'p> {
    pub(super) check: Check<'p>,
    pub(super) passes: bool,
    /// The bucket before, if there was one.
    before: Option<Slot>,
    /// The bucket now.
    bucket: Bucket,
}

impl<'p> Trial<'p> {
    /// Does to the bucket what the check asks.
    pub(super) fn begin(check: Check<'p>, buckets: &mut Locked<'_>, now: Now) -> Self {
        let before = buckets.get(check.key);
        let mut bucket = present(&check, before, now);
        let passes = bucket.apply(&check.limit, check.hits, check.overdraft);
        // A refused bucket is stored too: it has been touched, so it is not the idlest.
        if before.is_some() || !bucket.is_unused() {
            buckets.set(Slot::new(check.key, &check.limit, bucket, now));
        }
        Self { check, passes, before, bucket }
    }

    /// Puts the bucket back as it was before. Trials are undone in reverse order.
    pub(super) fn undo(&self, buckets: &mut Locked<'_>, now: Now) {
        match self.before {
            Some(_) => {
                let bucket = present(&self.check, self.before, now);
                buckets.set(Slot::new(self.check.key, &self.check.limit, bucket, now));
            }
            None => buckets.remove(self.check.key),
        }
    }

    /// Charges an overdraft that has been undone.
    pub(super) fn charge_again(&self, buckets: &mut Locked<'_>, now: Now) {
        let mut bucket = present(&self.check, buckets.get(self.check.key), now);
        bucket.apply(&self.check.limit, self.check.hits, true);
        if !bucket.is_unused() {
            buckets.set(Slot::new(self.check.key, &self.check.limit, bucket, now));
        }
    }

    /// Takes note of what the bucket is after other trials have been undone.
    pub(super) fn look_again(&mut self, buckets: &mut Locked<'_>, now: Now) {
        self.bucket = present(&self.check, buckets.get(self.check.key), now);
    }

    /// What the limit says to the client.
    pub(super) fn status(&self, now: Now) -> Status {
        let (check, limit) = (&self.check, &self.check.limit);
        let until_reset = if limit.amount() == 0 {
            limit.period()
        } else if self.passes {
            self.bucket.until_full(limit, now)
        } else {
            self.bucket.until_free(limit, check.hits, now).max(Micros(1))
        };
        let remaining = if self.passes { self.bucket.free(limit) } else { 0 };
        let is_enforced = check.enforcement != Enforcement::Shadow;
        Status {
            code: if is_enforced && !self.passes { Code::OverLimit } else { Code::Ok },
            current_limit: Some(CurrentLimit { amount: limit.amount(), unit: limit.unit(), name: check.name.cloned() }),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            seconds_until_reset: Some(until_reset.seconds_rounded_up()),
        }
    }
}

/// The bucket of a check at this moment.
fn present(check: &Check<'_>, slot: Option<Slot>, now: Now) -> Bucket {
    let Some(slot) = slot else { return Bucket::unused(&check.limit, now) };
    let mut bucket = slot.bucket();
    bucket.settle(&check.limit, now);
    bucket
}

/// Whether the request is refused: an enforced limit refuses, or it has quotas and all of them refuse.
/// `has_unlimited_quota` says that one of them is without a limit.
pub(super) fn is_refused(trials: &[Trial<'_>], has_unlimited_quota: bool) -> bool {
    let (mut has_quota, mut has_quota_left) = (false, has_unlimited_quota);
    for descriptor in trials.chunk_by(|one, other| one.check.descriptor == other.check.descriptor) {
        let passes = descriptor.iter().all(|trial| trial.passes);
        match descriptor[0].check.enforcement {
            Enforcement::Enforced if !passes => return true,
            Enforcement::Quota => {
                has_quota = true;
                has_quota_left |= passes;
            }
            Enforcement::Enforced | Enforcement::Shadow => {}
        }
    }
    has_quota && !has_quota_left
}

/// Of the limits of one descriptor, the one that its status shows: the one that refuses with the longest wait, else
/// the one with least left.
pub(super) fn strictest_status(descriptor: &[Trial<'_>], now: Now) -> Option<Status> {
    descriptor
        .iter()
        .map(|trial| (trial.passes, trial.status(now)))
        .min_by_key(|(passes, status)| {
            let wait = if *passes { None } else { status.seconds_until_reset };
            (*passes, std::cmp::Reverse(wait), status.remaining)
        })
        .map(|(_, status)| status)
}

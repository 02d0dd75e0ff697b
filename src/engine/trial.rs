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
    before: Option<Bucket>,
    /// The bucket now.
    slot: Slot,
}

impl<'p> Trial<'p> {
    /// Does to the bucket what the check asks.
    pub(super) fn begin(check: Check<'p>, buckets: &mut Locked<'_>, now: Now) -> Self {
        let (passes, before, slot) = attempt(&check, buckets, now);
        Self { check, passes, before, slot }
    }

    /// Puts the bucket back as it was before. Trials are undone in reverse order.
    pub(super) fn undo(&self, buckets: &mut Locked<'_>, now: Now) {
        match (self.before, buckets.get(self.check.key)) {
            (Some(before), Some(slot)) => *slot = present(&self.check, Some(before), now),
            (None, _) => buckets.remove(self.check.key),
            (Some(_), None) => {}
        }
    }

    /// Charges an overdraft that has been undone.
    pub(super) fn charge_again(&self, buckets: &mut Locked<'_>, now: Now) {
        attempt(&self.check, buckets, now);
    }

    /// Takes note of what the bucket is after other trials have been undone.
    pub(super) fn look_again(&mut self, buckets: &mut Locked<'_>, now: Now) {
        let bucket = buckets.get(self.check.key).map(|slot| slot.bucket());
        self.slot = present(&self.check, bucket, now);
    }

    /// What the limit says to the client.
    pub(super) fn status(&self, now: Now) -> Status {
        let (check, limit) = (&self.check, &self.check.limit);
        let until_reset = if limit.amount() == 0 {
            limit.period()
        } else if self.passes {
            self.slot.until_full(now)
        } else {
            self.slot.bucket().until_free(limit, check.hits, now).max(Micros(1))
        };
        let remaining = if self.passes { self.slot.bucket().free(limit) } else { 0 };
        let is_shadowed = check.enforcement == Enforcement::Shadow;
        Status {
            code: if self.passes || is_shadowed { Code::Ok } else { Code::OverLimit },
            is_over: !self.passes,
            is_shadowed,
            current_limit: Some(CurrentLimit { amount: limit.amount(), unit: limit.unit(), name: check.name.cloned() }),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            seconds_until_reset: Some(until_reset.seconds_rounded_up()),
            metadata: check.metadata.cloned(),
        }
    }
}

/// Does to the bucket what the check asks. Whether it passes, the bucket before if there was one, and the bucket now.
fn attempt(check: &Check<'_>, buckets: &mut Locked<'_>, now: Now) -> (bool, Option<Bucket>, Slot) {
    let existing = buckets.get(check.key);
    let before = existing.as_ref().map(|slot| slot.bucket());
    let mut bucket = before.unwrap_or_else(|| Bucket::unused(&check.limit, now));
    bucket.settle(&check.limit, now);
    let passes = bucket.apply(&check.limit, check.hits, check.overdraft);
    let slot = Slot::new(check.key, &check.limit, bucket, now);
    match existing {
        // A refused bucket is stored too: it has been touched, so it is not the idlest.
        Some(existing) => *existing = slot,
        None if bucket.is_unused() => {}
        None => buckets.insert(slot),
    }
    (passes, before, slot)
}

/// The bucket of a check, brought to this moment.
fn present(check: &Check<'_>, bucket: Option<Bucket>, now: Now) -> Slot {
    let mut bucket = bucket.unwrap_or_else(|| Bucket::unused(&check.limit, now));
    bucket.settle(&check.limit, now);
    Slot::new(check.key, &check.limit, bucket, now)
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
    let mut statuses = descriptor.iter().map(|trial| (trial.passes, trial.status(now)));
    let first = statuses.next()?;
    let strictest = statuses.fold(first, |strictest, other| {
        let is_stricter = match (strictest.0, other.0) {
            (true, true) => other.1.remaining < strictest.1.remaining,
            (false, false) => other.1.seconds_until_reset > strictest.1.seconds_until_reset,
            (strictest_passes, _) => strictest_passes,
        };
        if is_stricter { other } else { strictest }
    });
    Some(strictest.1)
}

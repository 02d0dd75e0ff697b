use super::decision::{Code, CurrentLimit, Enforcement, Prevention, Status};
use super::question::Check;
use super::table::{Locked, Slot};
use crate::limit::{Bucket, Hits, Micros, Now};

/// A check that has been made, and what is needed to answer it or to take it back.
#[derive(Debug)]
pub(super) struct Trial<'p> {
    pub(super) check: Check<'p>,
    pub(super) passes: bool,
    /// What was stored before, if anything was.
    before: Option<Slot>,
    /// The bucket now, brought to this moment.
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
            (Some(before), Some(slot)) => *slot = before.touched_at(now.monotonic),
            // Another bucket of this request has taken its room.
            (Some(before), None) => buckets.insert(before.touched_at(now.monotonic)),
            (None, _) => buckets.remove(self.check.key),
        }
    }

    /// Whether it is charged even if the request is refused.
    pub(super) fn is_overdraft(&self) -> bool {
        self.check.overdraft && matches!(self.check.hits, Hits::Take(_))
    }

    /// Does again what has been undone.
    pub(super) fn redo(&self, buckets: &mut Locked<'_>, now: Now) {
        attempt(&self.check, buckets, now);
    }

    /// Takes note of what the bucket is after other trials have been undone.
    pub(super) fn look_again(&mut self, buckets: &mut Locked<'_>, now: Now) {
        let bucket = present(&self.check, buckets.get(self.check.key).as_deref(), now);
        self.slot = Slot::new(self.check.key, &self.check.limit, bucket, now);
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
        let says_ok = self.passes || check.enforcement == Enforcement::Shadow;
        Status {
            code: if says_ok { Code::Ok } else { Code::OverLimit },
            is_over: !self.passes,
            enforcement: check.enforcement,
            prevented_by: None,
            current_limit: Some(CurrentLimit { amount: limit.amount(), unit: limit.unit(), name: check.name.cloned() }),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            seconds_until_reset: Some(until_reset.seconds_rounded_up()),
            metadata: check.metadata.cloned(),
        }
    }
}

/// Does to the bucket what the check asks. Whether it passes, what was stored before, and the bucket now.
fn attempt(check: &Check<'_>, buckets: &mut Locked<'_>, now: Now) -> (bool, Option<Slot>, Slot) {
    let stored = buckets.get(check.key);
    let before = stored.as_deref().copied();
    let mut bucket = present(check, before.as_ref(), now);
    let unchanged = bucket;
    let passes = bucket.apply(&check.limit, check.hits, check.overdraft);
    let is_changed = bucket != unchanged;
    let slot = Slot::new(check.key, &check.limit, bucket, now);
    match (stored, before) {
        (Some(stored), Some(before)) if is_changed => *stored = slot.after(before),
        // What flows back is settled only when hits are taken or put back: a request whose own limit is lower than the
        // policy's must not change a bucket by looking at it, or by being refused. But it has been touched.
        (Some(stored), _) => *stored = stored.touched_at(now.monotonic),
        (None, _) if bucket.is_unused() => {}
        (None, _) => buckets.insert(slot),
    }
    (passes, before, slot)
}

/// The bucket of a check, brought to this moment.
fn present(check: &Check<'_>, slot: Option<&Slot>, now: Now) -> Bucket {
    let mut bucket = slot.map_or_else(|| Bucket::unused(&check.limit, now), Slot::bucket);
    bucket.settle(&check.limit, now);
    bucket
}

/// Who refuses a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    /// At least one enforced limit.
    pub(super) by_limit: bool,
    /// It has quotas, and all of them are used up.
    pub(super) by_quotas: bool,
}

impl Refusal {
    /// `has_unlimited_quota` says that one of the request's quotas is without a limit.
    pub(super) fn of(trials: &[Trial<'_>], has_unlimited_quota: bool) -> Self {
        let (mut by_limit, mut has_quota, mut has_quota_left) = (false, false, has_unlimited_quota);
        for descriptor in by_descriptor(trials) {
            let passes = descriptor.iter().all(|trial| trial.passes);
            match descriptor[0].check.enforcement {
                Enforcement::Enforced => by_limit |= !passes,
                Enforcement::Quota => {
                    has_quota = true;
                    has_quota_left |= passes;
                }
                Enforcement::Shadow => {}
            }
        }
        Self { by_limit, by_quotas: has_quota && !has_quota_left }
    }

    pub(super) const fn is_refused(self) -> bool {
        self.by_limit || self.by_quotas
    }

    /// Why a limit that is over has no part in the refusal; `None` if it has.
    pub(super) const fn prevention(self, enforcement: Enforcement) -> Option<Prevention> {
        match enforcement {
            Enforcement::Shadow => Some(Prevention::ShadowMode),
            Enforcement::Quota if !self.by_quotas => Some(Prevention::QuotaMode),
            Enforcement::Enforced | Enforcement::Quota => None,
        }
    }
}

pub(super) fn by_descriptor<'t, 'p>(trials: &'t [Trial<'p>]) -> impl Iterator<Item = &'t [Trial<'p>]> {
    trials.chunk_by(|one, other| one.check.descriptor == other.check.descriptor)
}

/// Of the limits of one descriptor, the one that its status shows: the one that refuses with the longest wait, else
/// the one with least left.
pub(super) fn strictest_status(descriptor: &[Trial<'_>], now: Now) -> Option<Status> {
    descriptor
        .iter()
        .map(|trial| trial.status(now))
        .reduce(|strictest, other| if is_stricter(&other, &strictest) { other } else { strictest })
}

fn is_stricter(status: &Status, other: &Status) -> bool {
    match (status.is_over, other.is_over) {
        (true, true) => status.seconds_until_reset > other.seconds_until_reset,
        (false, false) => status.remaining < other.remaining,
        (is_over, _) => is_over,
    }
}

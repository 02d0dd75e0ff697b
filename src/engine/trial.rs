use std::collections::HashMap;

use super::decision::{Code, CurrentLimit, Enforcement, Source, Status};
use super::fallback::Fallback;
use super::lease::{Grant, Portions, hits_in};
use super::question::{Check, Tier};
use super::table::{Locked, Record, Slot};
use super::terms::Terms;
use super::waiting::Outcome;
use crate::limit::{Bucket, Hits, Micros, Now};
use crate::policy::FailureMode;

/// A check that has been made, and what is needed to answer it or to take it back.
#[derive(Debug)]
pub(super) struct Trial<'p> {
    pub(super) check: Check<'p>,
    pub(super) verdict: Verdict,
    pub(super) source: Source,
    /// The bucket should be maintained when the request has been decided.
    pub(super) wants_upkeep: bool,
    pub(super) effect: Effect,
    /// The bucket now, brought to this moment.
    record: Record,
}

/// What a limit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passes,
    Refuses,
    /// Only the store can say.
    Unknown,
    /// The store cannot say, and the limit leaves the decision to Envoy.
    Unavailable,
}

impl Verdict {
    pub(super) const fn of(passes: bool) -> Self {
        if passes { Self::Passes } else { Self::Refuses }
    }
}

/// What a trial has changed.
#[derive(Debug)]
pub(super) enum Effect {
    /// Nothing, or nothing that goes back.
    None,
    /// A bucket of this process; what was stored before, if anything was.
    Stored { before: Option<Record> },
    /// These have been spent from leases.
    Spent(Portions),
    /// These were set aside or granted while the request waited.
    Granted { aside: Portions, grant: Option<Grant> },
    /// The store has been told to charge an overdraft.
    Debited,
    /// A bucket that stands in for the store's.
    Fallback { before: Option<Fallback> },
}

impl<'p> Trial<'p> {
    /// Does to the bucket what the check asks, as far as that can be known here.
    pub(super) fn begin(check: Check<'p>, buckets: &mut Locked<'_>, now: Now) -> Self {
        match check.tier {
            Tier::Process => Self::in_process(check, buckets, now),
            Tier::Store => Self::from_leases(check, buckets, now),
        }
    }

    /// By a bucket of this process.
    fn in_process(check: Check<'p>, buckets: &mut Locked<'_>, now: Now) -> Self {
        let (passes, before, record) = attempt(&check, buckets, now);
        let effect = Effect::Stored { before };
        Self { check, verdict: Verdict::of(passes), source: Source::Local, wants_upkeep: false, effect, record }
    }

    /// By what has been borrowed of a bucket in the store, and what is known of it.
    fn from_leases(check: Check<'p>, buckets: &mut Locked<'_>, now: Now) -> Self {
        let (limit, time) = (check.limit, now.monotonic);
        let (mut verdict, mut source, mut effect) = (Verdict::Unknown, Source::Local, Effect::None);
        let mut wants_upkeep = false;
        let needed = check.hits.needed();
        let is_possible = needed <= u64::from(limit.capacity());
        if !is_possible && (!check.overdraft || limit.capacity() == 0) {
            verdict = Verdict::Refuses;
        }
        let Some(slot) = buckets.get(check.key) else {
            if matches!(check.hits, Hits::GiveBack(_)) {
                verdict = Verdict::Passes;
            }
            let record = Record::new(&limit, Bucket::unused(&limit, now), now);
            return Self { check, verdict, source, wants_upkeep, effect, record };
        };
        let mut bucket = slot.record.bucket;
        bucket.settle(&limit, now);
        if let Some(borrower) = &mut slot.borrower {
            // Whoever takes borrows under his own limit; but while the store is being asked under another, he waits. To
            // look or to give back needs no lease, and leaves it as it is.
            if limit != *borrower.leases.limit() && matches!(check.hits, Hits::Take(_)) && !borrower.is_busy() {
                borrower.leases.change(limit, time);
            }
            match check.hits {
                Hits::GiveBack(_) => verdict = Verdict::Passes,
                _ if verdict == Verdict::Refuses || limit != *borrower.leases.limit() => {}
                Hits::Take(hits) if borrower.queue.is_empty() && is_possible => {
                    if let Some(portions) = borrower.leases.spend(hits, time) {
                        borrower.leases.consume(hits);
                        bucket.charge(hits);
                        (verdict, effect) = (Verdict::Passes, Effect::Spent(portions));
                        wants_upkeep = borrower.leases.should_renew(time);
                    }
                }
                Hits::Look if borrower.leases.held(time) > 0 => verdict = Verdict::Passes,
                Hits::Look if borrower.has_just_heard(time) => verdict = Verdict::of(bucket.free(&limit) > 0),
                Hits::Take(_) | Hits::Look => {}
            }
            if verdict == Verdict::Unknown
                && !check.overdraft
                && limit == *borrower.leases.limit()
                && needed > borrower.leases.held(time)
                && borrower.leases.knows_refusal(needed, bucket.free(&limit), time)
            {
                (verdict, source) = (Verdict::Refuses, Source::DeniedCache);
            }
        }
        let record = Record::new(&limit, bucket, now);
        slot.record =
            if matches!(effect, Effect::Spent(_)) { record.after(slot.record) } else { slot.record.touched_at(time) };
        Self { check, verdict, source, wants_upkeep, effect, record }
    }

    /// By what has become of it while the request waited. `stand_in` is for an answer of the store that has
    /// not come.
    pub(super) fn resolved(
        check: Check<'p>,
        outcome: Outcome,
        stand_in: StandIn,
        buckets: &mut Locked<'_>,
        terms: &Terms,
        now: Now,
    ) -> Self {
        let record = Record::new(&check.limit, present(&check, record_of(&check, buckets).as_ref(), now), now);
        let mut trial = Self {
            check,
            verdict: Verdict::Unknown,
            source: Source::Store,
            wants_upkeep: true,
            effect: Effect::None,
            record,
        };
        match outcome {
            Outcome::AtTheEnd => return Self::begin(trial.check, buckets, now),
            Outcome::Passes { aside, grant } => {
                trial.verdict = Verdict::Passes;
                trial.effect = Effect::Granted { aside, grant };
            }
            Outcome::Refused => trial.verdict = Verdict::Refuses,
            Outcome::Told { passes } => trial.verdict = Verdict::of(passes),
            Outcome::Unknown if stand_in == StandIn::Estimate => {
                trial.source = Source::Local;
                if trial.is_overdraft() {
                    trial.effect = Effect::Debited;
                }
            }
            // Of an overdraft the store was told when the request came.
            Outcome::Unknown => trial.fall_back(!trial.is_overdraft(), buckets, terms, now),
            Outcome::Failed { may_have_run } => {
                trial.fall_back(!(trial.is_overdraft() && may_have_run), buckets, terms, now);
            }
        }
        trial
    }

    /// Decides without the store, which `is_owed` what passes.
    fn fall_back(&mut self, is_owed: bool, buckets: &mut Locked<'_>, terms: &Terms, now: Now) {
        let check = &self.check;
        self.source = Source::Fallback;
        self.verdict = match check.failure_mode {
            FailureMode::Open => Verdict::Passes,
            FailureMode::Closed => Verdict::Refuses,
            FailureMode::Unavailable => Verdict::Unavailable,
            FailureMode::Local => {
                let borrower = buckets.get(check.key).and_then(|slot| slot.borrower.as_mut());
                let before = borrower.as_ref().and_then(|borrower| borrower.fallback.as_deref().copied());
                let used = self.record.bucket.used();
                let mut fallback = before.unwrap_or_else(|| Fallback::begin(&check.limit, used, terms, now));
                let passes = fallback.apply(check, is_owed, terms, now);
                self.record = fallback.record();
                if let Some(borrower) = borrower {
                    borrower.set_fallback(Some(fallback));
                    self.effect = Effect::Fallback { before };
                }
                Verdict::of(passes)
            }
        };
    }

    pub(super) fn refuses(&self) -> bool {
        self.verdict == Verdict::Refuses
    }

    /// Puts everything back as it was before. Trials are undone in reverse order.
    pub(super) fn undo(&mut self, buckets: &mut Locked<'_>, now: Now) {
        let (key, limit) = (self.check.key, self.check.limit);
        match std::mem::replace(&mut self.effect, Effect::None) {
            Effect::None | Effect::Debited => {}
            Effect::Stored { before } => match (before, buckets.get(key)) {
                (Some(before), Some(slot)) => slot.record = before.touched_at(now.monotonic),
                // Another bucket of this request has taken its room.
                (Some(before), None) => {
                    buckets.insert(Slot::new(key, before.touched_at(now.monotonic), None));
                }
                (None, _) => buckets.remove(key),
            },
            Effect::Spent(portions) => {
                if let Some(slot) = buckets.get(key) {
                    if let Some(borrower) = &mut slot.borrower {
                        borrower.leases.unspend_aside(&portions);
                        borrower.leases.unconsume(hits_in(&portions));
                    }
                    slot.put_back(&limit, &portions, now);
                }
            }
            Effect::Granted { aside, grant } => {
                if let Some(slot) = buckets.get(key) {
                    slot.put_back(&limit, &aside, now);
                    if let Some(grant) = grant {
                        slot.record.give_back(&limit, grant.hits, now);
                        if let Some(borrower) = &mut slot.borrower {
                            borrower.leases.leave_unused(grant);
                        }
                    }
                }
            }
            Effect::Fallback { before } => {
                if let Some(borrower) = buckets.get(key).and_then(|slot| slot.borrower.as_mut()) {
                    borrower.set_fallback(before);
                }
            }
        }
    }

    /// Whether it is charged even if the request is refused.
    pub(super) fn is_overdraft(&self) -> bool {
        self.check.overdraft && matches!(self.check.hits, Hits::Take(_))
    }

    /// Charges an overdraft of this process's own bucket again that has been undone.
    pub(super) fn redo(&self, buckets: &mut Locked<'_>, now: Now) {
        attempt(&self.check, buckets, now);
    }

    /// What was set aside for the request is spent: it has passed, or this is an overdraft.
    pub(super) fn settle(&mut self, buckets: &mut Locked<'_>) {
        if let Effect::Granted { aside, .. } = &self.effect
            && let Some(borrower) = buckets.get(self.check.key).and_then(|slot| slot.borrower.as_mut())
        {
            borrower.leases.spend_aside(aside);
        }
    }

    /// What has become of it so far, when the request has to wait. What was spent for it is only set aside now.
    pub(super) fn so_far(&mut self, buckets: &mut Locked<'_>) -> Outcome {
        match (std::mem::replace(&mut self.effect, Effect::None), self.verdict, self.check.hits) {
            (Effect::Spent(aside), ..) => {
                if let Some(borrower) = buckets.get(self.check.key).and_then(|slot| slot.borrower.as_mut()) {
                    borrower.leases.unspend_aside(&aside);
                }
                Outcome::Passes { aside, grant: None }
            }
            (_, Verdict::Unknown, _) => Outcome::Unknown,
            _ if self.check.tier == Tier::Process => Outcome::AtTheEnd,
            (.., Hits::GiveBack(_)) => Outcome::AtTheEnd,
            (_, Verdict::Passes, _) => Outcome::Told { passes: true },
            _ => Outcome::Refused,
        }
    }

    /// Takes note of what the bucket is after other trials have been undone.
    pub(super) fn look_again(&mut self, buckets: &mut Locked<'_>, now: Now) {
        if self.source == Source::Fallback {
            return;
        }
        let bucket = present(&self.check, record_of(&self.check, buckets).as_ref(), now);
        self.record = Record::new(&self.check.limit, bucket, now);
    }

    /// Whether so many percent of the limit are used.
    pub(super) fn is_near_limit(&self, percent: u8) -> bool {
        let (used, capacity) = (self.record.bucket.used(), self.check.limit.capacity());
        self.source != Source::Fallback && u64::from(percent) * u64::from(capacity) <= 100 * used
    }

    /// What the limit says to the client.
    pub(super) fn status(&self, now: Now) -> Status {
        let (check, limit) = (&self.check, &self.check.limit);
        let bucket = &self.record.bucket;
        let passes = match self.verdict {
            Verdict::Passes | Verdict::Unavailable => true,
            Verdict::Refuses => false,
            Verdict::Unknown => check.hits.needed() <= bucket.free(limit),
        };
        let until_reset = if limit.amount() == 0 {
            limit.period()
        } else if passes {
            self.record.until_full(now)
        } else {
            bucket.until_free(limit, check.hits, now).max(Micros(1))
        };
        let remaining = if passes { bucket.free(limit) } else { 0 };
        let says_ok = passes || check.enforcement == Enforcement::Shadow;
        Status {
            code: if says_ok { Code::Ok } else { Code::OverLimit },
            source: self.source,
            is_over: !passes,
            is_near_limit: false,
            enforcement: check.enforcement,
            prevented_by: None,
            current_limit: Some(CurrentLimit { amount: limit.amount(), unit: limit.unit(), name: check.name.cloned() }),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            seconds_until_reset: Some(until_reset.seconds_rounded_up()),
            metadata: check.metadata.cloned(),
        }
    }
}

/// Lets each of several checks of one bucket show what was left after it, as they do when they need not wait: what those
/// after it were granted was still there.
pub(super) fn show_one_after_another(trials: &mut [Trial<'_>], now: Now) {
    if trials.len() < 2 {
        return;
    }
    let mut granted_after = HashMap::<_, u64>::new();
    for trial in trials.iter_mut().rev() {
        if let Effect::Granted { aside, grant } = &trial.effect {
            let after = granted_after.entry(trial.check.key).or_default();
            trial.record.give_back(&trial.check.limit, *after, now);
            *after += hits_in(aside) + grant.as_ref().map_or(0, |grant| grant.hits);
        }
    }
}

/// What is decided by when the store has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StandIn {
    /// The request is refused anyway, so a guess is good enough for the status.
    Estimate,
    FailureMode,
}

/// Does to a bucket of this process what the check asks. Whether it passes, what was stored before, and what is now.
fn attempt(check: &Check<'_>, buckets: &mut Locked<'_>, now: Now) -> (bool, Option<Record>, Record) {
    let slot = buckets.get(check.key);
    let before = slot.as_ref().map(|slot| slot.record);
    let mut bucket = present(check, before.as_ref(), now);
    let unchanged = bucket;
    let passes = bucket.apply(&check.limit, check.hits, check.overdraft);
    let is_changed = bucket != unchanged;
    let record = Record::new(&check.limit, bucket, now);
    match (slot, before) {
        (Some(slot), Some(before)) if is_changed => slot.record = record.after(before),
        // What flows back is settled only when hits are taken or put back: a request whose own limit is lower than the
        // policy's must not change a bucket by looking at it, or by being refused. But it has been touched.
        (Some(slot), _) => slot.record = slot.record.touched_at(now.monotonic),
        (None, _) if bucket.is_unused() => {}
        (None, _) => {
            buckets.insert(Slot::new(check.key, record, None));
        }
    }
    (passes, before, record)
}

fn record_of(check: &Check<'_>, buckets: &mut Locked<'_>) -> Option<Record> {
    buckets.get(check.key).map(|slot| slot.record)
}

/// The bucket of a check, brought to this moment.
fn present(check: &Check<'_>, record: Option<&Record>, now: Now) -> Bucket {
    let mut bucket = record.map_or_else(|| Bucket::unused(&check.limit, now), |record| record.bucket);
    bucket.settle(&check.limit, now);
    bucket
}

//! What the engine does between requests: it takes in the store's answers, borrows ahead, and returns what is idle.
//!
//! Nothing here waits. Each function says which calls to make next; whoever makes them brings back the answers.

use std::sync::Arc;

use smallvec::SmallVec;

use super::borrower::{Call, Purpose};
use super::decision::{Decision, Source, Unavailable};
use super::lease::scaled;
use super::refusal::Refusal;
use super::table::{Locked, Slot};
use super::trial::{Effect, StandIn, Trial, Verdict, show_one_after_another};
use super::waiting::{Outcome, Progress, Seat, WaitingRequest};
use super::{Engine, Trials};
use crate::limit::Now;
use crate::store::{Facts, LeaseFact, Operation, Reply, StoreCall, StoreError, UnusedFact, lease_pace};

/// So many debtors are looked at in one go.
const MOST_LOOKED_AT: usize = 64;

/// Why a request that waits is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Enough is known.
    Known,
    /// It has waited as long as it may.
    OutOfTime,
    /// Nobody waits for it any more.
    Abandoned,
}

impl Engine {
    /// Takes in the answer to a call, or that it has failed. Each call is brought back once.
    #[expect(clippy::needless_pass_by_value, reason = "nobody can bring it twice")]
    pub fn take_answer(&self, call: Call, answer: &Result<Reply, StoreError>, now: Now) -> Vec<Call> {
        let (mut calls, mut decided) = (Vec::new(), Vec::new());
        self.counts.count_call(&call.request.operation, answer);
        let mut buckets = self.table.lock([call.key].into_iter());
        if let Some(slot) = buckets.get(call.key) {
            match answer {
                Ok(reply) => slot.receive(&call, reply, &self.terms, now, &mut decided),
                Err(error) => slot.miss(&call, error, &self.terms, now, &mut decided),
            }
            calls.extend(slot.serve(&self.terms, now));
            // What a store has not heard because it cannot be reached or refuses is not told again at once.
            if !matches!(answer, Err(error) if error.nothing_ran()) {
                calls.extend(slot.tell_unused(&self.terms, now));
                if self.terms.is_ending() {
                    calls.extend(slot.return_all(&self.terms, now));
                }
            }
            self.put_on_agenda(slot, now);
            self.count_leased(slot);
        } else if let Ok(reply) = answer {
            self.counts.leased.granted.add(reply.extra);
            calls.extend(give_everything_back(&call, reply, now));
        }
        drop(buckets);
        if let Purpose::Repay { in_background: true, .. } = call.purpose {
            self.debtors.end(answer.is_err(), now);
            calls.extend(self.repay_debts(now));
        }
        decided.extend(tell_debtor(&call, answer));
        self.finish_all(decided, now, &mut calls);
        calls
    }

    /// A call has taken so long that another may be made. Its answer is still to be brought.
    pub fn call_is_overdue(&self, call: &Call, now: Now) -> Vec<Call> {
        let (mut calls, mut decided) = (Vec::new(), Vec::new());
        let mut buckets = self.table.lock([call.key].into_iter());
        if let Some(slot) = buckets.get(call.key) {
            slot.end_call(call);
            slot.answer(false, now, &mut decided);
            calls.extend(slot.serve(&self.terms, now));
        }
        drop(buckets);
        self.finish_all(decided, now, &mut calls);
        calls
    }

    /// Looks after what is borrowed: returns what would end unspent, and tells what was spent.
    pub fn look_after_leases(&self, now: Now) -> Vec<Call> {
        let mut calls = Vec::new();
        for key in self.agenda.take_due(now.monotonic) {
            let mut buckets = self.table.lock([key].into_iter());
            let Some(slot) = buckets.get(key) else { continue };
            let (call, again) = slot.look_after(&self.terms, now);
            calls.extend(call);
            self.count_leased(slot);
            if let Some(borrower) = &mut slot.borrower {
                borrower.is_on_agenda = false;
            }
            if again {
                self.put_on_agenda(slot, now);
            }
        }
        calls
    }

    /// Tells the store what was spent while it could not be asked, of a few buckets at a time: other replicas should know,
    /// even if nobody asks for them here any more.
    pub fn repay_debts(&self, now: Now) -> Vec<Call> {
        let mut calls = Vec::new();
        for _ in 0..MOST_LOOKED_AT {
            if !self.debtors.may_tell(now) {
                break;
            }
            let Some(key) = self.debtors.take() else { break };
            let mut buckets = self.table.lock([key].into_iter());
            let Some(slot) = buckets.get(key) else { continue };
            let (call, owes) = slot.repay(true, &self.terms, now);
            if call.is_some() {
                self.debtors.begin();
            }
            calls.extend(call);
            if owes {
                self.debtors.put(key);
            }
        }
        calls
    }

    /// Takes note of what was decided without the store, by failure mode, and of what it will have to be told.
    fn note_fallback(&self, trials: &Trials<'_>, buckets: &mut Locked<'_>) {
        for trial in trials.iter().filter(|trial| trial.source == Source::Fallback) {
            self.counts.by_failure_mode(trial.check.failure_mode).increment();
            if let Effect::Fallback { .. } = trial.effect
                && let Some(borrower) = buckets.get(trial.check.key).and_then(|slot| slot.borrower.as_mut())
                && !std::mem::replace(&mut borrower.is_among_debtors, true)
            {
                self.debtors.put(trial.check.key);
            }
        }
    }

    /// Returns everything that is borrowed, because the process is about to end. Nothing is borrowed ahead from now on,
    /// and what calls under way still bring is returned by those that [`take_answer`](Self::take_answer) asks for.
    pub fn return_leases(&self, now: Now) -> Vec<Call> {
        self.terms.end();
        let mut calls = Vec::new();
        self.table.for_each(|slot| {
            calls.extend(slot.repay(false, &self.terms, now).0.or_else(|| slot.return_all(&self.terms, now)));
        });
        calls
    }

    /// Tells how many replicas share the store, at least 1.
    pub fn set_replicas(&self, replicas: u32) {
        self.terms.set_replicas(replicas);
    }

    /// How many replicas share the store, as was told last.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.terms.replicas()
    }

    fn put_on_agenda(&self, slot: &mut Slot, now: Now) {
        let key = slot.key();
        let Some(borrower) = &mut slot.borrower else { return };
        if borrower.is_on_agenda || borrower.leases.is_empty(now.monotonic) {
            return;
        }
        borrower.is_on_agenda = true;
        // Four times an epoch, and never all together.
        let pause = scaled(lease_pace(borrower.leases.limit()), (0.75 + self.terms.random() / 4.0) / 4.0);
        self.agenda.put(key, now.monotonic + pause);
    }

    pub(super) fn finish_all(&self, decided: Vec<Arc<WaitingRequest>>, now: Now, calls: &mut Vec<Call>) {
        for request in decided {
            // Whoever waits is told even if deciding fails: the sender goes with the claim.
            if let Some(claim) = request.claim()
                && let Some(decision) = self.finish(&request, claim.outcomes, Ending::Known, now, calls)
            {
                drop(claim.tell.send(decision));
            }
        }
    }

    /// Decides a request that has waited, and has been claimed. `None` if nobody waits for it.
    pub(super) fn finish(
        &self,
        request: &Arc<WaitingRequest>,
        outcomes: SmallVec<[Outcome; 2]>,
        ending: Ending,
        now: Now,
        calls: &mut Vec<Call>,
    ) -> Option<Result<Decision, Unavailable>> {
        let domain = request.active.policy.domain(&request.request.domain)?;
        let mut question = self.question(&request.request, &request.active, domain);
        let checks = std::mem::take(&mut question.checks);
        let mut buckets = self.table.lock(checks.iter().map(|check| check.key));
        let stand_in = if ending == Ending::OutOfTime { StandIn::FailureMode } else { StandIn::Estimate };
        let mut trials = Trials::new();
        for (index, (check, outcome)) in checks.into_iter().zip(outcomes).enumerate() {
            if matches!(outcome, Outcome::Unknown)
                && let Some(slot) = buckets.get(check.key)
            {
                slot.leave_queue(&Seat { request: Arc::clone(request), check: index }, now);
            }
            trials.push(Trial::resolved(check, outcome, stand_in, &mut buckets, &self.terms, now));
        }
        show_one_after_another(&mut trials, now);
        if ending == Ending::Abandoned {
            for trial in trials.iter_mut().rev() {
                trial.undo(&mut buckets, now);
            }
            self.keep_up(&trials, false, buckets, now, calls);
            return None;
        }
        self.note_fallback(&trials, &mut buckets);
        let refusal = Refusal::of(&trials, question.has_unlimited_quota);
        let is_refused = refusal.is_refused() && !self.settings.shadow_mode;
        let is_unavailable = trials.iter().any(|trial| trial.verdict == Verdict::Unavailable);
        if is_unavailable && !is_refused {
            for trial in trials.iter_mut().rev() {
                trial.undo(&mut buckets, now);
            }
            self.keep_up(&trials, false, buckets, now, calls);
            self.counts.unavailable.increment();
            return Some(Err(Unavailable));
        }
        Some(Ok(self.conclude(question, trials, refusal, buckets, now, calls)))
    }

    /// After a request has been decided: borrows ahead, and tells what cannot wait.
    ///
    /// Only a check that passes in a request that `passes` shows that leases are spent. One that is refused must not borrow,
    /// even if nobody minds: the answer would be that nothing is free, and what is known of the refusal would be forgotten.
    pub(super) fn keep_up(
        &self,
        trials: &Trials<'_>,
        passes: bool,
        mut buckets: Locked<'_>,
        now: Now,
        calls: &mut Vec<Call>,
    ) {
        for trial in trials.iter().filter(|trial| trial.wants_upkeep) {
            if let Some(slot) = buckets.get(trial.check.key) {
                calls.extend(slot.serve(&self.terms, now));
                if passes && !trial.refuses() {
                    calls.extend(slot.renew(&self.terms, now));
                }
                calls.extend(slot.tell_unused(&self.terms, now));
            }
        }
        self.let_go(&mut buckets, now, calls);
    }
}

/// Tells a request that an overdraft has been charged. The request, if it can be decided now.
fn tell_debtor(call: &Call, answer: &Result<Reply, StoreError>) -> Option<Arc<WaitingRequest>> {
    let Purpose::Debit { seat: Some(Seat { request, check }) } = &call.purpose else { return None };
    let outcome = match answer {
        Ok(reply) => Outcome::Told { passes: reply.granted },
        Err(error) => Outcome::Failed { may_have_run: !error.nothing_ran() },
    };
    matches!(request.resolve(*check, outcome), Ok(Progress::Complete)).then(|| Arc::clone(request))
}

/// The bucket has been forgotten here: what a late answer brings is of no use.
fn give_everything_back(call: &Call, reply: &Reply, now: Now) -> Option<Call> {
    let Operation::Acquire { needed, .. } = call.request.operation else { return None };
    let mut facts = Facts::default();
    if reply.extra > 0 {
        facts.leased.push(LeaseFact { epoch: reply.epoch, spent: 0, returned: reply.extra });
    }
    if reply.granted && needed > 0 {
        facts.unused.push(UnusedFact { epoch: reply.epoch, hits: needed, mark: reply.mark });
    }
    let operation = Operation::Acquire { needed: 0, want: 0, facts: facts.clone() };
    (!facts.is_empty()).then(|| Call {
        request: StoreCall { operation, ..call.request.clone() },
        key: call.key,
        purpose: Purpose::Unattended,
        sent: now.monotonic,
    })
}

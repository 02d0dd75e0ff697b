//! What a slot with a borrower does: it asks the store, takes in the answers, and serves those who wait.

use std::collections::VecDeque;
use std::sync::Arc;

use super::borrower::{Borrower, Call, Plan, Purpose, Waiter};
use super::lease::{Portion, Portions, hits_in, scaled};
use super::table::{Record, Slot};
use super::terms::Terms;
use super::waiting::{Outcome, Progress, Seat, WaitingRequest};
use crate::limit::{Algorithm, Bucket, Hits, Limit, Now, TOKEN};
use crate::store::{Operation, RETRY_FLOOR, Reply, StoreCall, StoreError, lease_pace};

/// News of so many hits are worth a call: an eighth of a replica's share of the burst. Others wait for the next one.
fn worth_telling(limit: &Limit, replicas: u64) -> u64 {
    u64::from(limit.capacity()).div_ceil(8 * replicas)
}

/// So many hits are worth a call that returns them. What is not returned in time is lost, and a slow limit takes long to
/// yield as much again; so it is no more than an eighth of a replica's share of what flows back while a lease is idle.
fn worth_returning(limit: &Limit, replicas: u64) -> u64 {
    let flows_back = u64::from(limit.amount()).saturating_mul(lease_pace(limit).0) / limit.period().0;
    worth_telling(limit, replicas).min(flows_back.div_ceil(8 * replicas)).max(1)
}

/// Requests that can be decided are put into `decided`.
impl Slot {
    /// Asks the store for those who wait, unless it has been asked.
    pub(super) fn serve(&mut self, terms: &Terms, now: Now) -> Option<Call> {
        self.call_if(Plan::Serve, terms, now, |borrower| !borrower.queue.is_empty())
    }

    /// Borrows ahead of need, unless a call is under way.
    pub(super) fn renew(&mut self, terms: &Terms, now: Now) -> Option<Call> {
        let time = now.monotonic;
        self.call_if(Plan::Renew, terms, now, |it| time >= it.renew_after && it.leases.should_renew(time))
    }

    /// Tells of hits that were granted and not spent: others may have them. Waits for a call that is under way.
    pub(super) fn tell_unused(&mut self, terms: &Terms, now: Now) -> Option<Call> {
        self.call_if(Plan::Tell, terms, now, |it| it.leases.has_unused())
    }

    /// Borrows ahead for a limit whose requests do not wait for leases.
    pub(super) fn borrow_ahead(&mut self, terms: &Terms, now: Now) -> Option<Call> {
        let time = now.monotonic;
        let free = self.borrower.as_ref().map_or(0, |borrower| self.record.free(borrower.leases.limit(), now));
        self.call_if(Plan::Renew, terms, now, |it| time >= it.renew_after && !it.leases.knows_refusal(1, free, time))
    }

    /// Returns what would be lost, and tells what is worth a call. Whether it is to be looked after again.
    pub(super) fn look_after(&mut self, terms: &Terms, now: Now) -> (Option<Call>, bool) {
        let time = now.monotonic;
        let until_full = self.record.until_full(now);
        let call = self.call_if(Plan::Tell, terms, now, |it| {
            it.leases.return_idle(time);
            let (limit, replicas) = (it.leases.limit(), u64::from(terms.replicas()));
            // What is lost of a bucket that is full before the lease ends is not missed.
            let is_missed = until_full > lease_pace(limit);
            is_missed && it.leases.returned() >= worth_returning(limit, replicas)
                || it.leases.news() >= worth_telling(limit, replicas)
                || it.leases.has_unused()
        });
        if let (None, Some(borrower)) = (&call, &mut self.borrower) {
            borrower.leases.forget_what_is_over(time);
        }
        let is_over = self.borrower.as_mut().is_none_or(|borrower| borrower.leases.is_empty(time));
        (call, !is_over)
    }

    /// Returns everything that is not spent, and tells what is.
    pub(super) fn return_all(&mut self, terms: &Terms, now: Now) -> Option<Call> {
        self.call_if(Plan::Tell, terms, now, |it| {
            it.leases.return_all(now.monotonic);
            it.leases.news() > 0 || it.leases.has_unused()
        })
    }

    fn call_if(
        &mut self,
        plan: Plan,
        terms: &Terms,
        now: Now,
        is_wanted: impl FnOnce(&mut Borrower) -> bool,
    ) -> Option<Call> {
        let key = self.key();
        let borrower = self.borrower.as_mut()?;
        let may_borrow = plan != Plan::Renew || !terms.is_ending();
        (may_borrow && borrower.call.is_none() && is_wanted(borrower)).then(|| {
            // Before more is asked for.
            let debt = if plan == Plan::Tell { None } else { borrower.repay(key, false, terms, now) };
            debt.unwrap_or_else(|| borrower.acquire(key, &mut self.record, plan, terms, now))
        })
    }

    /// Tells what was spent while the store could not be asked, unless a call is under way. Whether there is more to tell.
    pub(super) fn repay(&mut self, in_background: bool, terms: &Terms, now: Now) -> (Option<Call>, bool) {
        let key = self.key();
        let Some(borrower) = &mut self.borrower else { return (None, false) };
        let call = if borrower.call.is_none() { borrower.repay(key, in_background, terms, now) } else { None };
        let owes = borrower.fallback.as_ref().is_some_and(|fallback| fallback.is_owing(terms, now));
        borrower.is_among_debtors = owes;
        (call, owes)
    }

    /// Takes hits even if they are not free.
    pub(super) fn debit(&self, limit: &Limit, hits: u64, seat: Option<Seat>, now: Now) -> Option<Call> {
        let hits = hits.min(2 * u64::from(limit.capacity()));
        let call = self.special(limit, Operation::Debit { hits }, Purpose::Debit { seat }, now);
        call.filter(|_| hits > 0)
    }

    /// Gives back hits that were spent.
    pub(super) fn refund(&mut self, limit: &Limit, hits: u64, now: Now) -> Option<Call> {
        let hits = hits.min(2 * u64::from(limit.capacity()));
        self.record.give_back(limit, hits, now);
        if let Some(borrower) = &mut self.borrower {
            borrower.leases.forget_refusals();
        }
        self.special(limit, Operation::Refund { hits }, Purpose::Unattended, now).filter(|_| hits > 0)
    }

    fn special(&self, limit: &Limit, operation: Operation, purpose: Purpose, now: Now) -> Option<Call> {
        let call = self.borrower.as_ref()?.call_for(self.key(), operation, purpose, now.monotonic);
        Some(Call { request: StoreCall { limit: *limit, ..call.request }, ..call })
    }

    /// A call has been answered or has taken too long: another may be made.
    pub(super) fn end_call(&mut self, call: &Call) {
        if let (Some(borrower), Purpose::Acquire { id, .. } | Purpose::Repay { id, .. }) =
            (&mut self.borrower, &call.purpose)
            && borrower.call == Some(*id)
        {
            borrower.call = None;
        }
    }

    /// Takes in what the store has answered to a call.
    pub(super) fn receive(
        &mut self,
        call: &Call,
        reply: &Reply,
        terms: &Terms,
        now: Now,
        decided: &mut Vec<Arc<WaitingRequest>>,
    ) {
        self.end_call(call);
        let Some(borrower) = &mut self.borrower else { return };
        borrower.heard_at = Some(now.monotonic);
        borrower.has_repaid(call, false);
        borrower.end_fallback(terms, now);
        let limit = &call.request.limit;
        if let (Purpose::Acquire { head, .. }, Operation::Acquire { needed, .. }) =
            (&call.purpose, &call.request.operation)
        {
            borrower.leases.receive(reply, limit, call.sent, terms.pace(), now.monotonic);
            if reply.granted && *needed > 0 {
                borrower.grant(head.as_ref(), *needed, reply, now, decided);
            }
        }
        if limit == borrower.leases.limit() {
            let unit = match limit.algorithm() {
                Algorithm::TokenBucket => TOKEN,
                Algorithm::FixedWindow => 1,
            };
            let not_spent = borrower.leases.not_to_be_spent().saturating_mul(unit);
            let bucket = Bucket::known(limit, reply.used.saturating_sub(not_spent), reply.lease_time, now);
            self.record = Record::new(limit, bucket, now).in_place_of(self.record);
        }
        self.answer(true, now, decided);
        if !reply.granted
            && let Purpose::Acquire { head: Some(head), .. } = &call.purpose
        {
            self.refuse(head, now, decided);
        }
    }

    /// The store has refused what this check needed. If it still waits, nothing that is known here lets it pass, and
    /// another limit may count for the bucket by now.
    fn refuse(&mut self, head: &Seat, now: Now, decided: &mut Vec<Arc<WaitingRequest>>) {
        let Some(borrower) = &mut self.borrower else { return };
        if let Some(position) = borrower.queue.iter().position(|waiter| waiter.seat == *head)
            && let Some(waiter) = borrower.queue.remove(position)
        {
            self.resolve(waiter, |_| Outcome::Refused, now, decided);
        }
    }

    /// A call has failed.
    pub(super) fn miss(
        &mut self,
        call: &Call,
        error: &StoreError,
        terms: &Terms,
        now: Now,
        decided: &mut Vec<Arc<WaitingRequest>>,
    ) {
        self.end_call(call);
        let Some(borrower) = &mut self.borrower else { return };
        if let Operation::Acquire { facts, .. } = &call.request.operation
            && error.nothing_ran()
        {
            borrower.leases.take_facts_back(facts, now.monotonic);
        }
        borrower.has_repaid(call, error.nothing_ran());
        borrower.renew_after = now.monotonic + scaled(RETRY_FLOOR, 1.0 + terms.random());
        if !error.is_transient() {
            for waiter in std::mem::take(&mut borrower.queue) {
                self.resolve(waiter, |_| Outcome::FAILED, now, decided);
            }
        }
        self.answer(false, now, decided);
    }

    /// Answers those who wait by what is held and known now. `has_heard` from the store a moment ago.
    ///
    /// Who then waits behind others that need all that is free is refused. The store grants but a part of what is free,
    /// so without this a queue that grows faster than it is served would find that some is, each time, and grow on.
    pub(super) fn answer(&mut self, has_heard: bool, now: Now, decided: &mut Vec<Arc<WaitingRequest>>) {
        let time = now.monotonic;
        let Some(borrower) = &mut self.borrower else { return };
        let (mut left, mut needed_before) = (VecDeque::new(), 0_u64);
        let waiting = std::mem::take(&mut borrower.queue);
        for mut waiter in waiting {
            let Some(borrower) = &mut self.borrower else { return };
            let is_same_limit = waiter.limit == *borrower.leases.limit();
            let missing = waiter.missing();
            let free = self.record.free(&waiter.limit, now);
            if time >= waiter.seat.request.deadline {
                self.resolve(waiter, |_| Outcome::FAILED, now, decided);
            } else if waiter.hits == Hits::Look && has_heard {
                self.resolve(waiter, |_| Outcome::Told { passes: free > 0 }, now, decided);
            } else if is_same_limit && left.is_empty() && missing <= borrower.leases.held(time) {
                let portions = borrower.leases.set_aside(missing, time);
                self.record.charge(&waiter.limit, missing, now);
                waiter.aside.extend(portions);
                self.resolve(waiter, |aside| Outcome::Passes { aside, grant: None }, now, decided);
            } else if is_same_limit
                && missing > borrower.leases.held(time)
                && borrower.leases.knows_refusal(missing, free, time)
            {
                self.resolve(waiter, |_| Outcome::Refused, now, decided);
            } else if is_same_limit && has_heard && needed_before > 0 && needed_before + missing > free {
                self.resolve(waiter, |_| Outcome::Refused, now, decided);
            } else {
                if is_same_limit && waiter.hits != Hits::Look {
                    needed_before += missing;
                }
                left.push_back(waiter);
            }
        }
        if let Some(borrower) = &mut self.borrower {
            borrower.queue = left;
        }
    }

    /// Tells a request what has become of one of its checks. What was set aside for it goes back if that does not keep it.
    fn resolve(
        &mut self,
        mut waiter: Waiter,
        outcome: impl FnOnce(Portions) -> Outcome,
        now: Now,
        decided: &mut Vec<Arc<WaitingRequest>>,
    ) {
        let aside = std::mem::take(&mut waiter.aside);
        let outcome = outcome(aside.clone());
        let keeps = matches!(outcome, Outcome::Passes { .. });
        let refuses = waiter.is_enforced && matches!(outcome, Outcome::Refused);
        let resolved = waiter.seat.request.resolve(waiter.seat.check, outcome);
        if !keeps || resolved.is_err() {
            self.put_back(&waiter.limit, &aside, now);
        }
        if resolved.is_ok_and(|progress| refuses || progress == Progress::Complete) {
            decided.push(waiter.seat.request);
        }
    }

    /// Hits that were set aside are held again.
    pub(super) fn put_back(&mut self, limit: &Limit, aside: &[Portion], now: Now) {
        if let Some(borrower) = &mut self.borrower {
            borrower.leases.put_back(aside, now.monotonic);
            self.record.give_back(limit, hits_in(aside), now);
        }
    }

    /// A check waits no longer, because its request is decided.
    pub(super) fn leave_queue(&mut self, seat: &Seat, now: Now) {
        let Some(borrower) = &mut self.borrower else { return };
        if let Some(position) = borrower.queue.iter().position(|waiter| waiter.seat == *seat)
            && let Some(waiter) = borrower.queue.remove(position)
        {
            self.put_back(&waiter.limit, &waiter.aside, now);
        }
    }
}

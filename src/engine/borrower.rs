use std::collections::VecDeque;
use std::sync::Arc;

use super::key::BucketKey;
use super::lease::{Grant, Leases, Portion, Portions, hits_in, scaled};
use super::state::LeaseState;
use super::table::{Record, Slot};
use super::terms::Terms;
use super::waiting::{Outcome, Progress, Seat, WaitingRequest};
use crate::limit::{Algorithm, Bucket, Hits, Limit, Micros, Now, TOKEN};
use crate::store::{Operation, RETRY_FLOOR, Reply, StoreCall, StoreError, lease_pace};

/// Who borrows hits of one bucket from the store: what it holds, who waits for more, and whether it has asked.
#[derive(Debug)]
pub(super) struct Borrower {
    /// The bucket's name in the store.
    pub(super) name: Arc<str>,
    pub(super) leases: Leases,
    /// In the order in which they came.
    pub(super) queue: VecDeque<Waiter>,
    /// The call that is under way. Another is made when it has ended, or has taken too long.
    call: Option<u64>,
    /// When it last heard from the store.
    heard_at: Option<Micros>,
    /// A call has failed; nothing is borrowed ahead of need until then.
    renew_after: Micros,
    /// Whether it is going to be looked after.
    pub(super) is_on_agenda: bool,
    /// Stands in for the store's bucket while that cannot be asked.
    pub(super) fallback: Option<Record>,
}

/// A check that waits for what the store says.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) seat: Seat,
    pub(super) limit: Limit,
    /// To take, or to look.
    pub(super) hits: Hits,
    /// Whether its refusal refuses the request.
    pub(super) is_enforced: bool,
    /// What has been set aside for it.
    pub(super) aside: Portions,
}

/// A call to the store, and who wants to know.
#[derive(Debug)]
pub struct Call {
    pub request: StoreCall,
    pub(super) key: BucketKey,
    pub(super) purpose: Purpose,
    pub(super) sent: Micros,
}

#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// Its number, and who is granted what is needed.
    Acquire {
        id: u64,
        head: Option<Seat>,
    },
    Debit {
        seat: Option<Seat>,
    },
    /// Nobody waits for its answer.
    Unattended,
}

impl Borrower {
    pub(super) fn new(name: Arc<str>, limit: Limit) -> Self {
        Self {
            name,
            leases: Leases::new(limit),
            queue: VecDeque::new(),
            call: None,
            heard_at: None,
            renew_after: Micros(0),
            is_on_agenda: false,
            fallback: None,
        }
    }

    /// Whether what is known of the bucket is as good as another answer of the store.
    pub(super) fn has_just_heard(&self, now: Micros) -> bool {
        self.heard_at.is_some_and(|heard| now < heard + RETRY_FLOOR)
    }

    /// Whether the store is being asked, or has to be.
    pub(super) fn is_busy(&self) -> bool {
        self.call.is_some() || !self.queue.is_empty()
    }

    pub(super) fn state(&mut self, now: Micros) -> LeaseState {
        LeaseState {
            held: self.leases.held(now),
            not_told: self.leases.news(),
            waiting: self.queue.len(),
            denied_for_ms: (self.leases.denied_until() - now).0.div_ceil(1_000),
        }
    }

    /// Whether it may be forgotten: it holds nothing, and nobody has asked for a while.
    pub(super) fn is_idle(&mut self, touched: Micros, now: Now) -> bool {
        let (pace, time) = (lease_pace(self.leases.limit()), now.monotonic);
        let is_forgotten = self.fallback.is_none_or(|fallback| fallback.until_full(now) == Micros(0));
        is_forgotten && !self.is_busy() && time >= touched + pace + pace && self.leases.is_empty(time)
    }

    /// Calls the store with what it has to be told, for those who wait (`needs`) and for those to come (`wants`).
    fn acquire(&mut self, key: BucketKey, record: &mut Record, plan: Plan, terms: &Terms, now: Now) -> Call {
        let time = now.monotonic;
        let (mut needed, mut head) = (0, None);
        if plan == Plan::Serve
            && let Some(waiter) = self.queue.iter_mut().find(|waiter| matches!(waiter.hits, Hits::Take(_)))
        {
            if waiter.limit != *self.leases.limit() {
                self.leases.change(waiter.limit, time);
            }
            let missing = waiter.missing();
            let portions = self.leases.set_aside(missing, time);
            record.charge(&waiter.limit, hits_in(&portions), now);
            waiter.aside.extend(portions);
            needed = waiter.missing();
            head = Some(waiter.seat.clone());
        }
        let want = if (head.is_some() || plan == Plan::Renew) && !terms.is_ending() {
            let largest = self.queue.iter().map(|waiter| waiter.hits.needed()).max().unwrap_or(1);
            self.leases.want(largest, &terms.lease, time).max(self.needed_behind(needed, time))
        } else {
            0
        };
        let id = terms.next_call();
        self.call = Some(id);
        let operation = Operation::Acquire { needed, want, facts: self.leases.facts() };
        self.call_for(key, operation, Purpose::Acquire { id, head }, time)
    }

    /// Hits that those lack who wait behind the first, which lacks `needed`. What was measured says nothing of those who
    /// came all at once, and without this each of them would take a call of his own.
    fn needed_behind(&mut self, needed: u64, now: Micros) -> u64 {
        let limit = *self.leases.limit();
        let takers = self.queue.iter().filter(|waiter| waiter.limit == limit && matches!(waiter.hits, Hits::Take(_)));
        let missing = takers.map(Waiter::missing).fold(0, u64::saturating_add);
        missing.saturating_sub(needed).saturating_sub(self.leases.held(now)).min(u64::from(limit.capacity()))
    }

    fn call_for(&self, key: BucketKey, operation: Operation, purpose: Purpose, sent: Micros) -> Call {
        let request = StoreCall { bucket: Arc::clone(&self.name), limit: *self.leases.limit(), operation };
        Call { request, key, purpose, sent }
    }
}

/// Why the store is asked for hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// For those who wait, and for those to come.
    Serve,
    /// For those to come.
    Renew,
    /// Only to tell.
    Tell,
}

impl Waiter {
    /// Hits that it still needs.
    fn missing(&self) -> u64 {
        self.hits.needed() - hits_in(&self.aside)
    }
}

impl Record {
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

/// What a slot with a borrower does. Requests that are decided by it are put into `decided`.
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
        (may_borrow && borrower.call.is_none() && is_wanted(borrower))
            .then(|| borrower.acquire(key, &mut self.record, plan, terms, now))
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
        if let (Some(borrower), Purpose::Acquire { id, .. }) = (&mut self.borrower, &call.purpose)
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
        borrower.renew_after = now.monotonic + scaled(RETRY_FLOOR, 1.0 + terms.random());
        if !error.is_transient() {
            for waiter in std::mem::take(&mut borrower.queue) {
                self.resolve(waiter, |_| Outcome::Failed, now, decided);
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
                self.resolve(waiter, |_| Outcome::Failed, now, decided);
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

impl Borrower {
    /// Gives the first who waited what it needed; if it waits no more, nobody will spend that.
    fn grant(
        &mut self,
        head: Option<&Seat>,
        needed: u64,
        reply: &Reply,
        now: Now,
        decided: &mut Vec<Arc<WaitingRequest>>,
    ) {
        let grant = Grant { epoch: reply.epoch, hits: needed, mark: reply.mark };
        let position = self.queue.iter().position(|waiter| Some(&waiter.seat) == head);
        let in_time = |waiter: &Waiter| now.monotonic < waiter.seat.request.deadline;
        let Some(position) = position.filter(|position| in_time(&self.queue[*position])) else {
            self.leases.leave_unused(grant);
            return;
        };
        let Some(waiter) = self.queue.remove(position) else { return };
        let passes = Outcome::Passes { aside: waiter.aside, grant: Some(grant) };
        match waiter.seat.request.resolve(waiter.seat.check, passes) {
            Ok(Progress::Complete) => decided.push(waiter.seat.request),
            Err(Outcome::Passes { aside, .. }) => {
                self.leases.put_back(&aside, now.monotonic);
                self.leases.leave_unused(grant);
            }
            Ok(Progress::Waits) | Err(_) => {}
        }
    }
}

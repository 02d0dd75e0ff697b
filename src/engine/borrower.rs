use std::collections::VecDeque;
use std::sync::Arc;

use super::fallback::Fallback;
use super::key::BucketKey;
use super::lease::{Grant, Leases, Portions, hits_in};
use super::state::LeaseState;
use super::table::Record;
use super::terms::Terms;
use super::waiting::{Outcome, Progress, Seat, WaitingRequest};
use crate::cause::Cause;
use crate::limit::{Hits, Limit, Micros, Now};
use crate::store::{Operation, RETRY_FLOOR, Reply, StoreCall, lease_pace};

/// Who borrows hits of one bucket from the store: what it holds, who waits for more, and whether it has asked.
#[derive(Debug)]
pub(super) struct Borrower {
    /// The bucket's name in the store.
    pub(super) name: Arc<str>,
    pub(super) leases: Leases,
    /// In the order in which they came.
    pub(super) queue: VecDeque<Waiter>,
    /// The call that is under way. Another is made when it has ended, or has taken too long.
    pub(super) call: Option<u64>,
    /// When it last heard from the store.
    pub(super) heard_at: Option<Micros>,
    /// A call has failed; nothing is borrowed ahead of need until then.
    pub(super) renew_after: Micros,
    /// Whether it is going to be looked after.
    pub(super) is_on_agenda: bool,
    /// Stands in for the store's bucket while that cannot be asked, and until that is told.
    pub(super) fallback: Option<Box<Fallback>>,
    /// Whether it is among those that the store is going to be told of.
    pub(super) is_among_debtors: bool,
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

impl Call {
    /// Whether a request waits for the answer.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.seat().is_some()
    }

    /// The request that waits for the answer, if one does and is traced.
    #[must_use]
    pub fn traced_waiter(&self) -> Option<&Cause> {
        self.seat()?.request.cause.get()
    }

    fn seat(&self) -> Option<&Seat> {
        match &self.purpose {
            Purpose::Acquire { head: seat, .. } | Purpose::Debit { seat } => seat.as_ref(),
            Purpose::Repay { .. } | Purpose::Unattended => None,
        }
    }
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
    /// Tells of what a fallback bucket has spent. Its number, and whether it is made without anybody asking for the bucket.
    Repay {
        id: u64,
        in_background: bool,
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
            is_among_debtors: false,
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
        let is_forgotten = self.fallback.as_ref().is_none_or(|fallback| fallback.is_full(now));
        is_forgotten && !self.is_busy() && time >= touched + pace + pace && self.leases.is_empty(time)
    }

    /// Tells the store what was spent while it could not be asked, if there is anything.
    pub(super) fn repay(&mut self, key: BucketKey, in_background: bool, terms: &Terms, now: Now) -> Option<Call> {
        let (fallback, id) = (self.fallback.as_mut()?, terms.next_call());
        let hits = fallback.tell(id, terms, now)?;
        let limit = *fallback.limit();
        self.call = Some(id);
        let call = self.call_for(key, Operation::Debit { hits }, Purpose::Repay { id, in_background }, now.monotonic);
        Some(Call { request: StoreCall { limit, ..call.request }, ..call })
    }

    /// A call that perhaps has told what was spent while the store could not be asked has ended.
    pub(super) fn has_repaid(&mut self, call: &Call, nothing_ran: bool) {
        if let (Purpose::Repay { id, .. }, Operation::Debit { hits }) = (&call.purpose, &call.request.operation)
            && let Some(fallback) = &mut self.fallback
        {
            fallback.is_told(*id, *hits, nothing_ran);
        }
    }

    /// Puts another stand-in in the place of the one that is there, if there is one: into the same memory.
    pub(super) fn set_fallback(&mut self, fallback: Option<Fallback>) {
        match (&mut self.fallback, fallback) {
            (Some(held), Some(fallback)) => **held = fallback,
            (held, fallback) => *held = fallback.map(Box::new),
        }
    }

    /// The store answers, and will be asked again: its bucket needs no stand-in, unless that still has something to tell.
    pub(super) fn end_fallback(&mut self, terms: &Terms, now: Now) {
        if self.fallback.as_ref().is_some_and(|fallback| !fallback.is_owing(terms, now)) {
            self.fallback = None;
        }
    }

    /// Calls the store with what it has to be told, for those who wait (`needs`) and for those to come (`wants`).
    pub(super) fn acquire(&mut self, key: BucketKey, record: &mut Record, plan: Plan, terms: &Terms, now: Now) -> Call {
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

    pub(super) fn call_for(&self, key: BucketKey, operation: Operation, purpose: Purpose, sent: Micros) -> Call {
        let request = StoreCall { bucket: Arc::clone(&self.name), limit: *self.leases.limit(), operation };
        Call { request, key, purpose, sent }
    }

    /// Gives the first who waited what it needed; if it waits no more, nobody will spend that.
    pub(super) fn grant(
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

/// Why the store is asked for hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// For those who wait, and for those to come.
    Serve,
    /// For those to come.
    Renew,
    /// Only to tell.
    Tell,
}

impl Waiter {
    /// Hits that it still needs.
    pub(super) fn missing(&self) -> u64 {
        self.hits.needed() - hits_in(&self.aside)
    }
}

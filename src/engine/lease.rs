//! A replica's side of one bucket in the store: what it has borrowed, what it has to tell, and what it knows. Pure.

use smallvec::SmallVec;

use crate::limit::{Algorithm, Limit, Micros, TOKEN};
use crate::store::{Facts, LeaseFact, RETRY_FLOOR, Reply, UnusedFact, lease_pace};

/// A lease is spent for 97 % of its time: a replica's clock may run a little slower than the store's.
const GUARD_PERCENT: u64 = 97;

/// Consumption is measured over at least this part of the horizon, so that two quick requests are no trend.
const LEAST_MEASURED: u64 = 4;

/// Smaller leases are not renewed ahead of need: there would be a call for each hit.
const LEAST_RENEWED: u64 = 2;

/// A refusal of the store is believed for so long at most, whatever it said.
const LONGEST_DENIAL: Micros = Micros::from_seconds(1);

/// With more replicas than this, each waits longer before it asks an empty bucket again.
const REPLICAS_PER_FLOOR: f64 = 8.0;

/// So many unused grants are remembered. Those that are forgotten count as spent, which is safe.
const MOST_UNUSED: usize = 64;

/// How leases are sized and renewed.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSettings {
    /// The longest time for which hits are borrowed ahead. Longer means fewer calls, and more hits that other replicas
    /// must do without until they are returned.
    pub horizon: Micros,
    /// A lease is renewed in the background when this part of it is left, in percent, 1 to 99. More means fewer
    /// requests that wait, and more calls.
    pub renew_at_percent: u8,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self { horizon: Micros::from_seconds(60), renew_at_percent: 25 }
    }
}

/// Hits that were granted in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Portion {
    epoch: u64,
    hits: u64,
}

/// Hits that have been taken out of leases for one request.
pub(super) type Portions = SmallVec<[Portion; 2]>;

/// How many hits these are.
pub(super) fn hits_in(portions: &[Portion]) -> u64 {
    portions.iter().map(|portion| portion.hits).sum()
}

/// Hits granted to one waiting request, besides what was taken out of leases for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) epoch: u64,
    pub(super) hits: u64,
    pub(super) mark: u64,
}

/// Hits borrowed in one epoch.
#[derive(Clone, Copy, Debug)]
struct Lease {
    epoch: u64,
    /// Hits that may still be spent.
    balance: u64,
    /// Hits that were spent, and of which the store has not been told.
    spent: u64,
    until: Micros,
    /// From when on what is left is returned, so that it is not lost when the lease ends.
    return_from: Micros,
}

/// What a replica holds of one bucket. All times are the replica's monotonic ones.
#[derive(Debug)]
pub(super) struct Leases {
    /// The limit under which they were borrowed.
    limit: Limit,
    /// At most two, the oldest first.
    held: SmallVec<[Lease; 2]>,
    /// Hits that go back with the next call; at most of two epochs, the oldest first.
    returned: Portions,
    unused: Vec<UnusedFact>,
    /// Hits that requests have asked for since the last call that wanted a lease.
    consumed: u64,
    /// When that call was sent.
    called_at: Option<Micros>,
    /// The lease that was aimed at then.
    size: u64,
    /// A lease below this is renewed.
    renew_below: u64,
    /// Until when what the store refused is refused here.
    denied_until: Micros,
    /// Until when everything that is not held is refused: the last grant emptied the bucket.
    ask_after: Micros,
    totals: LeaseTotals,
}

/// How many borrowed hits were granted, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseTotals {
    pub(super) granted: u64,
    pub(super) spent: u64,
    /// Neither spent nor returned. What was returned is known when the store has answered.
    pub(super) expired: u64,
}

/// What the time between two calls depends on, besides the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Replicas that share the bucket, at least 1.
    pub(super) replicas: u32,
    /// From 0 to 1, so that replicas do not move together.
    pub(super) random: f64,
}

impl Leases {
    pub(super) fn new(limit: Limit) -> Self {
        Self {
            limit,
            held: SmallVec::new(),
            returned: Portions::new(),
            unused: Vec::new(),
            consumed: 0,
            called_at: None,
            size: 0,
            renew_below: 0,
            denied_until: Micros(0),
            ask_after: Micros(0),
            totals: LeaseTotals::default(),
        }
    }

    /// What has happened since this was last asked.
    pub(super) fn take_totals(&mut self) -> LeaseTotals {
        std::mem::take(&mut self.totals)
    }

    pub(super) const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Hits that may be spent.
    pub(super) fn held(&mut self, now: Micros) -> u64 {
        if self.held.iter().any(|lease| lease.until <= now) {
            let totals = &mut self.totals;
            self.held.retain(|lease| {
                let is_held = lease.until > now;
                totals.expired += if is_held { 0 } else { lease.balance };
                is_held
            });
        }
        self.balance()
    }

    /// The same, if no lease has ended since that was last looked at.
    fn balance(&self) -> u64 {
        self.held.iter().map(|lease| lease.balance).sum()
    }

    /// Spends all these hits, or none.
    #[inline]
    pub(super) fn spend(&mut self, hits: u64, now: Micros) -> Option<Portions> {
        if let Some(oldest) = self.held.first_mut()
            && oldest.until > now
            && oldest.balance >= hits
        {
            oldest.balance -= hits;
            oldest.spent += hits;
            self.totals.spent += hits;
            return Some(SmallVec::from_buf_and_len([Portion { epoch: oldest.epoch, hits }; 2], 1));
        }
        (self.held(now) >= hits).then(|| {
            let portions = self.set_aside(hits, now);
            self.spend_aside(&portions);
            portions
        })
    }

    /// Sets so many hits aside for a request, or as many as there are; the oldest first. They are neither held nor spent
    /// until the request is decided.
    pub(super) fn set_aside(&mut self, hits: u64, now: Micros) -> Portions {
        let mut missing = hits.min(self.held(now));
        let mut portions = Portions::new();
        for lease in &mut self.held {
            let hits = missing.min(lease.balance);
            if hits > 0 {
                lease.balance -= hits;
                missing -= hits;
                portions.push(Portion { epoch: lease.epoch, hits });
            }
        }
        portions
    }

    /// The request for which these were set aside has passed.
    pub(super) fn spend_aside(&mut self, portions: &[Portion]) {
        for portion in portions {
            if let Some(lease) = self.lease(portion.epoch) {
                lease.spent += portion.hits;
            }
            self.totals.spent += portion.hits;
        }
    }

    /// These were spent a moment ago, and the request is not decided after all.
    pub(super) fn unspend_aside(&mut self, portions: &[Portion]) {
        for portion in portions {
            if let Some(lease) = self.lease(portion.epoch) {
                debug_assert!(lease.spent >= portion.hits, "nobody has told the store in between");
                lease.spent = lease.spent.saturating_sub(portion.hits);
            }
            self.totals.spent = self.totals.spent.saturating_sub(portion.hits);
        }
    }

    /// The request for which these were set aside does not need them.
    pub(super) fn put_back(&mut self, portions: &[Portion], now: Micros) {
        self.held(now);
        for portion in portions {
            match self.lease(portion.epoch) {
                Some(lease) => lease.balance += portion.hits,
                None => self.give_up(*portion),
            }
        }
    }

    fn lease(&mut self, epoch: u64) -> Option<&mut Lease> {
        self.held.iter_mut().find(|lease| lease.epoch == epoch)
    }

    /// The request that was granted these does not need them.
    pub(super) fn leave_unused(&mut self, grant: Grant) {
        let Grant { epoch, hits, mark } = grant;
        if self.unused.len() == MOST_UNUSED {
            self.unused.remove(0);
        }
        self.unused.push(UnusedFact { epoch, hits, mark });
    }

    /// Takes note of what requests ask for, which decides how much is borrowed.
    #[inline]
    pub(super) const fn consume(&mut self, hits: u64) {
        self.consumed = self.consumed.saturating_add(hits);
    }

    /// They have not asked after all.
    pub(super) const fn unconsume(&mut self, hits: u64) {
        self.consumed = self.consumed.saturating_sub(hits);
    }

    /// Whether the store need not be asked for hits that are not held. `free` hits can be expected to be free, here and
    /// in the store together.
    pub(super) fn knows_refusal(&self, hits: u64, free: u64, now: Micros) -> bool {
        now < self.ask_after || (now < self.denied_until && hits > free)
    }

    /// Whether so little is held that more should be borrowed before it is needed.
    #[inline]
    pub(super) fn should_renew(&mut self, now: Micros) -> bool {
        self.balance() < self.renew_below && now >= self.ask_after && self.held(now) < self.renew_below
    }

    /// How many hits to borrow now: what would be consumed in the time to come, as measured since the last call, less
    /// what is held. `largest` is the largest cost of a request that waits, at least 1.
    pub(super) fn want(&mut self, largest: u64, settings: &LeaseSettings, now: Micros) -> u64 {
        let limit = &self.limit;
        let horizon = lease_pace(limit).min(Micros(limit.time_to_full().0 / 2)).min(settings.horizon).0;
        let size = self.called_at.map_or(0, |last| {
            let measured = (now - last).0.max(1_000).max(horizon / LEAST_MEASURED);
            let expected = u128::from(self.consumed) * u128::from(horizon) / u128::from(measured);
            u64::try_from(expected).unwrap_or(u64::MAX).min(self.size.max(largest).saturating_mul(2))
        });
        (self.consumed, self.called_at, self.size) = (0, Some(now), size);
        self.renew_below = match size {
            LEAST_RENEWED.. => size.saturating_mul(settings.renew_at_percent.into()).div_ceil(100),
            _ => 0,
        };
        size.saturating_sub(self.held(now))
    }

    /// What the store has not been told. It counts as told from now on: should the call be lost, too much counts as
    /// borrowed until the epoch has ended.
    pub(super) fn facts(&mut self) -> Facts {
        let mut facts = Facts::default();
        // Of a fixed window's leases the store does not ask what was spent.
        if self.limit.algorithm() == Algorithm::TokenBucket {
            for lease in self.held.iter_mut().filter(|lease| lease.spent > 0) {
                facts.leased.push(LeaseFact { epoch: lease.epoch, spent: lease.spent, returned: 0 });
                lease.spent = 0;
            }
        }
        for Portion { epoch, hits } in self.returned.drain(..) {
            match facts.leased.iter_mut().find(|fact| fact.epoch == epoch) {
                Some(fact) => fact.returned = hits,
                None => facts.leased.push(LeaseFact { epoch, spent: 0, returned: hits }),
            }
        }
        facts.unused.extend(self.unused.drain(..self.unused.len().min(Facts::MOST_UNUSED)));
        facts
    }

    /// The call with these facts was certainly not made.
    pub(super) fn take_facts_back(&mut self, facts: &Facts, now: Micros) {
        self.held(now);
        for fact in &facts.leased {
            if let Some(lease) = self.lease(fact.epoch) {
                lease.spent += fact.spent;
            }
            self.give_up(Portion { epoch: fact.epoch, hits: fact.returned });
        }
        for UnusedFact { epoch, hits, mark } in facts.unused.iter().copied() {
            self.leave_unused(Grant { epoch, hits, mark });
        }
    }

    /// Takes in what the store granted under `limit` to a call that was sent at `sent`, and what that says of the time
    /// to come.
    pub(super) fn receive(&mut self, reply: &Reply, limit: &Limit, sent: Micros, pace: Pace, now: Micros) {
        if *limit != self.limit {
            self.totals.granted += reply.extra;
            self.give_up(Portion { epoch: reply.epoch, hits: reply.extra });
            return;
        }
        self.add(reply, sent, now);
        let floor = retry_floor(limit, pace.replicas);
        let pause = scaled(floor, 0.75 + pace.random / 2.0);
        self.denied_until = Micros(0);
        if !reply.granted {
            let longest = scaled(LONGEST_DENIAL, 0.75 + pace.random / 4.0);
            self.denied_until = now + longest.min(reply.retry_after.max(pause));
        } else if is_scarce(limit, reply.used, floor) {
            self.ask_after = now + pause;
        }
    }

    fn add(&mut self, reply: &Reply, sent: Micros, now: Micros) {
        let until =
            sent + Micros(reply.lease_time.0 / 100 * GUARD_PERCENT + reply.lease_time.0 % 100 * GUARD_PERCENT / 100);
        self.totals.granted += reply.extra;
        if reply.extra == 0 || until <= now {
            self.totals.expired += reply.extra;
            return;
        }
        let pace = lease_pace(&self.limit).0;
        let return_from = (until - Micros(pace / 2)).min(now + Micros(pace + pace / 2));
        if let Some(lease) = self.lease(reply.epoch) {
            lease.balance += reply.extra;
            // Both are counted from a call to the same end, so the later one comes nearer to it.
            lease.until = lease.until.max(until);
            lease.return_from = return_from;
        } else {
            if self.held.len() == 2 {
                self.totals.expired += self.held.remove(0).balance;
            }
            self.held.push(Lease { epoch: reply.epoch, balance: reply.extra, spent: 0, until, return_from });
        }
    }

    /// Returns with the next call what would otherwise be lost.
    pub(super) fn return_idle(&mut self, now: Micros) {
        self.return_if(now, |lease| lease.return_from <= now);
    }

    /// Returns everything with the next call.
    pub(super) fn return_all(&mut self, now: Micros) {
        self.return_if(now, |_| true);
    }

    fn return_if(&mut self, now: Micros, is_returned: impl Fn(&Lease) -> bool) {
        self.held(now);
        let mut given_up = Portions::new();
        for lease in self.held.iter_mut().filter(|lease| lease.balance > 0 && is_returned(lease)) {
            given_up.push(Portion { epoch: lease.epoch, hits: std::mem::take(&mut lease.balance) });
        }
        given_up.into_iter().for_each(|portion| self.give_up(portion));
    }

    fn give_up(&mut self, portion: Portion) {
        match self.returned.iter_mut().find(|returned| returned.epoch == portion.epoch) {
            Some(returned) => returned.hits += portion.hits,
            None if portion.hits == 0 => {}
            None => {
                if self.returned.len() == 2 {
                    self.totals.expired += self.returned.remove(0).hits;
                }
                self.returned.push(portion);
            }
        }
    }

    /// From now on another limit counts: what was borrowed and what is known belong to the old one.
    pub(super) fn change(&mut self, limit: Limit, now: Micros) {
        self.return_all(now);
        self.forget_refusals();
        self.limit = limit;
    }

    /// What was refused may pass now.
    pub(super) const fn forget_refusals(&mut self) {
        (self.denied_until, self.ask_after) = (Micros(0), Micros(0));
    }

    /// Until when what is not held may be refused without asking the store.
    pub(super) fn denied_until(&self) -> Micros {
        self.denied_until.max(self.ask_after)
    }

    /// Forgets what was too little to be returned, once no lease is held any more: the store's epochs are over by then,
    /// or nearly.
    pub(super) fn forget_what_is_over(&mut self, now: Micros) {
        if self.held(now) == 0 && self.held.is_empty() {
            self.totals.expired += self.returned();
            self.returned.clear();
        }
    }

    /// Whether something waits to be told that cannot wait for the next call.
    pub(super) const fn has_unused(&self) -> bool {
        !self.unused.is_empty()
    }

    /// Hits of which the store has not been told what became of them.
    pub(super) fn news(&self) -> u64 {
        let spent: u64 = match self.limit.algorithm() {
            Algorithm::TokenBucket => self.held.iter().map(|lease| lease.spent).sum(),
            Algorithm::FixedWindow => 0,
        };
        spent + self.returned()
    }

    /// Hits that go back with the next call.
    pub(super) fn returned(&self) -> u64 {
        hits_in(&self.returned)
    }

    /// Hits that count as used in the store, and will not be spent.
    pub(super) fn not_to_be_spent(&self) -> u64 {
        self.balance() + hits_in(&self.returned) + self.unused.iter().map(|unused| unused.hits).sum::<u64>()
    }

    /// Whether there is nothing here that a new one would not have, but for the measured consumption.
    pub(super) fn is_empty(&mut self, now: Micros) -> bool {
        self.held(now);
        self.held.is_empty()
            && self.returned.is_empty()
            && self.unused.is_empty()
            && now >= self.denied_until
            && now >= self.ask_after
    }
}

/// The least time between two questions about an empty bucket: an eighth of the time to full if that is shorter.
fn retry_floor(limit: &Limit, replicas: u32) -> Micros {
    let floor = RETRY_FLOOR.min(Micros(limit.time_to_full().0 / 8));
    scaled(floor, (f64::from(replicas) / REPLICAS_PER_FLOOR).max(1.0))
}

/// Whether less is free than the rate yields in the retry floor.
fn is_scarce(limit: &Limit, used: u64, floor: Micros) -> bool {
    let free = match limit.algorithm() {
        Algorithm::TokenBucket => (u64::from(limit.capacity()) * TOKEN).saturating_sub(used) / TOKEN,
        Algorithm::FixedWindow => u64::from(limit.capacity()).saturating_sub(used),
    };
    u128::from(free) * u128::from(limit.period().0) < u128::from(limit.amount()) * u128::from(floor.0)
}

/// A short time, made longer or shorter.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a short time"
)]
pub(super) fn scaled(time: Micros, factor: f64) -> Micros {
    Micros((time.0 as f64 * factor) as u64)
}

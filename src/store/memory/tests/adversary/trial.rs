use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;

use super::super::NAME;
use super::Store;
use super::admissions::Admissions;
use crate::limit::{Algorithm, Limit, Micros, Unit};
use crate::store::{Facts, LeaseFact, Operation, Reply, StoreCall, UnusedFact, epoch_length};

/// What goes wrong in a trial beside delays and losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// The store's clock goes back.
    pub(super) clock: bool,
    /// Replicas disagree on the limit.
    pub(super) limit: bool,
    /// There are refunds and debits.
    pub(super) special: bool,
}

/// One bucket, and replicas that take from it whatever they can get.
#[derive(Debug)]
pub(super) struct Trial<S> {
    store: S,
    bucket: Arc<str>,
    limits: Vec<Limit>,
    faults: Faults,
    /// Whether replicas ask again until they have all that they want.
    is_greedy: bool,
    random: Rng,
    now: Micros,
    /// By how much the store's clock is behind.
    behind: Micros,
    /// The store's current epoch.
    epoch: u64,
    leases: Vec<Lease>,
    /// Spent and not yet told, by epoch.
    spent: BTreeMap<u64, u64>,
    /// Granted as needed, not spent and not yet told.
    unused: Vec<UnusedFact>,
    in_flight: Vec<(Micros, Call)>,
    admissions: Admissions,
}

#[derive(Debug)]
struct Lease {
    epoch: u64,
    balance: u64,
    until: Micros,
}

#[derive(Debug)]
struct Call {
    limit: Limit,
    needed: u64,
    want: u64,
    facts: Facts,
    /// Whether what is needed is spent when it is granted.
    is_spent: bool,
    /// Whether nobody hears what is lent.
    is_reply_lost: bool,
}

impl<S: Store> Trial<S> {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        let mut random = Rng::with_seed(seed);
        let limits = random_limits(&mut random, faults.limit);
        Self {
            store: S::default(),
            bucket: NAME.into(),
            limits,
            faults,
            is_greedy: random.bool(),
            random,
            now: Micros::from_seconds(1_000_000),
            behind: Micros(0),
            epoch: 0,
            leases: Vec::new(),
            spent: BTreeMap::new(),
            unused: Vec::new(),
            in_flight: Vec::new(),
            admissions: Admissions::default(),
        }
    }

    /// Returns by how many millionths of a token too much was admitted.
    pub(super) fn run(mut self) -> i128 {
        for _ in 0..self.one_of(&[40, 150]) {
            self.pass_time();
            self.deliver_what_is_due();
            if self.faults.clock && self.happens(0.05) {
                let most = self.one_of(&[10_000, 300_000, 1_000_000, 2_200_000, 3_600_000_000]);
                let back = if self.random.bool() { most } else { self.random.u64(..=most) };
                self.behind = self.behind + Micros(back);
            }
            self.act();
        }
        self.take_everything();
        self.admissions.excess(&self.limits)
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.random.f64() < probability
    }

    fn one_of(&mut self, choices: &[u64]) -> u64 {
        choices[self.random.usize(..choices.len())]
    }

    fn any_limit(&mut self) -> Limit {
        self.limits[self.random.usize(..self.limits.len())]
    }

    fn length(&self) -> Micros {
        epoch_length(&self.limits[0])
    }

    /// A random time that is short far more often than long.
    fn about(&mut self, mean: Micros) -> Micros {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most some hundred times the mean"
        )]
        #[expect(clippy::cast_precision_loss, reason = "it is random")]
        let micros = (-(1.0 - self.random.f64()).ln() * mean.0 as f64) as u64;
        Micros(micros)
    }

    fn pass_time(&mut self) {
        let length = self.length();
        let step = match self.random.u32(..100) {
            0..25 => Micros(self.random.u64(..=3 * self.limits[0].tick())),
            25..50 => self.about(Micros(length.0 / 8)),
            50..60 => self.about(length),
            60..70 => self.time_until_an_edge(),
            70..72 => Micros(self.random.u64(length.0..4 * length.0)),
            _ => Micros(0),
        };
        self.now = self.now + step;
        self.forget_leases_that_are_over();
    }

    /// One of the instants around the end of this epoch or the next, unless it has passed.
    fn time_until_an_edge(&mut self) -> Micros {
        let edge = self.epoch + self.length().0 * self.random.u64(1..=2) + self.random.u64(0..=2) - 1;
        Micros(edge) - self.store_time()
    }

    fn store_time(&self) -> Micros {
        self.now - self.behind
    }

    fn forget_leases_that_are_over(&mut self) {
        self.leases.retain(|lease| lease.until > self.now && lease.balance > 0);
    }

    fn act(&mut self) {
        match self.random.u32(..100) {
            0..35 => self.send_a_call(),
            35..70 => self.spend_some(),
            70..80 => self.take_everything(),
            80..85 if self.faults.special => self.refund(),
            85..88 if self.faults.special => self.debit(),
            _ => {}
        }
    }

    fn send_a_call(&mut self) {
        let limit = self.any_limit();
        let burst = u64::from(limit.capacity());
        let call = Call {
            limit,
            needed: self.one_of(&[0, 0, 1, burst / 4, burst]),
            want: self.one_of(&[0, 1, burst / 3, burst]),
            facts: self.facts(),
            is_spent: self.happens(1.0 / 3.0),
            is_reply_lost: self.happens(0.05),
        };
        if self.happens(0.05) {
            // It never arrives.
        } else if self.happens(0.35) {
            let length = self.length();
            let mean = self.one_of(&[length.0 / 20, length.0, 2 * length.0]);
            let arrival = self.now + self.about(Micros(mean));
            self.in_flight.push((arrival, call));
        } else {
            self.deliver(call);
        }
    }

    fn deliver_what_is_due(&mut self) {
        self.in_flight.sort_by_key(|&(arrival, _)| arrival);
        let later = self.in_flight.partition_point(|&(arrival, _)| arrival <= self.now);
        let due: Vec<_> = self.in_flight.drain(..later).collect();
        for (_, call) in due {
            self.deliver(call);
        }
    }

    fn deliver(&mut self, call: Call) {
        let Call { limit, needed, want, facts, is_spent, is_reply_lost } = call;
        let reply = self.serve(limit, Operation::Acquire { needed, want, facts });
        if reply.granted && needed > 0 {
            if is_spent {
                self.admissions.add(self.now, needed);
            } else {
                self.unused.push(UnusedFact { epoch: reply.epoch, hits: needed, mark: reply.mark });
            }
        }
        self.borrow_more(limit, want, reply, is_reply_lost);
    }

    /// Keeps what was lent and, if replicas are greedy, asks for the rest of what they want until there is nothing.
    fn borrow_more(&mut self, limit: Limit, mut want: u64, mut reply: Reply, is_reply_lost: bool) {
        while reply.extra > 0 {
            if !is_reply_lost {
                let until = self.now + reply.lease_time;
                self.leases.push(Lease { epoch: reply.epoch, balance: reply.extra, until });
            }
            want -= reply.extra;
            if want == 0 || !self.is_greedy {
                return;
            }
            reply = self.serve(limit, Operation::Acquire { needed: 0, want, facts: Facts::default() });
        }
    }

    fn serve(&mut self, limit: Limit, operation: Operation) -> Reply {
        let call = StoreCall { bucket: self.bucket.clone(), limit, operation };
        let reply = self.store.serve(&call, self.store_time());
        self.epoch = reply.epoch;
        reply
    }

    /// Some of what may be told. Each is told once, if it is.
    fn facts(&mut self) -> Facts {
        let mut facts = Facts::default();
        for (epoch, spent) in std::mem::take(&mut self.spent) {
            if self.happens(0.6) {
                facts.leased.push(LeaseFact { epoch, spent, returned: 0 });
            } else {
                self.spent.insert(epoch, spent);
            }
        }
        for lease in &mut self.leases {
            if lease.balance > 0 && self.random.f64() < 0.2 {
                let returned = self.random.u64(1..=lease.balance);
                lease.balance -= returned;
                facts.leased.push(LeaseFact { epoch: lease.epoch, spent: 0, returned });
            }
        }
        let random = &mut self.random;
        facts.unused.extend(self.unused.extract_if(.., |_| random.f64() < 0.4));
        facts
    }

    fn spend_some(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let place = self.random.usize(..self.leases.len());
        let hits = self.random.u64(..=self.leases[place].balance);
        self.spend(place, hits);
    }

    fn spend(&mut self, place: usize, hits: u64) {
        let lease = &mut self.leases[place];
        lease.balance -= hits;
        *self.spent.entry(lease.epoch).or_default() += hits;
        self.admissions.add(self.now, hits);
    }

    /// Spends all leases, and then all that is free.
    fn take_everything(&mut self) {
        for place in 0..self.leases.len() {
            self.spend(place, self.leases[place].balance);
        }
        self.forget_leases_that_are_over();
        let limit = self.limits.iter().copied().max_by_key(Limit::capacity).expect("there is a limit");
        let burst = u64::from(limit.capacity()) * 1_000_000;
        let free = burst.saturating_sub(self.used(limit)) / 1_000_000;
        if free > 0 && self.serve(limit, Operation::Acquire { needed: free, want: 0, facts: Facts::default() }).granted
        {
            self.admissions.add(self.now, free);
        }
    }

    fn used(&mut self, limit: Limit) -> u64 {
        self.serve(limit, Operation::Acquire { needed: 0, want: 0, facts: Facts::default() }).used
    }

    fn refund(&mut self) {
        let limit = self.any_limit();
        let hits = self.random.u64(1..=limit.capacity().into());
        let used = self.used(limit);
        let given_back = used - self.serve(limit, Operation::Refund { hits }).used;
        self.admissions.add_millionths(self.now, -i128::from(given_back));
    }

    fn debit(&mut self) {
        let limit = self.any_limit();
        let hits = self.random.u64(1..=limit.capacity().into());
        if self.serve(limit, Operation::Debit { hits }).granted {
            self.admissions.add(self.now, hits);
        }
    }
}

/// One limit, or three of the same bucket.
fn random_limits(random: &mut Rng, is_changing: bool) -> Vec<Limit> {
    let (unit, multiplier) =
        [(Unit::Second, 1), (Unit::Second, 1), (Unit::Second, 10), (Unit::Minute, 1), (Unit::Hour, 1)]
            [random.usize(..5)];
    let scale = if unit == Unit::Hour { [1, 3600, 54_321][random.usize(..3)] } else { 1 };
    let amount = [1, 7, 10, 100, 333][random.usize(..5)] * scale;
    let burst = [1, 5, 10, 50, 100, 300][random.usize(..6)];
    let limit = |amount: u32, burst: u32| {
        Limit::new(amount.max(1), unit, multiplier, Some(burst.max(1)), Algorithm::TokenBucket)
            .expect("a limit that can be computed with")
    };
    let mut limits = vec![limit(amount, burst)];
    if is_changing {
        for _ in 0..2 {
            let amount_tenths = [1, 5, 30][random.usize(..3)];
            let burst_tenths = [1, 5, 10, 30][random.usize(..4)];
            limits.push(limit(amount * amount_tenths / 10, burst * burst_tenths / 10));
        }
    }
    limits
}

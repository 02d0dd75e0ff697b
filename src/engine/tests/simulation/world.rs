//! A store, its replicas, and what happens to them; one event after the other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::ledger::Ledger;
use super::measure::{Central, Record};
use super::network::Way;
use super::plan::{Ask, Event, MILLISECOND, Plan, Report, SECOND};
use super::random::Random;
use super::*;
use crate::limit::{Algorithm, Limit};
use crate::store::memory::MemoryStore;
use crate::store::{Operation, Reply, StoreCall, StoreError};

/// The longest that a request waits for the store.
const TIMEOUT: u64 = 10 * MILLISECOND;

/// As the process does: see `replica.rs`.
const LEASES_EVERY: u64 = 20 * MILLISECOND;
const SWEEP_EVERY: u64 = 100 * MILLISECOND;
const SWEEP_PARTS: usize = 100;

struct Replica {
    engine: Engine,
    limits: Vec<Limit>,
    /// Which of all engines that have lived.
    life: u64,
    paused_until: u64,
    /// Numbers of requests that wait.
    waiting: Vec<u64>,
}

struct Underway {
    replica: usize,
    life: u64,
    call: Call,
}

struct Waits {
    replica: usize,
    ask: Ask,
    came: u64,
    waiting: Waiting,
}

pub(super) struct World {
    plan: Plan,
    random: Random,
    now: u64,
    /// How far the store's clock has gone back in all.
    back: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: BTreeMap<u64, Event>,
    numbers: u64,
    store: MemoryStore,
    fleet: Vec<Replica>,
    calls: BTreeMap<u64, Underway>,
    requests: BTreeMap<u64, Waits>,
    records: Vec<Record>,
    ledger: Ledger,
    central: Central,
    report: Report,
}

impl World {
    pub(super) fn new(plan: Plan, seed: u64) -> Self {
        let report = Report { admitted: 0, passed: 0, requests: 0, calls: 0, waits: 0, excess: f64::MIN };
        let mut world = Self {
            random: Random::new(seed),
            now: 0,
            back: 0,
            events: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            numbers: 0,
            store: MemoryStore::default(),
            fleet: Vec::new(),
            calls: BTreeMap::new(),
            requests: BTreeMap::new(),
            records: plan.limits.iter().map(|limit| Record::new(*limit)).collect(),
            ledger: Ledger::default(),
            central: Central::new(&plan.limits, at(0)),
            report,
            plan,
        };
        for replica in 0..world.plan.replicas {
            let born = world.replica(world.plan.limits.clone());
            world.fleet.push(born);
            let first_look = world.random.up_to(LEASES_EVERY);
            world.happens(first_look, Event::LookAfterLeases { replica });
            let first_sweep = world.random.up_to(SWEEP_EVERY);
            world.happens(first_sweep, Event::Sweep { replica });
            world.next_arrival(replica);
        }
        for (when, replica) in std::mem::take(&mut world.plan.arrivals) {
            world.happens(when, Event::Request { replica, ask: Ask::Take(1) });
        }
        for (when, event) in std::mem::take(&mut world.plan.script) {
            if let Event::Limit { limit, .. } = &event {
                world.records[0].allow(limit);
            }
            world.happens(when, event);
        }
        world
    }

    /// Lets everything happen.
    pub(super) fn run(mut self) -> Report {
        while let Some(Reverse((when, number))) = self.events.pop() {
            if when > self.plan.seconds * SECOND {
                break;
            }
            self.now = when;
            let Some(event) = self.happenings.remove(&number) else { continue };
            match self.paused_until(&event) {
                Some(until) if until > when => self.happens(until, event),
                _ => self.happen(event),
            }
        }
        let excess = self.records.iter().map(Record::excess).fold(f64::MIN, f64::max);
        Report { passed: self.central.passed, excess, ..self.report }
    }

    fn replica(&mut self, limits: Vec<Limit>) -> Replica {
        self.numbers += 1;
        let settings = EngineSettings {
            max_buckets: self.plan.max_buckets,
            store_timeout: Some(Micros(TIMEOUT)),
            failure_mode: FailureMode::Closed,
            random_seed: self.random.seed(),
            defaults: Defaults { overdraft: true, ..Defaults::default() },
            ..EngineSettings::default()
        };
        let policy = self.plan.layout.policy(&limits, self.plan.overdraft);
        let engine = Engine::new(policy, settings, at(self.now));
        engine.set_replicas(u32::try_from(self.plan.replicas).unwrap());
        Replica { engine, limits, life: self.numbers, paused_until: 0, waiting: Vec::new() }
    }

    fn happens(&mut self, when: u64, event: Event) {
        self.numbers += 1;
        self.events.push(Reverse((when, self.numbers)));
        self.happenings.insert(self.numbers, event);
    }

    fn next_arrival(&mut self, replica: usize) {
        let load = self.plan.load.as_ref();
        if let Some(when) = load.and_then(|load| load.next_arrival(self.now, &mut self.random)) {
            self.happens(when, Event::Arrival { replica });
        }
    }

    /// Until when the replica does nothing to which this would happen.
    fn paused_until(&self, event: &Event) -> Option<u64> {
        let replica = match event {
            Event::Request { replica, .. }
            | Event::LookAfterLeases { replica }
            | Event::Sweep { replica }
            | Event::Limit { replica, .. } => *replica,
            Event::Answer { call, .. } | Event::CallIsOverdue { call } => self.calls.get(call)?.replica,
            Event::Deadline { request } | Event::CallerLeaves { request } => self.requests.get(request)?.replica,
            Event::Arrival { .. }
            | Event::AtStore { .. }
            | Event::Crash { .. }
            | Event::Pause { .. }
            | Event::ClockGoesBack { .. } => return None,
        };
        Some(self.fleet[replica].paused_until)
    }

    fn happen(&mut self, event: Event) {
        let now = at(self.now);
        match event {
            Event::Arrival { replica } => {
                self.next_arrival(replica);
                let load = self.plan.load.as_ref().map(|load| (load.at(replica, self.now), load.most()));
                if load.is_some_and(|(rate, most)| self.random.fraction() * most < rate) {
                    let ask = self.draw_ask();
                    self.happens(self.now, Event::Request { replica, ask });
                }
            }
            Event::Request { replica, ask } => self.decide(replica, ask),
            Event::AtStore { call } => self.serve(call),
            Event::Answer { call, answer } => self.answer(call, &answer),
            Event::CallIsOverdue { call } => {
                let Some(underway) = self.calls.get(&call) else { return };
                let (replica, life) = (underway.replica, underway.life);
                if self.fleet[replica].life == life {
                    let calls = self.fleet[replica].engine.call_is_overdue(&underway.call, now);
                    self.follow(replica, calls);
                }
            }
            Event::Deadline { request } => {
                let Some(waits) = self.requests.remove(&request) else { return };
                let GivenUp { decision, calls, .. } = self.fleet[waits.replica].engine.give_up(&waits.waiting, now);
                let decision = decision.expect("what is decided has been told");
                self.answered(&waits, &decision);
                self.follow(waits.replica, calls);
            }
            Event::CallerLeaves { request } => {
                let Some(waits) = self.requests.remove(&request) else { return };
                let calls = self.fleet[waits.replica].engine.abandon(&waits.waiting, now);
                self.follow(waits.replica, calls);
            }
            Event::LookAfterLeases { replica } => {
                self.happens(self.now + LEASES_EVERY, Event::LookAfterLeases { replica });
                let calls = self.fleet[replica].engine.look_after_leases(now);
                self.follow(replica, calls);
            }
            Event::Sweep { replica } => {
                self.happens(self.now + SWEEP_EVERY, Event::Sweep { replica });
                self.fleet[replica].engine.sweep(now, SWEEP_PARTS);
            }
            Event::Crash { replica } => {
                let limits = self.fleet[replica].limits.clone();
                let born = self.replica(limits);
                let dead = std::mem::replace(&mut self.fleet[replica], born);
                for request in dead.waiting {
                    self.requests.remove(&request);
                }
            }
            Event::Pause { replica, length } => {
                let paused_until = &mut self.fleet[replica].paused_until;
                *paused_until = (*paused_until).max(self.now + length);
            }
            Event::ClockGoesBack { by } => self.back += by,
            Event::Limit { replica, limit } => {
                self.fleet[replica].limits[0] = limit;
                let policy = self.plan.layout.policy(&self.fleet[replica].limits, self.plan.overdraft);
                self.fleet[replica].engine.set_policy(policy, now);
            }
        }
    }

    fn draw_ask(&mut self) -> Ask {
        let hits = self.random.between(1, self.plan.most_cost);
        if self.random.chance(self.plan.refunds) {
            Ask::GiveBack(hits)
        } else if self.random.chance(self.plan.debits) {
            let limit = self.random.index(self.plan.limits.len());
            let Some(own) = self.plan.limits.get(limit).and_then(own_limit) else { return Ask::Look };
            self.records[limit].allow(&own);
            Ask::Overdraw { limit, hits }
        } else if self.random.chance(self.plan.peeks) {
            Ask::Look
        } else {
            Ask::Take(hits)
        }
    }

    fn decide(&mut self, replica: usize, ask: Ask) {
        let (limits, layout) = (&self.fleet[replica].limits, self.plan.layout);
        let request = match ask {
            Ask::Take(hits) => layout.request(limits, hits, false),
            Ask::GiveBack(hits) => layout.request(limits, hits, true),
            Ask::Look => layout.request(limits, 0, false),
            Ask::Overdraw { limit, hits } => layout.own_limit(limit, &self.plan.limits[limit], hits),
        };
        if let Ask::Take(hits) = ask {
            self.report.requests += 1;
            self.central.ask(hits, at(self.now));
        }
        let Ruling { answer, calls } = self.fleet[replica].engine.decide(&request, at(self.now)).unwrap();
        match answer {
            Answer::Decided(decision) => self.note(ask, self.now, decision.code == Code::Ok),
            Answer::Waiting(waiting) => {
                self.report.waits += u64::from(matches!(ask, Ask::Take(_)));
                self.numbers += 1;
                let number = self.numbers;
                self.happens(self.now + TIMEOUT, Event::Deadline { request: number });
                if self.random.chance(self.plan.leavers) {
                    let leaves = self.now + self.random.up_to(3 * MILLISECOND);
                    self.happens(leaves, Event::CallerLeaves { request: number });
                }
                self.requests.insert(number, Waits { replica, ask, came: self.now, waiting });
                self.fleet[replica].waiting.push(number);
            }
        }
        self.follow(replica, calls);
    }

    /// A request that has waited is decided.
    fn answered(&mut self, waits: &Waits, decision: &Result<Decision, Unavailable>) {
        let latest = (waits.came + TIMEOUT).max(self.fleet[waits.replica].paused_until);
        assert!(self.now <= latest, "no request waits longer than the timeout");
        self.note(waits.ask, waits.came, decision.as_ref().is_ok_and(|decision| decision.code == Code::Ok));
    }

    /// A request has been decided.
    fn note(&mut self, ask: Ask, came: u64, passes: bool) {
        if !passes {
            return;
        }
        match ask {
            Ask::Take(hits) => {
                self.report.admitted += hits;
                self.records.iter_mut().for_each(|record| record.admit(came, self.now, hits));
            }
            Ask::Overdraw { limit, hits } => self.records[limit].admit(came, self.now, hits),
            Ask::GiveBack(_) | Ask::Look => {}
        }
    }

    /// Sends what a replica wants to send, and tells those who wait what has been decided.
    fn follow(&mut self, replica: usize, calls: Vec<Call>) {
        let life = self.fleet[replica].life;
        for call in calls {
            self.report.calls += 1;
            self.ledger.tell(life, &call.request);
            self.numbers += 1;
            let number = self.numbers;
            self.happens(self.now + TIMEOUT, Event::CallIsOverdue { call: number });
            match self.plan.network.there(replica, self.now, &mut self.random) {
                Way::To { arrival } => self.happens(arrival, Event::AtStore { call: number }),
                Way::Nowhere { error, heard } => {
                    self.happens(heard, Event::Answer { call: number, answer: Err(error) });
                }
            }
            self.calls.insert(number, Underway { replica, life, call });
        }
        let mut waiting = std::mem::take(&mut self.fleet[replica].waiting);
        waiting.retain(|number| {
            let Some(waits) = self.requests.get_mut(number) else { return false };
            let Ok(decision) = waits.waiting.decision.try_recv() else { return true };
            let waits = self.requests.remove(number).expect("it waits");
            self.answered(&waits, &decision);
            false
        });
        self.fleet[replica].waiting = waiting;
    }

    /// A call reaches the store.
    fn serve(&mut self, number: u64) {
        let Some(underway) = self.calls.get(&number) else { return };
        let call = &underway.call.request;
        let time = Micros(at(self.now).utc.0 - self.back);
        let limit = self.plan.layout.limit_of(call, &self.plan.limits);
        let look = Operation::Acquire { needed: 0, want: 0, facts: crate::store::Facts::default() };
        let before = self.store.serve(&StoreCall { operation: look, ..call.clone() }, time);
        let reply = self.store.serve(call, time);
        if call.limit.algorithm() == Algorithm::FixedWindow {
            self.records[limit].see_window(self.now, reply.epoch);
        }
        if matches!(call.operation, Operation::Refund { .. }) {
            let unit = match call.limit.algorithm() {
                Algorithm::TokenBucket => 1,
                Algorithm::FixedWindow => crate::limit::TOKEN,
            };
            self.records[limit].give_back(self.now, (before.used - reply.used) * unit);
        }
        let bucket = Arc::clone(&call.bucket);
        self.assert_that_all_that_is_held_is_out(&bucket, time);
        match self.plan.network.back(self.now, &mut self.random) {
            Way::To { arrival } => self.happens(arrival, Event::Answer { call: number, answer: Ok(reply) }),
            Way::Nowhere { error, heard } => self.happens(heard, Event::Answer { call: number, answer: Err(error) }),
        }
    }

    /// Why no more can be admitted than the limit allows: what replicas may still spend counts as used in the store.
    fn assert_that_all_that_is_held_is_out(&self, bucket: &Arc<str>, time: Micros) {
        let now = at(self.now).monotonic;
        let mut held = 0;
        for replica in &self.fleet {
            replica.engine.table.for_each(|slot| {
                let borrower = slot.borrower.as_mut().filter(|borrower| borrower.name == *bucket);
                held += borrower.map_or(0, |borrower| borrower.state(now).held);
            });
        }
        let of_tokens = self.store.token_bucket(bucket, time).map(|kept| kept.bucket.out + kept.bucket.out_before);
        // A window does not count what is out, so hits may be given back that nobody has spent yet.
        let of_window = self.store.fixed_window(bucket, time).map(|kept| kept.bucket.used);
        if of_window.is_some() && self.plan.refunds > 0.0 {
            return;
        }
        let out = of_tokens.or(of_window).unwrap_or_default();
        assert!(held <= out, "{held} hits of {bucket} are held, and the store knows of {out}");
    }

    fn answer(&mut self, number: u64, answer: &Result<Reply, StoreError>) {
        let Some(Underway { replica, life, call }) = self.calls.remove(&number) else { return };
        if self.fleet[replica].life != life {
            return;
        }
        match answer {
            Ok(reply) => self.ledger.lend(life, &call.request, reply),
            Err(error) if error.nothing_ran() => self.ledger.take_back(life, &call.request),
            Err(_) => {}
        }
        let calls = self.fleet[replica].engine.take_answer(call, answer, at(self.now));
        self.follow(replica, calls);
    }
}

/// The limit that a request brings to ask the bucket of another limit, if that can be: of one unit, a token bucket, and
/// without a burst of its own.
fn own_limit(limit: &Limit) -> Option<Limit> {
    let can_be = limit.multiplier() == 1 && limit.algorithm() == Algorithm::TokenBucket;
    can_be.then(|| Limit::per(limit.amount(), limit.unit(), limit.algorithm()))
}

/// The replicas' clocks, so long after the world began.
pub(super) fn at(passed: u64) -> Now {
    Now { monotonic: START.monotonic + Micros(passed), utc: START.utc + Micros(passed) }
}

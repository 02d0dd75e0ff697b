//! Replicas of the real engine with one store, in a time of their own: what traffic asks of the store.

use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use comporta::engine::{
    Answer, Call, Code, Decision, Engine, EngineSettings, LeaseSettings, Ruling, Unavailable, Waiting,
};
use comporta::limit::{Algorithm, Bucket, Hits, Limit, Micros, Now};
use comporta::policy::FailureMode;
use comporta::request::RateLimitRequest;
use comporta::server::BoxError;
use comporta::store::memory::MemoryStore;
use comporta::store::{Operation, Reply, StoreCall};

use super::checker::{Admission, Allowance, worst_interval};
use super::policy::policy;
use super::request::request;
use super::traffic::{Arrival, Spread, Traffic};

const SECOND: u64 = 1_000_000;

/// From a replica to the store and back.
pub(crate) const ROUND_TRIP: u64 = 500;

/// The longest that a request waits for the store: `--redis-timeout`.
const TIMEOUT: u64 = 10_000;

/// As a replica's process does.
const LEASES_EVERY: u64 = 20_000;
const SWEEP_EVERY: u64 = 10_000;
const SWEEP_PARTS: usize = 1_000;

/// For so long nobody asks at the end. All leases are over by then.
const QUIET: u64 = 300 * SECOND;
/// Calls in this last part of it are a fault.
const SILENT: u64 = 60 * SECOND;

/// Replicas, what they are asked, and the limit that each key has.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) replicas: usize,
    /// Requests a second, over all replicas together.
    pub(crate) rate: f64,
    pub(crate) keys: usize,
    pub(crate) spread: Spread,
    pub(crate) limit: Limit,
    /// Every bucket is used up when the replicas begin.
    pub(crate) begins_used_up: bool,
    pub(crate) lease: LeaseSettings,
}

/// What was counted. Decisions are those on requests that came in the measured part, and calls those that were sent in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) decisions: u64,
    /// Decisions that had to wait for the store.
    pub(crate) waited: u64,
    /// Calls for a request that waits.
    pub(crate) asked: u64,
    /// Calls that borrow ahead.
    pub(crate) renewed: u64,
    /// Calls that only return what is idle, or tell what was spent.
    pub(crate) told: u64,
    /// Calls after the last request, of all replicas.
    pub(crate) afterwards: u64,
    /// Hits that were admitted of these decisions, and those that one bucket would have admitted which everybody asks without delay.
    pub(crate) admitted: u64,
    pub(crate) admitted_by_one: u64,
}

impl Tally {
    pub(crate) const fn calls(&self) -> u64 {
        self.asked + self.renewed + self.told
    }
}

/// A call on its way.
struct Underway {
    replica: usize,
    call: Call,
}

/// A request that waits.
struct Waits {
    arrival: Arrival,
    waiting: Waiting,
}

enum Event {
    AtStore(Underway),
    Answer(Underway, Reply),
    Deadline { request: u64 },
    LookAfterLeases { replica: usize },
    Sweep { replica: usize },
}

/// The part of a run in which something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    WarmUp,
    Measured,
    Quiet,
    Silent,
}

struct Fleet {
    engines: Vec<Engine>,
    /// Numbers of the requests that wait, by replica.
    waiting: Vec<Vec<u64>>,
    waits: HashMap<u64, Waits>,
    store: MemoryStore,
    requests: Vec<RateLimitRequest>,
    /// Of each key.
    admissions: Vec<Vec<Admission>>,
    one_for_all: Vec<(Limit, Bucket)>,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    now: u64,
    part: Part,
    /// When the measured part begins.
    measured_from: u64,
    tally: Tally,
    calls_in_silence: u64,
}

/// Lets traffic come for so many seconds to warm up and then for so many that are measured, and waits until all is quiet.
///
/// # Errors
///
/// When the replicas together have admitted more than a limit allows, or ask the store though nobody asks them.
pub(crate) fn run(scene: &Scene, warm_up: u64, measured: u64, seed: u64) -> Result<Tally, BoxError> {
    let (measured_from, end) = (warm_up * SECOND, (warm_up + measured) * SECOND);
    let mut fleet = Fleet::new(scene, measured_from, seed);
    let mut traffic = Traffic::new(scene.rate, scene.replicas, scene.keys, scene.spread, seed);
    let mut arrivals = iter::repeat_with(|| traffic.next()).peekable();
    for (part, end) in [(Part::WarmUp, measured_from), (Part::Measured, end)] {
        fleet.part = part;
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.at < end) {
            fleet.let_happen_until(arrival.at)?;
            fleet.decide(arrival)?;
        }
        fleet.let_happen_until(end)?;
    }
    fleet.part = Part::Quiet;
    fleet.let_happen_until(end + QUIET - SILENT)?;
    fleet.part = Part::Silent;
    fleet.let_happen_until(end + QUIET)?;
    if fleet.calls_in_silence > 0 {
        return Err(format!("{} calls though nobody asks, of {scene:?}", fleet.calls_in_silence).into());
    }
    for admissions in &fleet.admissions {
        if let Some(worst) = worst_interval(admissions, allowance(&scene.limit))
            && worst.is_excess()
        {
            let (over, from, until) = (worst.hits_over(), worst.from, worst.until);
            return Err(format!("{over} hits too many were admitted from {from} to {until}, of {scene:?}").into());
        }
    }
    Ok(fleet.tally)
}

impl Fleet {
    fn new(scene: &Scene, measured_from: u64, seed: u64) -> Self {
        let engine = |replica: usize| {
            let settings = EngineSettings {
                store_timeout: Some(Micros(TIMEOUT)),
                failure_mode: FailureMode::Closed,
                lease: scene.lease,
                random_seed: seed + replica as u64,
                ..EngineSettings::default()
            };
            let engine = Engine::new(policy(&descriptors(&scene.limit)), settings, at(0));
            engine.set_replicas(u32::try_from(scene.replicas).unwrap_or(u32::MAX));
            engine
        };
        let mut fleet = Self {
            engines: (0..scene.replicas).map(engine).collect(),
            waiting: vec![Vec::new(); scene.replicas],
            waits: HashMap::new(),
            store: MemoryStore::default(),
            requests: (0..scene.keys).map(|key| request([("user".into(), value(key))])).collect(),
            admissions: vec![Vec::new(); scene.keys],
            one_for_all: vec![(scene.limit, Bucket::unused(&scene.limit, at(0))); scene.keys],
            events: BTreeMap::new(),
            numbers: 0,
            now: 0,
            part: Part::WarmUp,
            measured_from,
            tally: Tally::default(),
            calls_in_silence: 0,
        };
        if scene.begins_used_up {
            (0..scene.keys).for_each(|key| fleet.use_up(key, &scene.limit));
        }
        for replica in 0..scene.replicas {
            // Processes do not start all at once.
            let shift = |pause: u64| pause * replica as u64 / scene.replicas as u64;
            fleet.happens(shift(LEASES_EVERY), Event::LookAfterLeases { replica });
            fleet.happens(shift(SWEEP_EVERY), Event::Sweep { replica });
        }
        fleet
    }

    /// Somebody else has taken all hits of a bucket.
    fn use_up(&mut self, key: usize, limit: &Limit) {
        let hits = limit.capacity().into();
        let bucket: Arc<str> = bucket_name(key, limit).into();
        self.store.serve(&StoreCall { bucket, limit: *limit, operation: Operation::Debit { hits } }, at(0).utc);
        self.one_for_all[key].1.charge(hits);
        self.admissions[key].push(admission(limit, 0, 0, hits));
    }

    fn happens(&mut self, when: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((when, self.numbers), event);
    }

    fn let_happen_until(&mut self, time: u64) -> Result<(), BoxError> {
        while let Some(first) = self.events.first_entry()
            && first.key().0 <= time
        {
            let ((when, _), event) = first.remove_entry();
            self.now = when;
            self.happen(event)?;
        }
        self.now = time;
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), BoxError> {
        let now = at(self.now);
        match event {
            Event::AtStore(underway) => {
                let reply = self.store.serve(&underway.call.request, now.utc);
                self.happens(self.now + ROUND_TRIP / 2, Event::Answer(underway, reply));
            }
            Event::Answer(Underway { replica, call }, reply) => {
                let calls = self.engines[replica].take_answer(call, &Ok(reply), now);
                self.send(replica, calls);
                self.tell(replica)?;
            }
            Event::Deadline { request } => {
                if let Some(Waits { arrival, waiting }) = self.waits.remove(&request) {
                    let given_up = self.engines[arrival.replica].give_up(&waiting, now);
                    self.note(arrival, given_up.decision.ok_or("what is decided has been told")?);
                    self.send(arrival.replica, given_up.calls);
                }
            }
            Event::LookAfterLeases { replica } => {
                self.happens(self.now + LEASES_EVERY, Event::LookAfterLeases { replica });
                let calls = self.engines[replica].look_after_leases(now);
                self.send(replica, calls);
            }
            Event::Sweep { replica } => {
                self.happens(self.now + SWEEP_EVERY, Event::Sweep { replica });
                self.engines[replica].sweep(now, SWEEP_PARTS);
            }
        }
        Ok(())
    }

    fn decide(&mut self, arrival: Arrival) -> Result<(), BoxError> {
        let Arrival { replica, key, .. } = arrival;
        let is_measured = self.is_measured(arrival);
        self.tally.decisions += u64::from(is_measured);
        let (limit, bucket) = &mut self.one_for_all[key];
        bucket.settle(limit, at(self.now));
        let is_admitted_by_one = bucket.apply(limit, Hits::Take(1), false);
        self.tally.admitted_by_one += u64::from(is_measured && is_admitted_by_one);
        let Ruling { answer, calls } = self.engines[replica].decide(&self.requests[key], at(self.now))?;
        match answer {
            Answer::Decided(decision) => self.note(arrival, Ok(decision)),
            Answer::Waiting(waiting) => {
                self.tally.waited += u64::from(is_measured);
                self.numbers += 1;
                let request = self.numbers;
                self.waits.insert(request, Waits { arrival, waiting });
                self.waiting[replica].push(request);
                self.happens(self.now + TIMEOUT, Event::Deadline { request });
            }
        }
        self.send(replica, calls);
        self.tell(replica)
    }

    /// A request has been decided.
    fn note(&mut self, arrival: Arrival, decision: Result<Decision, Unavailable>) {
        if decision.is_ok_and(|decision| decision.code == Code::Ok) {
            self.tally.admitted += u64::from(self.is_measured(arrival));
            let admission = admission(&self.one_for_all[arrival.key].0, arrival.at, self.now, 1);
            self.admissions[arrival.key].push(admission);
        }
    }

    const fn is_measured(&self, arrival: Arrival) -> bool {
        arrival.at >= self.measured_from
    }

    /// Takes in what has become of requests that wait at a replica.
    fn tell(&mut self, replica: usize) -> Result<(), BoxError> {
        let mut still_waiting = Vec::new();
        for request in std::mem::take(&mut self.waiting[replica]) {
            let Some(waits) = self.waits.get_mut(&request) else { continue };
            match waits.waiting.decision.try_recv() {
                Ok(decision) => {
                    let arrival = waits.arrival;
                    self.waits.remove(&request);
                    self.note(arrival, decision);
                }
                Err(tokio::sync::oneshot::error::TryRecvError::Empty) => still_waiting.push(request),
                Err(error) => return Err(error.into()),
            }
        }
        self.waiting[replica] = still_waiting;
        Ok(())
    }

    /// Sends what a replica asks of the store.
    fn send(&mut self, replica: usize, calls: Vec<Call>) {
        for call in calls {
            match (self.part, &call.request.operation) {
                (Part::WarmUp, _) => {}
                (Part::Measured, Operation::Acquire { needed: 0, want: 0, .. }) => self.tally.told += 1,
                (Part::Measured, Operation::Acquire { needed: 0, .. }) => self.tally.renewed += 1,
                (Part::Measured, _) => self.tally.asked += 1,
                (Part::Quiet, _) => self.tally.afterwards += 1,
                (Part::Silent, _) => self.calls_in_silence += 1,
            }
            self.happens(self.now + ROUND_TRIP / 2, Event::AtStore(Underway { replica, call }));
        }
    }
}

/// What may be admitted in an interval: of time in microseconds, or of windows.
fn allowance(limit: &Limit) -> Allowance {
    let period = match limit.algorithm() {
        Algorithm::TokenBucket => limit.period().0,
        Algorithm::FixedWindow => 1,
    };
    Allowance { burst: limit.capacity().into(), amount: limit.amount().into(), period }
}

/// A token bucket's lies between times, a fixed window's between windows.
const fn admission(limit: &Limit, arrived: u64, answered: u64, hits: u64) -> Admission {
    let length = match limit.algorithm() {
        Algorithm::TokenBucket => 1,
        Algorithm::FixedWindow => limit.period().0,
    };
    Admission { from: at(arrived).utc.0 / length, until: at(answered).utc.0 / length, hits }
}

/// The limit, for each value of one key.
fn descriptors(limit: &Limit) -> String {
    let kind = match limit.algorithm() {
        Algorithm::TokenBucket => format!("burst: {}", limit.capacity()),
        Algorithm::FixedWindow => "algorithm: fixed_window".to_owned(),
    };
    let (amount, unit) = (limit.amount(), limit.unit().name());
    format!("[{{key: user, rate_limit: {{requests_per_unit: {amount}, unit: {unit}, {kind}}}}}]")
}

fn value(key: usize) -> Bytes {
    format!("user-{key:06}").into()
}

/// As the engine names it to the store.
fn bucket_name(key: usize, limit: &Limit) -> String {
    format!("{{bench|user=user-{key:06}}}:{}", comporta::engine::limit_suffix(limit))
}

/// The replicas' clocks and the store's, so many microseconds after the beginning.
const fn at(passed: u64) -> Now {
    Now { monotonic: Micros(SECOND + passed), utc: Micros(1_700_000_000 * SECOND + passed) }
}

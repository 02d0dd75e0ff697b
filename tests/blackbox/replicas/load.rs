//! Clients that ask, and take note of each answer.

use std::error::Error;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use fastrand::Rng;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};
use tonic::Status;
use tonic::transport::Endpoint;

use super::history::{Answer, Asked, History};
use super::timeline::{Timeline, micros};
use crate::harness::PATIENCE;
use crate::harness::grpc::{Client, request};

/// No load asks more often than this, whatever its callers are told.
const MOST_ASKED: usize = 2_000_000;

/// A caller that has so many requests under way lets those pass that are due.
const MOST_UNDER_WAY: usize = 2_000;

/// Others ask for keys below it.
pub(super) const FIRST_NEW_KEY: u32 = 1_000_000;

/// After a failure the next request waits a little, or a dead replica would be asked without end.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(20);

/// A replica to ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) replica: u16,
    pub(super) address: SocketAddr,
}

/// A client with a connection of its own to each replica.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The key of the policy's rule.
    pub(super) rule: &'static str,
    pub(super) pace: Pace,
    pub(super) route: Route,
    pub(super) keys: Keys,
    pub(super) hits: RangeInclusive<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// So many requests are always under way.
    Closed { under_way: usize },
    /// A request is due every so many µs, whatever becomes of the others.
    Open { every: u64 },
}

/// Which replica is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Route {
    /// Always the same.
    To(usize),
    /// One after the other.
    Each,
    /// One for so long, then the next.
    Moving { first: usize, every: Duration },
}

/// Which key is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys {
    One,
    /// Of so many keys the first most often, the second half as often, the third a third as often.
    Skewed(u32),
    /// This one, whatever others ask for.
    Only(u32),
    /// Each time another one, which nobody has asked for before: the [first](FIRST_NEW_KEY), then those that follow.
    New,
}

impl Pace {
    /// So many requests a second are due.
    pub(super) const fn per_second(count: u64) -> Self {
        Self::Open { every: 1_000_000 / count }
    }
}

impl Caller {
    pub(super) fn open(per_second: u64) -> Self {
        Self { rule: "key", pace: Pace::per_second(per_second), route: Route::Each, keys: Keys::One, hits: 1..=1 }
    }

    pub(super) fn closed(under_way: usize) -> Self {
        Self { pace: Pace::Closed { under_way }, ..Self::open(1) }
    }

    pub(super) fn rule(self, rule: &'static str) -> Self {
        Self { rule, ..self }
    }

    pub(super) fn route(self, route: Route) -> Self {
        Self { route, ..self }
    }

    pub(super) fn keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    pub(super) fn hits(self, hits: RangeInclusive<u64>) -> Self {
        Self { hits, ..self }
    }
}

/// Callers at work, on a thread of their own.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) timeline: Timeline,
    thread: JoinHandle<History>,
    record: Arc<Record>,
}

impl Load {
    /// Lets callers ask these replicas from now on, for so long.
    pub(super) fn start(timeline: Timeline, targets: Vec<Target>, callers: Vec<Caller>, time: Duration) -> Self {
        let record = Arc::new(Record::default());
        let recorded = Arc::clone(&record);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(ask_all(timeline, &targets, callers, time, &recorded))
        });
        Self { timeline, thread, record }
    }

    /// When the first of these requests was answered, of those that have been until now.
    pub(super) fn first_answered(&self, which: impl Fn(&Asked) -> bool) -> Option<u64> {
        let asked = self.record.asked.lock();
        asked.iter().filter(|asked| which(asked)).map(|asked| asked.answered).min()
    }

    /// Lets them ask no more, even if their time has not come yet, and waits until the last answer.
    pub(super) fn stop(self) -> History {
        self.record.is_stopped.store(true, Ordering::Relaxed);
        self.history()
    }

    /// Waits until the last answer.
    pub(super) fn history(self) -> History {
        self.thread.join().expect("callers that do not panic")
    }
}

async fn ask_all(
    timeline: Timeline,
    targets: &[Target],
    callers: Vec<Caller>,
    time: Duration,
    record: &Arc<Record>,
) -> History {
    let begin = timeline.rounded_down();
    let mut tasks = JoinSet::new();
    for (number, caller) in callers.into_iter().enumerate() {
        let connections = targets.iter().map(|&target| (target, connect(target.address))).collect();
        let weights = Weights::of(caller.keys);
        let (begin, end) = (begin, begin + micros(time));
        let record = Arc::clone(record);
        let at_work = Arc::new(AtWork { caller, connections, weights, timeline, begin, end, record });
        let seed = 1000 * number as u64;
        match at_work.caller.pace {
            Pace::Open { every } => {
                tasks.spawn(at_work.ask_when_due(every, Rng::with_seed(seed)));
            }
            Pace::Closed { under_way } => {
                for line in 0..under_way {
                    tasks.spawn(Arc::clone(&at_work).ask_in_turn(line, Rng::with_seed(seed + line as u64)));
                }
            }
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a caller that does not panic");
    }
    let asked = std::mem::take(&mut *record.asked.lock());
    History::new(timeline, asked)
}

fn connect(address: SocketAddr) -> Client {
    Client::new(Endpoint::new(format!("http://{address}")).unwrap().tcp_nodelay(true).connect_lazy())
}

#[derive(Debug, Default)]
struct Record {
    asked: Mutex<Vec<Asked>>,
    begun: AtomicUsize,
    is_stopped: AtomicBool,
}

/// A caller, and what it needs.
struct AtWork {
    caller: Caller,
    connections: Vec<(Target, Client)>,
    weights: Weights,
    timeline: Timeline,
    /// When it begins and ends to ask, in µs of the run.
    begin: u64,
    end: u64,
    record: Arc<Record>,
}

impl AtWork {
    async fn ask_in_turn(self: Arc<Self>, line: usize, mut random: Rng) {
        let mut turn = line;
        while self.goes_on() {
            if self.ask(turn, &mut random).await.is_failure() {
                sleep(PAUSE_AFTER_FAILURE).await;
            }
            turn += 1;
        }
    }

    async fn ask_when_due(self: Arc<Self>, every: u64, mut random: Rng) {
        let mut under_way = JoinSet::new();
        for turn in 0.. {
            let due = self.begin + turn as u64 * every;
            sleep_until(self.timeline.instant(Duration::from_micros(due)).into()).await;
            if !self.goes_on() {
                break;
            }
            while under_way.try_join_next().is_some() {}
            if under_way.len() < MOST_UNDER_WAY {
                let (at_work, mut random) = (Arc::clone(&self), random.fork());
                under_way.spawn(async move { at_work.ask(turn, &mut random).await });
            }
        }
        under_way.join_all().await;
    }

    fn goes_on(&self) -> bool {
        let Record { begun, is_stopped, .. } = &*self.record;
        let may_ask = !is_stopped.load(Ordering::Relaxed) && begun.load(Ordering::Relaxed) < MOST_ASKED;
        may_ask && self.timeline.rounded_down() < self.end
    }

    async fn ask(&self, turn: usize, random: &mut Rng) -> Answer {
        self.record.begun.fetch_add(1, Ordering::Relaxed);
        let key = self.choose_key(turn, random);
        let hits = u32::try_from(random.u64(self.caller.hits.clone())).unwrap();
        let (target, client) = &self.connections[self.choose_replica(turn)];
        let mut question = request("d", [format!("{}={key}", self.caller.rule).as_str()]);
        question.hits_addend = hits;

        let sent = self.timeline.rounded_down();
        let answer = timeout(PATIENCE, client.clone().should_rate_limit(question)).await;
        let answered = self.timeline.rounded_up();
        let answer = match answer {
            Ok(Ok(answer)) if answer.get_ref().overall_code() == Code::Ok => Answer::Admitted,
            Ok(Ok(_)) => Answer::Refused,
            Ok(Err(status)) if is_said_by_the_service(&status) => Answer::Unavailable,
            Ok(Err(_)) | Err(_) => Answer::Failed,
        };
        self.record.asked.lock().push(Asked { key, hits, replica: target.replica, sent, answered, answer });
        answer
    }

    fn choose_key(&self, turn: usize, random: &mut Rng) -> u32 {
        match self.caller.keys {
            Keys::New => FIRST_NEW_KEY + u32::try_from(turn).unwrap(),
            Keys::One | Keys::Skewed(_) | Keys::Only(_) => self.weights.choose(random),
        }
    }

    fn choose_replica(&self, turn: usize) -> usize {
        let count = self.connections.len();
        match self.caller.route {
            Route::To(place) => place,
            Route::Each => turn % count,
            Route::Moving { first, every } => {
                let moves = (self.timeline.rounded_down() - self.begin) / micros(every);
                (first + usize::try_from(moves).unwrap()) % count
            }
        }
    }
}

/// Whether this is the answer of the failure mode `unavailable`. What the connection says of itself has a source.
fn is_said_by_the_service(status: &Status) -> bool {
    status.code() == tonic::Code::Unavailable && status.source().is_none()
}

/// How often each key is chosen, in millionths of the first; each is added to those before it.
struct Weights {
    first: u32,
    sums: Vec<u64>,
}

impl Weights {
    fn of(keys: Keys) -> Self {
        let (first, count) = match keys {
            Keys::One | Keys::New => (0, 1),
            Keys::Skewed(count) => (0, count),
            Keys::Only(key) => (key, 1),
        };
        let sums = (1..=u64::from(count)).scan(0, |sum, rank| {
            *sum += 1_000_000 / rank;
            Some(*sum)
        });
        Self { first, sums: sums.collect() }
    }

    fn choose(&self, random: &mut Rng) -> u32 {
        let all = *self.sums.last().expect("a key");
        let drawn = random.u64(..all);
        self.first + u32::try_from(self.sums.partition_point(|&sum| sum <= drawn)).unwrap()
    }
}

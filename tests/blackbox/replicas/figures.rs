//! What a run has shown.
#![expect(clippy::cast_precision_loss, reason = "figures to be read")]

use std::fmt;

use super::central::admitted_by_one_bucket;
use super::checker::Worst;
use super::fleet::Fleet;
use super::history::{Answer, Asked, History};
use super::limit::Limit;

/// Where one answer in a hundred takes longer, the machine has other things to do.
const SLOW_MS: f64 = 100.0;

/// The figures of a run. Shown, they are one line.
#[derive(Debug)]
pub(super) struct Figures {
    name: String,
    pub(super) requests: usize,
    pub(super) refused: usize,
    pub(super) failed: usize,
    pub(super) hits_admitted: u64,
    /// For each limit the key and the interval in which most was admitted.
    worst: Vec<Option<(u32, Worst)>>,
    /// Hits that were admitted, of those that one bucket would have admitted.
    pub(super) utilisation: f64,
    /// Requests answered a second.
    pub(super) rate: f64,
    store: Option<StoreFigures>,
    /// Of the times until an answer, in ms, the median and the 99th of 100.
    times: [f64; 2],
}

/// The share of a fleet's Redis, in decisions by the replicas that run.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreFigures {
    /// Calls to the store a decision.
    pub(super) calls: f64,
    /// The part of the decisions that waited for the store.
    pub(super) waits: f64,
    /// Decisions that were made without the store because it failed.
    pub(super) fallback: u64,
}

impl Figures {
    /// Judges what a fleet with these limits has answered, and prints it.
    pub(super) fn of(name: impl Into<String>, history: &History, limits: &[Limit], fleet: &Fleet) -> Self {
        let hits_admitted = history.admitted(|_| true);
        let seconds = micros_asked(history) / 1e6;
        let requests = history.asked.len();
        let figures = Self {
            name: name.into(),
            requests,
            refused: history.count(Answer::Refused),
            failed: history.failures(),
            hits_admitted,
            worst: limits.iter().map(|limit| history.worst(limit)).collect(),
            utilisation: ratio(hits_admitted, admitted_by_one_bucket(history, limits)),
            rate: (requests - history.failures()) as f64 / seconds,
            store: fleet.has_redis().then(|| StoreFigures::of(fleet)),
            times: answer_times(&history.asked),
        };
        eprintln!("{figures}");
        figures
    }

    /// By how many hits the worst interval of any limit was over what it allows: not above 0 if all is well.
    pub(super) fn excess(&self) -> f64 {
        self.worst.iter().flatten().map(|(_, worst)| worst.hits_over()).fold(f64::NEG_INFINITY, f64::max)
    }

    pub(super) fn is_excess(&self) -> bool {
        self.worst.iter().flatten().any(|(_, worst)| worst.is_excess())
    }

    /// Requests a second that each of so many replicas has answered.
    pub(super) fn rate_of_each(&self, replicas: usize) -> f64 {
        self.rate / replicas as f64
    }

    pub(super) fn store(&self) -> StoreFigures {
        self.store.expect("a fleet with a Redis")
    }

    /// Whether the machine had so much else to do that what depends on its pace cannot be judged.
    pub(super) fn is_slow(&self) -> bool {
        self.times[1] > SLOW_MS
    }

    /// No limit was exceeded in any interval.
    pub(super) fn assert_exact(&self) {
        assert!(!self.is_excess(), "a limit was exceeded: {self}\n{:#?}", self.worst);
    }

    /// Nothing went wrong: no limit was exceeded, every request was answered, and none without Redis.
    pub(super) fn assert_healthy(&self) {
        self.assert_exact();
        assert_eq!(self.failed, 0, "requests without an answer: {self}");
        assert_eq!(self.store().fallback, 0, "decisions without Redis: {self}");
    }

    /// Hardly less was admitted than by one bucket. Not judged where answers took so long that leases ended meanwhile.
    pub(super) fn assert_used(&self, least: f64) {
        if self.is_slow() {
            eprintln!("this machine is too slow to judge what is admitted: {self}");
            return;
        }
        assert!(self.utilisation >= least, "less than {least} of what one bucket admits: {self}");
    }
}

impl StoreFigures {
    fn of(fleet: &Fleet) -> Self {
        let decisions = fleet.decisions();
        let by = |source| decisions.get(source).copied().unwrap_or_default();
        let all = decisions.values().sum();
        Self { calls: ratio(fleet.store_calls(), all), waits: ratio(by("store"), all), fallback: by("fallback") }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, requests, refused, failed, hits_admitted, utilisation, rate, times: [median, high], .. } =
            self;
        write!(f, "{name}: {requests} requests at {rate:.0}/s, {refused} refused, {failed} failed; ")?;
        write!(f, "{hits_admitted} hits, excess {:.2}, utilisation {utilisation:.4}; ", self.excess())?;
        if let Some(StoreFigures { calls, waits, fallback }) = &self.store {
            write!(f, "{calls:.4} calls and {waits:.4} waits a decision, {fallback} by fallback; ")?;
        }
        write!(f, "answered in {median:.2} ms, 99 % in {high:.2} ms")
    }
}

fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// From the first request to the last answer.
fn micros_asked(history: &History) -> f64 {
    let first = history.asked.first().map_or(0, |asked| asked.sent);
    let last = history.asked.iter().map(|asked| asked.answered).max().unwrap_or(1);
    (last - first) as f64
}

/// Of the times until an answer, in ms, the median and the 99th of 100.
pub(super) fn answer_times<'a>(asked: impl IntoIterator<Item = &'a Asked>) -> [f64; 2] {
    let answered = asked.into_iter().filter(|asked| asked.answer != Answer::Failed);
    let mut times: Vec<_> = answered.map(|Asked { sent, answered, .. }| answered - sent).collect();
    times.sort_unstable();
    let part = |percent| times.get(times.len() * percent / 100).map_or(0.0, |&time| time as f64 / 1e3);
    [part(50), part(99)]
}

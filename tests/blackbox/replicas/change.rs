//! The primary changes under load.

use std::thread::sleep;
use std::time::Duration;

use super::faults::TWO_EPOCHS;
use super::figures::Figures;
use super::fleet::Fleet;
use super::healthy::callers;
use super::history::{Answer, History};
use super::limit::Limit;
use super::load::Load;
use super::timeline::{Timeline, micros};
use crate::harness::{Redis, wait_for};

const REPLICAS: usize = 2;

/// So many lines may tell of a change: of the loss, of what hinders the calls, the connection and the count of replicas,
/// and when it has ended.
const A_HANDFUL: usize = 6;

/// Short enough that failure modes decide while there is no primary.
pub(super) const TIMEOUT: &str = "100ms";

/// How long the load goes on before the change, and after it.
const BEFORE: Duration = Duration::from_millis(1500);
const AFTER: Duration = Duration::from_millis(2500);

/// The load is stopped; it ends by itself only if the test has failed.
const LONGEST: Duration = Duration::from_secs(120);

/// Replicas that are asked while their store gets another primary.
#[derive(Debug)]
pub(super) struct Change {
    name: String,
    limit: Limit,
    fleet: Fleet,
    timeline: Timeline,
    load: Load,
    /// When the primary was still there.
    gone: u64,
    /// How much each replica had logged by then, in bytes.
    logged: Vec<usize>,
}

impl Change {
    /// Starts replicas and callers. What follows at once is the change.
    pub(super) fn begin(name: impl Into<String>, flags: impl IntoIterator<Item = String>, limit: Limit) -> Self {
        let fleet = Fleet::with_timeout(TIMEOUT, flags, REPLICAS, &[limit]);
        let timeline = Timeline::begin();
        let load = Load::start(timeline, fleet.targets(), callers(250).to_vec(), LONGEST);
        sleep(BEFORE);
        let logged = fleet.logs().iter().map(String::len).collect();
        Self { name: name.into(), limit, fleet, timeline, load, gone: timeline.rounded_down(), logged }
    }

    /// Waits until all replicas use the primary that is there now, and for what comes of it.
    pub(super) fn end(self, primary: &Redis) -> Changed {
        let Self { name, limit, fleet, timeline, load, gone, logged } = self;
        let there = timeline.rounded_down();
        wait_for("all replicas to use the new primary", || (primary.script_users() == REPLICAS).then_some(()));
        let used = timeline.rounded_down();
        // What the old primary had lent, and the new one perhaps has not heard of, may be spent until then.
        let settled = used.max(gone + micros(TWO_EPOCHS));
        sleep(Duration::from_micros(settled - used));

        let fallback_meanwhile = fallback(&fleet);
        sleep(AFTER);
        let fallback_after = fallback(&fleet) - fallback_meanwhile;
        let history = load.stop();
        let end = history.asked.last().unwrap().sent;

        let figures = |part: &str, history: &_| Figures::of(format!("{name}, {part}"), history, &[limit], &fleet);
        Changed {
            before: figures("before", &history.part(|asked| asked.answered < gone)),
            all: figures("all in all", &history),
            after: figures("after", &history.part(|asked| asked.sent > settled)),
            limit,
            history,
            time_to_use: Duration::from_micros(used - there),
            time_of_two: used - gone,
            time_after: end - settled,
            fallback_meanwhile,
            fallback_after,
            logs: fleet.logs().into_iter().zip(logged).map(|(log, before)| log[before..].to_owned()).collect(),
        }
    }
}

fn fallback(fleet: &Fleet) -> u64 {
    fleet.decisions().get("fallback").copied().unwrap_or_default()
}

/// What came of a change.
#[derive(Debug)]
pub(super) struct Changed {
    limit: Limit,
    history: History,
    before: Figures,
    after: Figures,
    pub(super) all: Figures,
    /// Since the new primary could be written to.
    time_to_use: Duration,
    /// How long two servers may have been used at once, in µs.
    time_of_two: u64,
    /// For how long the load went on after all had settled, in µs.
    time_after: u64,
    /// Decisions by failure mode until all had settled, and since.
    pub(super) fallback_meanwhile: u64,
    fallback_after: u64,
    /// What each replica has logged of it.
    pub(super) logs: Vec<String>,
}

impl Changed {
    /// Every request was answered, the limit held before and after, and the new primary was used in time and as well as
    /// the old one.
    pub(super) fn assert_survived(&self, time_to_use: Duration) {
        assert_eq!(self.history.count(Answer::Failed), 0, "requests without an answer: {}", self.all);
        assert!(self.time_to_use <= time_to_use, "the new primary was used after {:?}", self.time_to_use);
        for log in &self.logs {
            assert!(log.lines().count() <= A_HANDFUL, "it is told again and again: {log}");
        }
        self.before.assert_exact();
        if self.after.is_slow() {
            eprintln!("this machine is too slow to judge what came after: {}", self.after);
            return;
        }
        assert_eq!(self.fallback_after, 0, "decisions without the store after the change: {}", self.after);
        self.after.assert_exact();
        let (admitted, at_full_rate) =
            (self.after.hits_admitted, self.limit.amount * self.time_after / self.limit.period());
        assert!(admitted * 100 >= at_full_rate * 90, "{admitted} of {at_full_rate} hits were admitted: {}", self.after);
    }

    /// The old primary granted nothing any more: not more than a burst was added, of which the new one had not heard.
    pub(super) fn assert_one_burst_more_at_most(&self) {
        self.assert_more_at_most(self.limit.burst);
    }

    /// Both primaries kept the limit, each for itself: besides the burst, what the rate yielded while both were used.
    pub(super) fn assert_two_primaries_at_most(&self) {
        self.assert_more_at_most(self.limit.burst + self.limit.amount * self.time_of_two / self.limit.period() + 1);
    }

    fn assert_more_at_most(&self, hits: u64) {
        let (_, worst) = self.history.worst(&self.limit.burst(self.limit.burst + hits)).unwrap();
        assert!(!worst.is_excess(), "more than {hits} hits were added: {}", self.all);
    }
}

//! The primary changes under load.

use std::thread::sleep;
use std::time::Duration;

use super::changed::{Changed, Part};
use super::faults::TWO_EPOCHS;
use super::figures::Figures;
use super::fleet::Fleet;
use super::healthy::callers;
use super::history::Asked;
use super::limit::Limit;
use super::load::Load;
use super::timeline::{Timeline, micros};
use crate::harness::{Redis, wait_for};

const REPLICAS: usize = 2;

/// Short enough that failure modes decide while there is no primary, and that no machine is taken for slow because of it.
pub(super) const TIMEOUT: &str = "50ms";

/// How long the load goes on before the change, and after it.
const BEFORE: Duration = Duration::from_millis(1500);
const AFTER: Duration = Duration::from_secs(2);

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
    /// How much each replica had logged before the change, in bytes.
    logged: Vec<usize>,
    fallback_before: u64,
    /// When the old primary was still there.
    gone: u64,
}

impl Change {
    /// Starts replicas and callers. What follows at once is the change.
    pub(super) fn begin(name: impl Into<String>, flags: impl IntoIterator<Item = String>, limit: Limit) -> Self {
        let fleet = Fleet::with_timeout(TIMEOUT, flags, REPLICAS, &[limit]);
        let timeline = Timeline::begin();
        let load = Load::start(timeline, fleet.targets(), callers(250).to_vec(), LONGEST);
        sleep(BEFORE);
        let logged = fleet.logs().iter().map(String::len).collect();
        let fallback_before = fallback(&fleet);
        let gone = timeline.rounded_down();
        Self { name: name.into(), limit, fleet, timeline, load, logged, fallback_before, gone }
    }

    /// Waits until all replicas use the primary that is there now, and for what comes of it.
    pub(super) fn end(self, primary: &Redis) -> Changed {
        let Self { name, limit, fleet, timeline, load, logged, fallback_before, gone } = self;
        let there = timeline.rounded_down();
        wait_for("all replicas to use the new primary", || (primary.script_users() == REPLICAS).then_some(()));
        let used = timeline.rounded_down();
        // What the old primary had lent, and the new one perhaps has not heard of, may be spent until then.
        let settled = used.max(gone + micros(TWO_EPOCHS));
        sleep(Duration::from_micros(settled - used));
        let fallback_until_settled = fallback(&fleet);
        sleep(AFTER);
        let fallback = fallback(&fleet);
        let history = load.stop();
        let logs = fleet.logs().into_iter().zip(logged);
        let logs: Vec<_> = logs.map(|(log, before)| log[before..].to_owned()).collect();
        eprintln!("--- what the replicas printed of it ---\n{}---", logs.join("---\n"));

        let part = |name_of_part, which: &dyn Fn(&Asked) -> bool, fallback| {
            let name = format!("{name}, {name_of_part}");
            Part { figures: Figures::of(name, &history.part(which), &[limit], &fleet), fallback }
        };
        Changed {
            limit,
            before: part("before", &|asked| asked.answered < gone, fallback_before),
            after: part("after", &|asked| asked.sent > settled, fallback - fallback_until_settled),
            all: part("all in all", &|_| true, fallback),
            fallback_meanwhile: fallback_until_settled - fallback_before,
            time_to_use: Duration::from_micros(used - there),
            time_of_two: used - gone,
            time_after: history.asked.last().unwrap().sent - settled,
            logs,
            history,
        }
    }
}

fn fallback(fleet: &Fleet) -> u64 {
    fleet.decisions().get("fallback").copied().unwrap_or_default()
}

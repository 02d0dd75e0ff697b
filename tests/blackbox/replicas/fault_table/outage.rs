//! The time of a fault.

use std::collections::BTreeMap;
use std::thread::sleep;

use super::super::history::{Asked, History};
use super::super::load::{FIRST_NEW_KEY, Load};
use super::super::timeline::micros;
use super::REPLICAS;
use super::mode::Mode;
use super::row::{LONGEST, Row};
use super::scene::{Fault, Scene};
use crate::harness::wait_for;

/// Times are in µs of the run.
pub(super) struct Outage {
    of: Option<u16>,
    pub(super) begun: u64,
    /// What is answered by then is decided in the outage.
    pub(super) ended: u64,
    /// From its end, in µs, until the store had decided something on each replica that it was an outage of.
    pub(super) healed_after: u64,
    /// Decisions in it, by source.
    pub(super) decisions: BTreeMap<String, u64>,
    /// What was asked, in mode [`local`](Mode::Local), for a key that nobody had asked for before.
    pub(super) of_untouched_key: History,
}

impl Outage {
    /// Lets a fault come, last and go, and waits until all replicas have used Redis again. The witness is the load of
    /// mode [`unavailable`](Mode::Unavailable).
    pub(super) fn suffer(number: u32, fault: &Fault<'_>, row: &Row, scene: &mut Scene, witness: &Load) -> Self {
        let timeline = witness.timeline;
        let not_begun = timeline.rounded_down();
        (fault.begin)(scene);
        let begun = timeline.rounded_up();
        let decisions_before = scene.fleet.decisions();
        let targets = scene.fleet.targets().into_iter().filter(|target| fault.of.is_none_or(|of| of == target.replica));
        let caller = Mode::Local.caller_in_outage(FIRST_NEW_KEY - 1 - number);
        let load = Load::start(timeline, targets.collect(), vec![caller], LONGEST);
        sleep(row.lasts);
        let of_untouched_key = load.stop();
        let mut decisions = scene.fleet.decisions();
        for (source, before) in decisions_before {
            *decisions.entry(source).or_default() -= before;
        }
        // Some faults end by themselves when their time is over, and a machine may be late to notice.
        let ended = timeline.rounded_down().min(not_begun + micros(row.lasts));
        (fault.end)(scene);
        let over = timeline.rounded_up();
        let replicas = (0..REPLICAS).filter(|replica| fault.of.is_none_or(|of| of == *replica));
        let used_again = replicas.map(|replica| wait_until_used(replica, over, witness)).max().unwrap();
        let of_untouched_key = of_untouched_key.part(|asked| asked.answered <= ended);
        Self { of: fault.of, begun, ended, healed_after: used_again - over, decisions, of_untouched_key }
    }

    pub(super) fn is_of(&self, replica: u16) -> bool {
        self.of.is_none_or(|of| of == replica)
    }

    /// Whether it was decided in the outage.
    pub(super) fn has(&self, asked: &Asked) -> bool {
        self.is_of(asked.replica) && asked.sent >= self.begun && asked.answered <= self.ended
    }
}

/// Waits until a replica has used the store since then, and returns when that was.
fn wait_until_used(replica: u16, since: u64, witness: &Load) -> u64 {
    // A new key of this mode passes only if the store says so.
    let is_by_store = |asked: &Asked| {
        asked.replica == replica && asked.sent >= since && asked.key >= FIRST_NEW_KEY && asked.is_admitted()
    };
    wait_for("a replica to use Redis again", || witness.first_answered(is_by_store))
}

//! A row of the table.

use std::thread::sleep;
use std::time::Duration;

use super::super::history::{Asked, History};
use super::super::load::Load;
use super::super::timeline::Timeline;
use super::mode::Mode;
use super::outage::Outage;
use super::scene::{Fault, Scene};
use super::{LASTS, judge, line};
use crate::harness::RedisSetup;

/// How long a request waits for Redis: longer than the default, so that a busy machine is not taken for a fault.
pub(super) const TIMEOUT: Duration = Duration::from_millis(100);

/// The load before the first fault and after the last.
const BEFORE: Duration = Duration::from_millis(1500);
const AFTER: Duration = Duration::from_millis(1500);

/// Loads are stopped; they end by themselves only if the test has failed.
pub(super) const LONGEST: Duration = Duration::from_secs(180);

pub(super) struct Row {
    pub(super) name: &'static str,
    redis: Option<RedisSetup>,
    pub(super) has_networks: bool,
    pub(super) starts_without_redis: bool,
    pub(super) lasts: Duration,
    per_second: u64,
    pub(super) reach: Reach,
    /// In the outage Redis loses what it has.
    pub(super) forgets: bool,
}

/// What the store does in an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nothing.
    None,
    /// It decides nothing, but what it lends arrives, and is spent.
    Lends,
    /// It decides now and then.
    Decides,
}

/// What came of it.
pub(super) struct Outcome {
    pub(super) row: Row,
    /// What was asked of each mode.
    pub(super) histories: Vec<(Mode, History)>,
    pub(super) outages: Vec<Outage>,
    /// Decisions by failure mode before the first outage, and after the last, of each mode.
    pub(super) fallback: Vec<(Mode, [u64; 2])>,
    /// No fault had begun.
    still_well: u64,
    /// Redis was used again by all.
    healed: u64,
}

impl Row {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            redis: None,
            has_networks: false,
            starts_without_redis: false,
            lasts: LASTS,
            per_second: 400,
            reach: Reach::None,
            forgets: false,
        }
    }

    /// With this Redis.
    pub(super) fn on(self, redis: RedisSetup) -> Self {
        Self { redis: Some(redis), ..self }
    }

    /// With a network between each replica and Redis.
    pub(super) fn through_networks(self) -> Self {
        Self { has_networks: true, ..self }
    }

    /// In the outage the store decides so much.
    pub(super) fn reach(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// Redis is not there when the replicas start, until the fault ends.
    pub(super) fn that_starts_without_redis(self) -> Self {
        Self { starts_without_redis: true, ..self }
    }

    pub(super) fn that_forgets(self) -> Self {
        Self { forgets: true, ..self }
    }

    pub(super) fn lasts(self, seconds: u64) -> Self {
        Self { lasts: Duration::from_secs(seconds), ..self }
    }

    /// So many requests in all.
    pub(super) fn asked_per_second(self, per_second: u64) -> Self {
        Self { per_second, ..self }
    }

    /// Lets these faults come one after the other, prints what came of it, and fails where a promise was broken.
    pub(super) fn run(mut self, faults: &[Fault<'_>]) {
        let redis = self.redis.take().unwrap_or_else(RedisSetup::new);
        let mut scene = Scene::start(redis, &self);
        let timeline = Timeline::begin();
        let per_second = self.per_second / Mode::ALL.len() as u64;
        let load = |mode: Mode| Load::start(timeline, scene.fleet.targets(), mode.callers(per_second), LONGEST);
        let loads = Mode::ALL.map(|mode| (mode, load(mode)));
        if !self.starts_without_redis {
            sleep(BEFORE);
        }
        let fallback = |scene: &Scene| Mode::ALL.map(|mode| scene.fleet.fallback_of(mode.rule()));
        let still_well = timeline.rounded_down();
        let fallback_before = fallback(&scene);
        let [.., (Mode::Unavailable, witness)] = &loads else { unreachable!("the last of the modes") };
        let suffer = |(number, fault)| Outage::suffer(number, fault, &self, &mut scene, witness);
        let outages: Vec<_> = (0..).zip(faults).map(suffer).collect();
        let fallback_until_healed = fallback(&scene);
        let healed = timeline.rounded_up();
        sleep(AFTER);
        let fallback_at_end = fallback(&scene);
        let histories = loads.map(|(mode, load)| (mode, load.stop())).into();

        let after = fallback_at_end.into_iter().zip(fallback_until_healed).map(|(end, healed)| end - healed);
        let parts = fallback_before.into_iter().zip(after).map(|(before, after)| [before, after]);
        let fallback = Mode::ALL.into_iter().zip(parts).collect();
        let outcome = Outcome { row: self, histories, outages, fallback, still_well, healed };
        let broken = judge::broken_promises(&outcome);
        line::print(&outcome, &broken);
        assert!(broken.is_empty(), "{}: {broken:#?}", outcome.row.name);
    }
}

impl Outcome {
    pub(super) fn history(&self, mode: Mode) -> &History {
        let of_mode = self.histories.iter().find(|(of, _)| *of == mode);
        &of_mode.expect("a history of each mode").1
    }

    /// All that was asked, of whatever mode.
    pub(super) fn asked(&self) -> impl Iterator<Item = &Asked> {
        let untouched = self.outages.iter().map(|outage| &outage.of_untouched_key);
        self.histories.iter().map(|(_, history)| history).chain(untouched).flat_map(|history| &history.asked)
    }

    pub(super) fn is_before(&self, asked: &Asked) -> bool {
        !self.row.starts_without_redis && asked.answered <= self.still_well
    }

    /// All use Redis again.
    pub(super) fn is_after(&self, asked: &Asked) -> bool {
        asked.sent >= self.healed
    }

    pub(super) fn is_in_outage(&self, asked: &Asked) -> bool {
        self.outages.iter().any(|outage| outage.has(asked))
    }
}

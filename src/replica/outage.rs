use std::fmt;

use tracing::{info, warn};

use crate::engine::Counts;
use crate::limit::{Micros, Now};
use crate::policy::FailureMode;
use crate::throttle::Throttle;

/// An outage in which Redis is asked is told of after so long; others are told of by who does not ask it any more.
const LONG: Micros = Micros::from_seconds(5);

/// An outage is over when the store is asked, and failure modes have decided nothing for so long.
const QUIET: Micros = Micros::from_seconds(1);

/// Notices when failure modes decide, and tells at the end what they have decided.
#[derive(Debug)]
pub(super) struct OutageWatch {
    /// A call that fails now and then is not worth a line each time.
    throttle: Throttle,
    lasting: Throttle,
    seen: Decided,
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    began: Micros,
    before: Decided,
    last: Micros,
    /// All of the store was asked all the time: only some calls have failed.
    was_asked: bool,
}

/// How many limits each failure mode has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Decided([u64; FailureMode::ALL.len()]);

impl OutageWatch {
    pub(super) fn new() -> Self {
        let throttle = || Throttle::new(Micros::from_seconds(60));
        Self { throttle: throttle(), lasting: throttle(), seen: Decided::default(), outage: None }
    }

    /// Has a look. To be called several times a second.
    pub(super) fn look(&mut self, counts: &Counts, is_asked: bool, now: Now) {
        let (before, time) = (self.seen, now.monotonic);
        self.seen = Decided(FailureMode::ALL.map(|mode| counts.by_failure_mode(mode).get()));
        let is_quiet = is_asked && self.seen == before;
        match &mut self.outage {
            None if is_quiet => {}
            None => self.outage = Some(Outage { began: time, before, last: time, was_asked: is_asked }),
            Some(outage) if !is_quiet => {
                outage.last = time;
                outage.was_asked &= is_asked;
                if outage.was_asked && time - outage.began >= LONG && self.lasting.admit(now).is_some() {
                    let decided = self.seen.since(outage.before);
                    warn!(
                        "failure modes have decided {decided}, though Redis is asked: calls to it fail, or take too long"
                    );
                }
            }
            Some(outage) if time - outage.last < QUIET => {}
            Some(outage) => {
                let decided = self.seen.since(outage.before);
                if decided != Decided::default() && (!outage.was_asked || self.throttle.admit(now).is_some()) {
                    let seconds = (outage.last - outage.began).0.div_ceil(1_000_000);
                    info!("failure modes decide no more; in {seconds} s they have decided {decided}");
                }
                self.outage = None;
            }
        }
    }
}

impl Decided {
    fn since(&self, before: Self) -> Self {
        Self(std::array::from_fn(|mode| self.0[mode] - before.0[mode]))
    }
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.0.iter().sum();
        write!(f, "{total} limit{}", if total == 1 { "" } else { "s" })?;
        let each = FailureMode::ALL.iter().zip(self.0).filter(|(_, count)| *count > 0);
        each.enumerate().try_for_each(|(index, (mode, count))| {
            write!(f, "{} {count} {}", if index == 0 { ":" } else { "," }, mode.name())
        })
    }
}

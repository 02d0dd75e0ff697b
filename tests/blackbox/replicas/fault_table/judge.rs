//! What is promised whatever befalls Redis.

use std::time::Duration;

use super::super::faults::TWO_EPOCHS;
use super::super::figures::answer_times;
use super::super::history::{Answer, Asked, History};
use super::super::limit::Limit;
use super::super::load::FIRST_NEW_KEY;
use super::super::timeline::micros;
use super::REPLICAS;
use super::mode::{HOT_KEY, LOCAL_PART, Mode};
use super::outage::Outage;
use super::row::{Outcome, Reach, TIMEOUT};

/// Far longer than any request may wait, for machines that are busy.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What was under way when a fault began is decided by then.
const GRACE: Duration = Duration::from_millis(500);

/// The longest pause between two tries to reach Redis.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How much later a busy machine may do something.
const SLACK: Duration = Duration::from_secs(1);

/// A sentence for each promise that was broken.
pub(super) fn broken_promises(outcome: &Outcome) -> Vec<String> {
    let mut promises = Promises { outcome, broken: Vec::new() };
    promises.every_request_is_answered();
    for outage in &outcome.outages {
        if outcome.row.reach != Reach::Decides {
            promises.modes_decide_about_new_keys(outage);
            promises.modes_decide_about_the_hot_key(outage);
        }
        promises.local_keeps_its_limit(outage);
    }
    promises.limits_hold();
    promises.local_holds_throughout();
    promises.others_do_not_notice();
    promises.it_heals();
    promises.broken
}

struct Promises<'a> {
    outcome: &'a Outcome,
    broken: Vec<String>,
}

/// The only answers that a mode gives without its store.
fn answer_of(mode: Mode) -> Answer {
    match mode {
        Mode::Local | Mode::Open => Answer::Admitted,
        Mode::Closed => Answer::Refused,
        Mode::Unavailable => Answer::Unavailable,
    }
}

fn is_new(asked: &Asked) -> bool {
    asked.key >= FIRST_NEW_KEY
}

fn is_exceeded(history: &History, limit: &Limit) -> bool {
    history.worst(limit).is_some_and(|(_, worst)| worst.is_excess())
}

/// What is allowed while the bucket in the store and those of the replicas are spent at the same time.
fn with_that_of_the_store(limit: Limit) -> Limit {
    Limit::tokens(2 * limit.amount, 1).burst(2 * limit.burst)
}

/// Whether the machine had so much else to do that Redis may have been taken for slow.
fn is_slow<'a>(asked: impl IntoIterator<Item = &'a Asked>) -> bool {
    answer_times(asked)[1] > TIMEOUT.as_secs_f64() * 1e3 / 2.0
}

impl Promises<'_> {
    fn hold(&mut self, is_kept: bool, broken: impl FnOnce() -> String) {
        if !is_kept {
            self.broken.push(broken());
        }
    }

    /// The fault is not to blame for what takes long.
    fn is_slow_throughout(&self) -> bool {
        is_slow(self.outcome.asked().filter(|asked| !self.outcome.is_in_outage(asked)))
    }

    fn every_request_is_answered(&mut self) {
        let failed = self.outcome.asked().filter(|asked| asked.answer == Answer::Failed).count();
        self.hold(failed == 0, || format!("{failed} requests without an answer"));
        for mode in [Mode::Local, Mode::Open, Mode::Closed] {
            let errors = self.outcome.history(mode).count(Answer::Unavailable);
            self.hold(errors == 0, || format!("{errors} times UNAVAILABLE in {mode:?}"));
        }
        let longest = self.outcome.asked().map(|asked| asked.answered - asked.sent).max().unwrap_or_default();
        let is_in_time = longest <= micros(LONGEST_WAIT) || self.is_slow_throughout();
        self.hold(is_in_time, || format!("somebody waited {longest} µs"));
        // The first hit on a key passes, but where the mode says otherwise.
        for mode in [Mode::Local, Mode::Open] {
            let refused = self.outcome.history(mode).part(is_new).count(Answer::Refused);
            self.hold(refused == 0, || format!("{refused} first hits on a key refused in {mode:?}"));
        }
    }

    fn modes_decide_about_new_keys(&mut self, outage: &Outage) {
        let since = outage.begun + micros(GRACE);
        for mode in Mode::ALL {
            self.decides(mode, outage, |asked| is_new(asked) && asked.sent >= since);
        }
    }

    /// What was borrowed of it before is spent first, and who was refused is refused for a while.
    fn modes_decide_about_the_hot_key(&mut self, outage: &Outage) {
        let since = outage.begun + micros(TWO_EPOCHS + GRACE);
        for mode in [Mode::Open, Mode::Closed, Mode::Unavailable] {
            self.decides(mode, outage, |asked| asked.key == HOT_KEY && asked.sent >= since);
        }
    }

    fn decides(&mut self, mode: Mode, outage: &Outage, which: impl Fn(&Asked) -> bool) {
        let part = self.outcome.history(mode).part(|asked| outage.has(asked) && which(asked));
        let (all, right) = (part.asked.len(), part.count(answer_of(mode)));
        self.hold(all > 0 || self.is_slow_throughout(), || format!("nothing was asked of {mode:?} in the outage"));
        self.hold(right == all, || format!("{} of {all} answers are not those of {mode:?}", all - right));
    }

    /// On a key that nobody had asked for before, each replica admits its part, and so all together keep the limit. On
    /// others it also spends what it had borrowed.
    fn local_keeps_its_limit(&mut self, outage: &Outage) {
        let untouched = &outage.of_untouched_key;
        if self.outcome.row.reach != Reach::None {
            let is_exceeded = is_exceeded(untouched, &with_that_of_the_store(Mode::Local.limit()));
            return self.hold(!is_exceeded, || "with what the store lent they admitted too much".to_owned());
        }
        for replica in (0..REPLICAS).filter(|replica| outage.is_of(*replica)) {
            let part = untouched.part(|asked| asked.replica == replica);
            self.hold(!is_exceeded(&part, &LOCAL_PART), || format!("replica {replica} admitted more than its part"));
            let admitted = part.admitted(|_| true);
            self.hold(admitted >= LOCAL_PART.burst, || format!("replica {replica} admitted only {admitted}"));
            let is_hot = |asked: &Asked| asked.replica == replica && asked.key == HOT_KEY && outage.has(asked);
            let hot = self.outcome.history(Mode::Local).part(is_hot);
            let with_leases = LOCAL_PART.burst(LOCAL_PART.burst + Mode::Local.limit().burst);
            self.hold(!is_exceeded(&hot, &with_leases), || format!("replica {replica} admitted more than it held"));
        }
        self.hold(!is_exceeded(untouched, &Mode::Local.limit()), || "together they admitted too much".to_owned());
    }

    fn limits_hold(&mut self) {
        let outcome = self.outcome;
        let bursts = 1 + if outcome.row.forgets { outcome.outages.len() as u64 } else { 0 };
        for mode in [Mode::Closed, Mode::Unavailable] {
            let limit = mode.limit().burst(mode.limit().burst * bursts);
            self.hold(!is_exceeded(outcome.history(mode), &limit), || format!("{mode:?}: its limit was exceeded"));
        }
        for (mode, [fallback_before, fallback_after]) in &outcome.fallback {
            let mut holds = |when, fallback: &u64, part: History| {
                // Who passes without the store is not in its count.
                if *fallback == 0 || !mode.limit().admits_alone() {
                    let is_exceeded = is_exceeded(&part, &mode.limit());
                    self.hold(!is_exceeded, || format!("{mode:?}: its limit was exceeded {when} the fault"));
                }
            };
            let history = outcome.history(*mode);
            holds("before", fallback_before, history.part(|asked| outcome.is_before(asked)));
            holds("after", fallback_after, history.part(|asked| outcome.is_after(asked)));
        }
    }

    /// An outage is no second burst, and what was spent in it is not forgotten. A burst more is for what a replica could not
    /// know of the others when it began. One that has Redis has the whole limit while others still have their parts of it.
    fn local_holds_throughout(&mut self) {
        let outcome = self.outcome;
        if outcome.row.reach != Reach::None {
            return;
        }
        let limit = Mode::Local.limit();
        let bursts = 2 + if outcome.row.forgets { outcome.outages.len() as u64 } else { 0 };
        let cut_off = |outage: &Outage| (0..REPLICAS).filter(|replica| outage.is_of(*replica)).count() as u64;
        let time_apart = |outage: &Outage| {
            let is_of_all = cut_off(outage) == u64::from(REPLICAS);
            outage.healed_after + if is_of_all { 0 } else { outage.ended - outage.begun }
        };
        let apart: u64 = outcome.outages.iter().map(|outage| cut_off(outage) * time_apart(outage)).sum();
        let meanwhile = LOCAL_PART.amount * apart / LOCAL_PART.period();
        let hot = outcome.history(Mode::Local).part(|asked| asked.key == HOT_KEY);
        let is_exceeded = is_exceeded(&hot, &limit.burst(bursts * limit.burst + meanwhile));
        self.hold(!is_exceeded, || format!("Local: more than {bursts} bursts were added throughout"));
    }

    /// Replicas for which there is no fault are answered by the store meanwhile.
    fn others_do_not_notice(&mut self) {
        for outage in self.outcome.outages.iter().filter(|outage| !(0..REPLICAS).all(|replica| outage.is_of(replica))) {
            let is_other = |asked: &Asked| {
                !outage.is_of(asked.replica) && asked.sent >= outage.begun && asked.answered <= outage.ended
            };
            // One that had its own outage just before may still be about to heal.
            self.is_served(is_other, "without a fault");
        }
    }

    fn it_heals(&mut self) {
        let outcome = self.outcome;
        let longest = micros(LONGEST_PAUSE.mul_f64(1.5) + SLACK);
        for Outage { ended, healed_after, .. } in &outcome.outages {
            let since = outcome.history(Mode::Unavailable).part(|asked| is_new(asked) && asked.sent >= *ended);
            let is_in_time = *healed_after <= longest || is_slow(&since.asked);
            self.hold(is_in_time, || format!("healed after {healed_after} of {longest} µs"));
        }
        self.is_served(|asked| outcome.is_after(asked), "after the fault");
        let hot = outcome.history(Mode::Closed).part(|asked| asked.key == HOT_KEY && outcome.is_after(asked));
        let (Some(first), Some(last)) = (hot.asked.first(), hot.asked.last()) else {
            return self.hold(false, || "nothing was asked after the fault".to_owned());
        };
        let limit = Mode::Closed.limit();
        let (admitted, flows_back) = (hot.admitted(|_| true), limit.amount * (last.sent - first.sent) / limit.period());
        let is_used = 2 * admitted >= flows_back || is_slow(&hot.asked);
        self.hold(is_used, || format!("of {flows_back} hits {admitted} were admitted after the fault"));
    }

    /// Hardly any of these requests was without its store. Not judged where that may be the machine's fault.
    fn is_served(&mut self, which: impl Fn(&Asked) -> bool, when: &str) {
        let part = self.outcome.history(Mode::Unavailable).part(|asked| is_new(asked) && which(asked));
        let (all, unavailable) = (part.asked.len(), part.count(Answer::Unavailable));
        let is_served = all > 0 && (unavailable * 20 <= all || is_slow(&part.asked));
        self.hold(is_served, || format!("{unavailable} of {all} requests were without the store {when}"));
    }
}

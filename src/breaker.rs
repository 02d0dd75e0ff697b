//! When to stop asking a server, and when to ask it again.
//!
//! ```text
//!              too many failures
//!    closed ───────────────────────> open <──────┐
//!      ^                              │          │ the probe fails:
//!      │                              │ pause    │ a longer pause
//!      │   the probe succeeds         v          │
//!      └────────────────────────── half-open ────┘
//! ```
//!
//! While it is closed every call is permitted. While it is open or half-open none is: what is tried then is one probe of our
//! own, in the background, so no request ever waits for a server that is known to be in trouble.
//!
//! When it closes, the server is asked little by little: 16 calls at a time at first, and one more after each that succeeds,
//! for some seconds at most, so that one that has just come back is not trampled by all who have waited for it. This is the
//! slow start of TCP (RFC 5681), where the number doubles with each round trip, too.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::random;

/// It opens after so many failures in a row.
pub const MOST_FAILURES: u32 = 5;

/// It opens, too, when of at least so many calls in the last [`WINDOW`] seconds more than half have failed.
const FEWEST_CALLS: u32 = 20;
const WINDOW: usize = 10;

/// The first pause before a probe, and the longest. Each is twice the one before, and its upper half is random.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// So many calls may be under way at a time when it has just closed, and when there may be so many the rest may follow.
const FIRST_CALLS: u32 = 16;
const MANY_CALLS: u32 = 1_000;

/// An outage that follows the last one so soon is the same: pauses go on from where they were.
const SETTLED: Duration = Duration::from_secs(10);

/// Whether calls are permitted.
#[derive(Debug)]
pub struct Breaker {
    /// How often it has changed: even numbers are closed.
    changes: AtomicU64,
    history: Mutex<History>,
    /// Tells everybody who waits for it that it has opened.
    opened: Notify,
    /// Permits that are out, and how many may be.
    under_way: AtomicU32,
    most_under_way: AtomicU32,
}

#[derive(Debug)]
struct History {
    recent: Recent,
    /// Of the last failure.
    cause: String,
    /// `None` while it is closed.
    open_since: Option<Instant>,
    /// How long it was open before.
    time_open: Duration,
    is_probing: bool,
}

impl Default for Breaker {
    fn default() -> Self {
        let history = History {
            recent: Recent::new(),
            cause: String::new(),
            open_since: None,
            time_open: Duration::ZERO,
            is_probing: false,
        };
        Self {
            changes: AtomicU64::new(0),
            history: Mutex::new(history),
            opened: Notify::new(),
            under_way: AtomicU32::new(0),
            most_under_way: AtomicU32::new(u32::MAX),
        }
    }
}

/// What a breaker has come to, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerReport {
    pub state: State,
    /// How often it has opened, and closed again.
    pub opened: u64,
    pub closed: u64,
    /// How long it has not been closed, in all.
    pub time_open: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Closed,
    HalfOpen,
    Open,
}

impl Breaker {
    #[must_use]
    pub fn report(&self) -> BreakerReport {
        let history = self.history.lock();
        let changes = self.changes.load(Ordering::Acquire);
        let state = match changes.is_multiple_of(2) {
            true => State::Closed,
            false if history.is_probing => State::HalfOpen,
            false => State::Open,
        };
        let time_open = history.time_open + history.open_since.map_or(Duration::ZERO, |since| since.elapsed());
        BreakerReport { state, opened: changes.div_ceil(2), closed: changes / 2, time_open }
    }

    /// The right to make a call, while it is closed and not too many are under way.
    pub fn permit(&self) -> Option<Permit<'_>> {
        let given = self.changes.load(Ordering::Acquire);
        if !given.is_multiple_of(2) {
            return None;
        }
        if self.under_way.fetch_add(1, Ordering::AcqRel) >= self.most_under_way.load(Ordering::Acquire) {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Permit { breaker: self, given, is_told: false })
    }

    /// Something has failed that was no call: a request has waited in vain for what others had asked, or there is no
    /// connection to be had. It counts for the failures in a row, but not among the calls of the last seconds, because nobody
    /// tells when it goes well.
    pub fn count_failure(&self, cause: &str) {
        let mut history = self.history.lock();
        if self.is_closed() {
            cause.clone_into(&mut history.cause);
            history.recent.failures_in_a_row += 1;
            self.open_if_too_bad(&mut history);
        }
    }

    /// Ends when it is open.
    pub async fn opened(&self) {
        let opened = self.opened.notified();
        if self.is_closed() {
            opened.await;
        }
    }

    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.changes.load(Ordering::Acquire).is_multiple_of(2)
    }

    /// Why a call failed last.
    #[must_use]
    pub fn cause(&self) -> String {
        self.history.lock().cause.clone()
    }

    /// Goes from state to state for ever, which must be run for it to close again. A pause ends early when `wake_early` does:
    /// there may be something to find then. `possible` ends when there is something to try, and `probe` tries it and says
    /// whether the server answers as it should. `name` is for the log.
    pub async fn run<W: Future<Output = ()>, C: Future<Output = ()>, P: Future<Output = bool>>(
        &self,
        name: &str,
        mut wake_early: impl FnMut() -> W,
        mut possible: impl FnMut() -> C,
        mut probe: impl FnMut() -> P,
    ) {
        let mut pauses = Pauses::default();
        loop {
            let closed_since = Instant::now();
            if timeout(SETTLED, self.opened()).await.is_err() {
                self.most_under_way.store(u32::MAX, Ordering::Release);
                self.opened().await;
            }
            if closed_since.elapsed() >= SETTLED {
                pauses = Pauses::default();
            }
            warn!("{name} is asked no more, and failure modes decide, until it answers again: {}", self.cause());
            loop {
                // Whichever ends first, a probe follows.
                let _ = timeout(pauses.next(), wake_early()).await;
                possible().await;
                self.history.lock().is_probing = true;
                let is_well = probe().await;
                self.history.lock().is_probing = false;
                if is_well {
                    break;
                }
            }
            let time_open = self.close();
            info!("{name} is asked again, after {:.1} s", time_open.as_secs_f64());
        }
    }

    /// Returns how long it was open.
    fn close(&self) -> Duration {
        let mut history = self.history.lock();
        let time_open = history.open_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        (history.recent, history.time_open) = (Recent::new(), history.time_open + time_open);
        self.most_under_way.store(FIRST_CALLS, Ordering::Release);
        self.changes.fetch_add(1, Ordering::AcqRel);
        time_open
    }

    /// One more call may be under way, or any number if there may be so many already.
    fn allow_more(&self) {
        let more = |most| (most != u32::MAX).then(|| if most < MANY_CALLS { most + 1 } else { u32::MAX });
        // An error means that any number may be already.
        let _ = self.most_under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    }

    fn take_note(&self, given: u64, outcome: Result<(), &str>) {
        let mut history = self.history.lock();
        // What was permitted before the last change says nothing about now.
        if self.changes.load(Ordering::Acquire) != given {
            return;
        }
        if let Err(cause) = outcome {
            cause.clone_into(&mut history.cause);
        }
        history.recent.record(outcome.is_ok());
        self.open_if_too_bad(&mut history);
    }

    fn open_if_too_bad(&self, history: &mut History) {
        if history.recent.is_too_bad() {
            history.open_since = Some(Instant::now());
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.opened.notify_waiters();
        }
    }
}

/// The right to make one call. Dropped without a word, it counts as a failure.
#[derive(Debug)]
pub struct Permit<'a> {
    breaker: &'a Breaker,
    /// The number of changes when it was given.
    given: u64,
    is_told: bool,
}

impl Permit<'_> {
    pub fn succeeded(mut self) {
        self.tell(Ok(()));
    }

    pub fn failed(mut self, cause: &str) {
        self.tell(Err(cause));
    }

    fn tell(&mut self, outcome: Result<(), &str>) {
        if !std::mem::replace(&mut self.is_told, true) {
            self.breaker.under_way.fetch_sub(1, Ordering::AcqRel);
            if outcome.is_ok() {
                self.breaker.allow_more();
            }
            self.breaker.take_note(self.given, outcome);
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.tell(Err("a call was given up"));
    }
}

/// What has become of calls lately.
#[derive(Debug)]
struct Recent {
    failures_in_a_row: u32,
    /// Calls and failures in each of the last seconds, by the second's number; what is older is overwritten.
    seconds: [Second; WINDOW],
    since: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    number: u64,
    calls: u32,
    failures: u32,
}

impl Recent {
    fn new() -> Self {
        Self { failures_in_a_row: 0, seconds: [Second::default(); WINDOW], since: Instant::now() }
    }

    fn record(&mut self, is_success: bool) {
        self.failures_in_a_row = if is_success { 0 } else { self.failures_in_a_row + 1 };
        let number = self.since.elapsed().as_secs();
        let second = &mut self.seconds[usize::try_from(number % WINDOW as u64).unwrap_or(0)];
        if second.number != number {
            *second = Second { number, ..Second::default() };
        }
        second.calls += 1;
        second.failures += u32::from(!is_success);
    }

    fn is_too_bad(&self) -> bool {
        let oldest = (self.since.elapsed().as_secs() + 1).saturating_sub(WINDOW as u64);
        let in_window = self.seconds.iter().filter(|second| second.number >= oldest);
        let (calls, failures) =
            in_window.fold((0, 0), |(calls, failures), second| (calls + second.calls, failures + second.failures));
        self.failures_in_a_row >= MOST_FAILURES || (calls >= FEWEST_CALLS && 2 * failures > calls)
    }
}

/// How long to wait before each probe.
#[derive(Debug)]
struct Pauses {
    longest: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { longest: FIRST_PAUSE }
    }
}

impl Pauses {
    fn next(&mut self) -> Duration {
        let longest = self.longest;
        self.longest = (2 * longest).min(LONGEST_PAUSE);
        random::between(longest / 2, longest)
    }
}

#[cfg(test)]
mod tests;

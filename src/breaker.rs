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
//! When failures are too many is decided by the policies of the crate `failsafe`. Its state machine is not used: half-open,
//! it permits every call at once, and its clock cannot be paused by a test.

use std::iter::{Repeat, repeat};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use failsafe::FailurePolicy;
use failsafe::failure_policy::{
    ConsecutiveFailures, OrElse, SuccessRateOverTimeWindow, consecutive_failures, success_rate_over_time_window,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::random;

/// It opens after so many failures in a row.
pub const MOST_FAILURES: u32 = 5;

/// It opens, too, if a smaller part of the calls than this succeeds, once there were [`FEWEST_CALLS`] in a [`WINDOW`].
const SUCCESS_RATE: f64 = 0.5;
const FEWEST_CALLS: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// The first pause before a probe, and the longest. Each is twice the one before, and its upper half is random.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An outage that follows the last one so soon is the same: pauses go on from where they were.
const SETTLED: Duration = Duration::from_secs(1);

/// Whether calls are permitted.
#[derive(Debug)]
pub struct Breaker {
    /// How often it has changed: even numbers are closed.
    changes: AtomicU64,
    history: Mutex<History>,
    tripped: Notify,
}

#[derive(Debug)]
struct History {
    policy: Policy,
    /// Of the last failure.
    cause: String,
}

/// The policies are asked whether, and not for how long.
type Policy = OrElse<ConsecutiveFailures<Repeat<Duration>>, SuccessRateOverTimeWindow<Repeat<Duration>>>;

impl Default for Breaker {
    fn default() -> Self {
        let at_once = repeat(Duration::ZERO);
        let in_a_row = consecutive_failures(MOST_FAILURES, at_once.clone());
        let of_many = success_rate_over_time_window(SUCCESS_RATE, FEWEST_CALLS, WINDOW, at_once);
        let history = Mutex::new(History { policy: in_a_row.or_else(of_many), cause: String::new() });
        Self { changes: AtomicU64::new(0), history, tripped: Notify::new() }
    }
}

impl Breaker {
    /// The right to make a call, while it is closed.
    pub fn permit(&self) -> Option<Permit<'_>> {
        let given = self.changes.load(Ordering::Acquire);
        given.is_multiple_of(2).then(|| Permit { breaker: self, given, is_told: false })
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

    /// Goes from state to state for ever, which must be run for it to close again. `probe` tries the server, and returns
    /// when it has answered as it should, or has not. A pause ends early when `promising` does: there may be something to
    /// find then. `name` is for the log.
    pub async fn run<H: Future<Output = ()>, P: Future<Output = bool>>(
        &self,
        name: &str,
        mut promising: impl FnMut() -> H,
        mut probe: impl FnMut() -> P,
    ) {
        let mut pauses = Pauses::default();
        loop {
            let closed_since = Instant::now();
            self.closed().await;
            if closed_since.elapsed() >= SETTLED {
                pauses = Pauses::default();
            }
            let opened_at = Instant::now();
            warn!("{name} is asked no more, and failure modes decide, until it answers again: {}", self.cause());
            loop {
                open(pauses.next(), promising()).await;
                if half_open(probe()).await {
                    break;
                }
            }
            self.close();
            info!("{name} is asked again, after {:.1} s", opened_at.elapsed().as_secs_f64());
        }
    }

    /// Ends when there were too many failures. Whoever reports the last of them has opened it already.
    async fn closed(&self) {
        self.tripped.notified().await;
    }

    fn close(&self) {
        self.history.lock().policy.revived();
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn report(&self, given: u64, outcome: Result<(), &str>) {
        let mut history = self.history.lock();
        // What was permitted before the last change says nothing about now.
        if self.changes.load(Ordering::Acquire) != given {
            return;
        }
        let Err(cause) = outcome else { return history.policy.record_success() };
        cause.clone_into(&mut history.cause);
        if history.policy.mark_dead_on_failure().is_some() {
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.tripped.notify_one();
        }
    }
}

async fn open(pause: Duration, promising: impl Future<Output = ()>) {
    // Whichever it was, a probe follows.
    let _ = timeout(pause, promising).await;
}

async fn half_open(probe: impl Future<Output = bool>) -> bool {
    probe.await
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
            self.breaker.report(self.given, outcome);
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.tell(Err("a call was given up"));
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

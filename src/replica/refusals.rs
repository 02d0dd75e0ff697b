use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tracing::{info, warn};

use crate::limit::{Micros, Now};
use crate::store::{Reply, StoreError};
use crate::throttle::Throttle;

/// What is told of a store that can be reached and does not do what it is asked.
#[derive(Debug)]
pub(super) struct Refusals {
    /// What was told lately, by its kind: `OOM`, `NOPERM`. Each is told once in a while.
    told: Mutex<Vec<(String, Throttle)>>,
    is_refusing: AtomicBool,
    /// The time of the last refusal, in µs.
    last: AtomicU64,
    /// It has done something since then.
    has_done: AtomicBool,
}

impl Refusals {
    /// A store may refuse some calls and do others. Only when none was refused for so long does it do them all again.
    const QUIET: Micros = Micros::from_seconds(5);

    /// How often each kind is told.
    const PAUSE: Micros = Micros::from_seconds(60);

    /// More kinds than these count as one.
    const MOST_KINDS: usize = 16;

    pub(super) fn new() -> Self {
        Self {
            told: Mutex::default(),
            is_refusing: AtomicBool::new(false),
            last: AtomicU64::new(0),
            has_done: AtomicBool::new(false),
        }
    }

    /// Takes note of an answer. Who keeps the connection tells of those that did not come.
    pub(super) fn hear(&self, answer: &Result<Reply, StoreError>, now: Now) {
        match answer {
            Ok(_) if self.is_refusing.load(Ordering::Relaxed) => self.has_done.store(true, Ordering::Relaxed),
            Ok(_) | Err(StoreError::Unreachable(_) | StoreError::Lost(_)) => {}
            Err(error) => {
                self.last.store(now.monotonic.0, Ordering::Relaxed);
                self.has_done.store(false, Ordering::Relaxed);
                self.is_refusing.store(true, Ordering::Relaxed);
                if let Some(passed_over) = self.admit(error, now) {
                    warn!(passed_over, "{error}; failure modes decide until this is mended");
                }
            }
        }
    }

    fn admit(&self, error: &StoreError, now: Now) -> Option<u64> {
        // Redis's errors begin with a word for their kind. That it is another server's turn is told in several ways.
        let kind = match error {
            StoreError::Misrouted(_) => error.kind(),
            _ => error.cause().split_whitespace().next().unwrap_or_default(),
        };
        let mut told = self.told.lock();
        let known = told.iter().position(|(known, _)| known == kind);
        let index = known.unwrap_or_else(|| {
            if told.len() < Self::MOST_KINDS {
                told.push((kind.to_owned(), Throttle::new(Self::PAUSE)));
            }
            told.len() - 1
        });
        told[index].1.admit(now)
    }

    /// Tells that it is over, if it is.
    pub(super) fn tell_of_end(&self, now: Now) {
        let is_quiet = now.monotonic - Micros(self.last.load(Ordering::Relaxed)) >= Self::QUIET;
        if is_quiet && self.has_done.swap(false, Ordering::Relaxed) {
            self.is_refusing.store(false, Ordering::Relaxed);
            info!("the store does what it is asked again");
        }
    }
}

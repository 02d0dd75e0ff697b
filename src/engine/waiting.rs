use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::ActivePolicy;
use super::decision::{Decision, Unavailable};
use super::lease::{Grant, Portions};
use crate::cause::Cause;
use crate::limit::Micros;
use crate::request::RateLimitRequest;

/// A request that waits for the store.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) request: RateLimitRequest,
    /// The policy by which it is decided. With it and the request the question can be asked again.
    pub(super) active: Arc<ActivePolicy>,
    /// It is decided by then, whatever the store does.
    pub(super) deadline: Micros,
    /// Itself as it is traced, if it is.
    pub(super) cause: OnceLock<Cause>,
    /// `None` from when somebody decides it.
    claim: Mutex<Option<Claim>>,
}

/// What it takes to decide a request. Whoever has it decides.
#[derive(Debug)]
pub(super) struct Claim {
    /// By the index of the check.
    pub(super) outcomes: SmallVec<[Outcome; 2]>,
    /// Tells the one who waits.
    pub(super) tell: oneshot::Sender<Result<Decision, Unavailable>>,
}

/// What has become of one check of a request that waits.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Nobody knows yet.
    Unknown,
    /// It needs no answer of the store, and is tried when all the others are known.
    AtTheEnd,
    /// Its hits have been set aside, or granted by the store.
    Passes { aside: Portions, grant: Option<Grant> },
    /// The store, or what is known of it, refuses.
    Refused,
    /// The store has been asked, and nothing need be undone whatever becomes of the request.
    Told { passes: bool },
    /// The store cannot say. A call that was made for it `may_have_run`.
    Failed { may_have_run: bool },
}

impl Outcome {
    pub(super) const FAILED: Self = Self::Failed { may_have_run: false };

    pub(super) const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// Whether more is to come after an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    Complete,
}

impl WaitingRequest {
    pub(super) fn new(
        request: &RateLimitRequest,
        active: &Arc<ActivePolicy>,
        deadline: Micros,
        outcomes: SmallVec<[Outcome; 2]>,
    ) -> (Arc<Self>, oneshot::Receiver<Result<Decision, Unavailable>>) {
        let (tell, decision) = oneshot::channel();
        let claim = Mutex::new(Some(Claim { outcomes, tell }));
        let (request, active) = (request.clone(), Arc::clone(active));
        (Arc::new(Self { request, active, deadline, cause: OnceLock::new(), claim }), decision)
    }

    /// Takes note of what has become of a check. Gives the outcome back if the request is decided already.
    pub(super) fn resolve(&self, check: usize, outcome: Outcome) -> Result<Progress, Outcome> {
        let mut claim = self.claim.lock();
        let Some(Claim { outcomes, .. }) = &mut *claim else { return Err(outcome) };
        debug_assert!(matches!(outcomes[check], Outcome::Unknown), "a check is resolved once");
        outcomes[check] = outcome;
        let waits = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unknown));
        Ok(if waits { Progress::Waits } else { Progress::Complete })
    }

    /// Begins to decide it; what comes later is too late. `None` if somebody else has begun.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.claim.lock().take()
    }
}

/// A check of a request that waits.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) request: Arc<WaitingRequest>,
    pub(super) check: usize,
}

impl PartialEq for Seat {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.request, &other.request) && self.check == other.check
    }
}

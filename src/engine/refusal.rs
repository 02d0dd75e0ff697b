use super::decision::{Enforcement, Prevention, Status};
use super::trial::Trial;
use crate::limit::Now;

/// Who refuses a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    /// At least one enforced limit.
    pub(super) by_limit: bool,
    /// It has quotas, and all of them are used up.
    pub(super) by_quotas: bool,
}

impl Refusal {
    /// By what is known: a limit of which nothing is known does not refuse. `has_unlimited_quota` says that one of the
    /// request's quotas is without a limit.
    pub(super) fn of(trials: &[Trial<'_>], has_unlimited_quota: bool) -> Self {
        let (mut by_limit, mut has_quota, mut has_quota_left) = (false, false, has_unlimited_quota);
        for descriptor in by_descriptor(trials) {
            let passes = descriptor.iter().all(|trial| !trial.refuses());
            match descriptor[0].check.enforcement {
                Enforcement::Enforced => by_limit |= !passes,
                Enforcement::Quota => {
                    has_quota = true;
                    has_quota_left |= passes;
                }
                Enforcement::Shadow => {}
            }
        }
        Self { by_limit, by_quotas: has_quota && !has_quota_left }
    }

    pub(super) const fn is_refused(self) -> bool {
        self.by_limit || self.by_quotas
    }

    /// Why a limit that is over has no part in the refusal; `None` if it has.
    pub(super) const fn prevention(self, enforcement: Enforcement) -> Option<Prevention> {
        match enforcement {
            Enforcement::Shadow => Some(Prevention::ShadowMode),
            Enforcement::Quota if !self.by_quotas => Some(Prevention::QuotaMode),
            Enforcement::Enforced | Enforcement::Quota => None,
        }
    }
}

pub(super) fn by_descriptor<'t, 'p>(trials: &'t [Trial<'p>]) -> impl Iterator<Item = &'t [Trial<'p>]> {
    trials.chunk_by(|one, other| one.check.descriptor == other.check.descriptor)
}

/// Of the limits of one descriptor, the one that its status shows: the one that refuses with the longest wait, else
/// the one with least left.
pub(super) fn strictest_status(descriptor: &[Trial<'_>], now: Now) -> Option<Status> {
    descriptor
        .iter()
        .map(|trial| trial.status(now))
        .reduce(|strictest, other| if is_stricter(&other, &strictest) { other } else { strictest })
}

fn is_stricter(status: &Status, other: &Status) -> bool {
    match (status.is_over, other.is_over) {
        (true, true) => status.seconds_until_reset > other.seconds_until_reset,
        (false, false) => status.remaining < other.remaining,
        (is_over, _) => is_over,
    }
}

//! The engine decides: it finds a request's limits in the policy, and takes from their buckets all or nothing.

mod counts;
mod decision;
mod explain;
mod key;
mod name;
mod question;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod trial;

use std::sync::Arc;

use arc_swap::ArcSwap;
use smallvec::SmallVec;

pub use counts::{Count, Counts};
pub use decision::{Code, CurrentLimit, Decision, InvalidRequest, Source, Status};
pub use explain::{ExplainedEntry, ExplainedLimit, Explanation, Outcome};
pub use name::{BucketName, NameError};
pub use state::{BucketReport, BucketState, Presence};
pub use table::Table;

use crate::limit::Now;
use crate::policy::{Defaults, Policy};
use crate::request::RateLimitRequest;
use key::{KeyHasher, KeySeed};
use question::{Enforcement, Question, validate};
use trial::{Refusal, Trial, by_descriptor, strictest_status};

/// How an [`Engine`] decides, whatever the policy is.
#[derive(Clone, Copy, Debug)]
pub struct EngineSettings {
    /// The most buckets that are kept, at least 1.
    pub max_buckets: usize,
    /// Every request passes; its statuses tell what would have happened.
    pub shadow_mode: bool,
    /// What a request's own limit is, besides its amount and unit.
    pub defaults: Defaults,
}

/// Decides requests from the policy and the buckets in memory.
#[derive(Debug)]
pub struct Engine {
    policy: ArcSwap<Policy>,
    table: Table,
    seed: KeySeed,
    settings: EngineSettings,
    counts: Counts,
}

impl Engine {
    #[must_use]
    pub fn new(policy: Policy, settings: EngineSettings) -> Self {
        Self {
            policy: ArcSwap::from_pointee(policy),
            table: Table::new(settings.max_buckets),
            seed: KeySeed::random(),
            settings,
            counts: Counts::default(),
        }
    }

    /// Decides a request at the time `now`. It neither waits nor reads a clock.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`] where the message is none that Envoy sends. Nothing is taken then.
    pub fn decide(&self, request: &RateLimitRequest, now: Now) -> Result<Decision, InvalidRequest> {
        validate(request)?;
        let policy = self.policy.load();
        let decision = if let Some(domain) = policy.domain(&request.domain) {
            let way_to_domain = KeyHasher::new(&self.seed, &request.domain);
            self.answer(Question::new(request, domain, &way_to_domain, self.settings.defaults), now)
        } else {
            self.counts.unknown_domain.increment();
            let statuses = SmallVec::from_elem(Status::NO_LIMIT, request.descriptors.len());
            Decision { code: Code::Ok, source: Source::Unlimited, statuses }
        };
        match decision.code {
            Code::Ok => self.counts.ok.increment(),
            Code::OverLimit => self.counts.over_limit.increment(),
        }
        Ok(decision)
    }

    /// Takes from the buckets, all or nothing, and says what each descriptor met.
    fn answer(&self, question: Question<'_>, now: Now) -> Decision {
        let Question { checks, mut statuses, has_unlimited_quota } = question;
        let mut buckets = self.table.lock(checks.iter().map(|check| check.key));
        let mut trials: SmallVec<[Trial<'_>; 2]> =
            checks.into_iter().map(|check| Trial::begin(check, &mut buckets, now)).collect();
        let refusal = Refusal::of(&trials, has_unlimited_quota);
        let is_enforced = refusal.is_refused() && !self.settings.shadow_mode;
        if is_enforced {
            for trial in trials.iter().rev() {
                trial.undo(&mut buckets, now);
            }
            // An overdraft is charged whatever the others say.
            for trial in trials.iter().filter(|trial| trial.is_overdraft()) {
                trial.redo(&mut buckets, now);
            }
            for trial in &mut trials {
                trial.look_again(&mut buckets, now);
            }
        }
        drop(buckets);

        self.count_would_be_refusals(&trials, refusal, is_enforced);
        for descriptor in by_descriptor(&trials) {
            let check = &descriptor[0].check;
            if let Some(status) = strictest_status(descriptor, now) {
                let refuses = status.is_over && is_enforced && refusal.involves(check.enforcement);
                statuses[check.descriptor] = Status { refuses, ..status };
            }
        }
        Decision {
            code: if is_enforced { Code::OverLimit } else { Code::Ok },
            source: if trials.is_empty() { Source::Unlimited } else { Source::Local },
            statuses,
        }
    }

    fn count_would_be_refusals(&self, trials: &[Trial<'_>], refusal: Refusal, is_enforced: bool) {
        if refusal.is_refused() && !is_enforced {
            self.counts.would_refuse_in_service_shadow.increment();
        }
        for trial in trials.iter().filter(|trial| !trial.passes) {
            match trial.check.enforcement {
                Enforcement::Shadow => self.counts.would_refuse_in_shadow.increment(),
                Enforcement::Quota if !refusal.is_refused() => self.counts.would_refuse_in_quota.increment(),
                Enforcement::Quota | Enforcement::Enforced => {}
            }
        }
    }

    /// Removes idle buckets from one of `parts` parts of the table.
    pub fn sweep(&self, now: Now, parts: usize) {
        self.table.sweep(now, parts);
    }

    /// Replaces the policy. Buckets whose identity stays keep their state.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// The policy that is served now.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }
}

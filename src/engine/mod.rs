//! The engine decides: it finds a request's limits in the policy, and takes from their buckets all or nothing.

mod counts;
mod decision;
mod explain;
mod key;
mod name;
mod question;
mod state;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod trial;

use std::sync::Arc;

use arc_swap::ArcSwap;
use smallvec::SmallVec;

pub use counts::{Count, Counts};
pub use decision::{Code, CurrentLimit, Decision, Enforcement, InvalidRequest, Prevention, Source, Status};
pub use explain::{ExplainedEntry, ExplainedLimit, Explanation, Outcome};
pub use name::{BucketName, NameError};
pub use state::{BucketReport, BucketState, Presence};
pub use table::Table;
pub use tally::{DomainTallies, Tallies, Tally};

use crate::limit::{Micros, Now};
use crate::policy::{Defaults, Policy};
use crate::request::RateLimitRequest;
use key::{KeyHasher, KeySeed};
use question::{Question, validate};
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
    active: ArcSwap<ActivePolicy>,
    table: Table,
    seed: KeySeed,
    settings: EngineSettings,
    counts: Counts,
}

/// A policy in force, and what its rules have decided.
#[derive(Debug)]
pub struct ActivePolicy {
    pub policy: Policy,
    /// Since when, in monotonic time.
    pub since: Micros,
    pub tallies: Tallies,
}

impl ActivePolicy {
    fn new(policy: Policy, now: Now) -> Self {
        Self { tallies: Tallies::of(&policy), policy, since: now.monotonic }
    }
}

impl Engine {
    /// An engine whose policy is in force from `now` on.
    #[must_use]
    pub fn new(policy: Policy, settings: EngineSettings, now: Now) -> Self {
        Self {
            active: ArcSwap::from_pointee(ActivePolicy::new(policy, now)),
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
        let active = self.active.load();
        let decision = if let Some(domain) = active.policy.domain(&request.domain) {
            let path_to_domain = KeyHasher::new(&self.seed, &request.domain);
            let question = Question::new(request, &active.tallies, domain, &path_to_domain, self.settings.defaults);
            self.answer(question, now)
        } else {
            self.counts.unknown_domain.increment();
            let statuses: SmallVec<[Status; 4]> = SmallVec::from_elem(Status::NO_LIMIT, request.descriptors.len());
            statuses.iter().for_each(|status| active.tallies.unknown_domain.count(status));
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
        let Question { checks, mut statuses, tallies, has_unlimited_quota } = question;
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

        for descriptor in by_descriptor(&trials) {
            let check = &descriptor[0].check;
            if let Some(mut status) = strictest_status(descriptor, now) {
                if status.is_over {
                    let in_shadow = || (!is_enforced).then_some(Prevention::ServiceShadowMode);
                    status.prevented_by = refusal.prevention(check.enforcement).or_else(in_shadow);
                }
                statuses[check.descriptor] = status;
            }
        }
        for (tally, status) in tallies.iter().zip(&statuses) {
            tally.count(status);
        }
        Decision {
            code: if is_enforced { Code::OverLimit } else { Code::Ok },
            source: if trials.is_empty() { Source::Unlimited } else { Source::Local },
            statuses,
        }
    }

    /// Removes idle buckets from one of `parts` parts of the table.
    pub fn sweep(&self, now: Now, parts: usize) {
        self.table.sweep(now, parts);
    }

    /// Replaces the policy. Buckets whose identity stays keep their state; tallies begin anew.
    pub fn set_policy(&self, policy: Policy, now: Now) {
        self.active.store(Arc::new(ActivePolicy::new(policy, now)));
    }

    /// The policy that is served now, with its tallies.
    #[must_use]
    pub fn active(&self) -> Arc<ActivePolicy> {
        self.active.load_full()
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

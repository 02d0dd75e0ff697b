//! The engine decides: it finds a request's limits in the policy, and takes from their buckets all or nothing.

mod agenda;
mod borrower;
mod counts;
mod debtors;
mod decision;
mod explain;
mod fallback;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod key;
mod lease;
mod loads;
mod name;
mod question;
mod queue;
mod refusal;
mod renew;
mod state;
mod table;
mod tally;
mod terms;
#[cfg(test)]
mod tests;
mod trial;
mod values;
mod waiting;

use std::sync::Arc;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tokio::sync::oneshot;

pub use borrower::Call;
pub use counts::{Counts, Leased};
pub use decision::{
    Code, CurrentLimit, Decision, Enforcement, InvalidRequest, Prevention, Source, Status, Unavailable,
};
pub use explain::{ExplainedEntry, ExplainedLimit, Explanation, Outcome};
pub use key::{BucketKey, KeyHasher, KeySeed};
pub use lease::LeaseSettings;
pub use loads::{LoadFault, Loads};
pub use name::{BucketName, NameError, limit_suffix};
pub use question::Tier;
pub use state::{BucketReport, BucketState, LeaseState, Presence, StoreState};
pub use table::Table;
pub use tally::{DomainTallies, Tallies, Tally};
pub use values::ValueTallies;

use crate::cause::Cause;
use crate::limit::{Bucket, Hits, Micros, Now};
use crate::policy::{Defaults, Domain, FailureMode, Faults, Policy};
use crate::request::RateLimitRequest;
use crate::store::shortened;
use agenda::Agenda;
use borrower::{Borrower, Waiter};
use debtors::Debtors;
use lease::Portions;
use question::{Check, Question, Silence, hits_asked, validate};
use refusal::{Refusal, by_descriptor, strictest_status};
use renew::Ending;
use table::{Locked, Record, Slot};
use terms::Terms;
use trial::{Effect, Trial, Verdict};
use waiting::{Seat, WaitingRequest};

/// How an [`Engine`] decides, whatever the policy is.
#[derive(Clone, Copy, Debug)]
pub struct EngineSettings {
    /// The most buckets that are kept, at least 1.
    pub max_buckets: usize,
    /// Every request passes; its statuses tell what would have happened.
    pub shadow_mode: bool,
    /// What a request's own limit is, besides its amount and unit.
    pub defaults: Defaults,
    /// What limits do that do not say what they do without the store.
    pub failure_mode: FailureMode,
    /// So many percent of its part of a limit, 1 to 100, a replica lets pass alone while it cannot ask the store.
    pub local_percent: u8,
    /// Hits that pass while at least so many percent of a limit are used, 1 to 100, are near it.
    pub near_limit_percent: u8,
    /// So many values of a rule whose metrics name values are told apart.
    pub most_values: usize,
    /// The longest that a request waits for the store. `None` if there is none: all buckets are this process's own.
    pub store_timeout: Option<Micros>,
    pub lease: LeaseSettings,
    /// Where the random numbers begin that keep replicas from moving together.
    pub random_seed: u64,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            max_buckets: 1_000_000,
            shadow_mode: false,
            defaults: Defaults::default(),
            failure_mode: FailureMode::default(),
            local_percent: 90,
            near_limit_percent: 80,
            most_values: 100,
            store_timeout: None,
            lease: LeaseSettings::default(),
            random_seed: 0,
        }
    }
}

/// What came of a request, and which calls to make to the store. Whoever makes them brings the answers to
/// [`Engine::take_answer`].
#[derive(Debug)]
pub struct Ruling {
    pub answer: Answer,
    pub calls: Vec<Call>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all answers are decisions")]
pub enum Answer {
    Decided(Decision),
    Waiting(Waiting),
}

/// A request that waits for the store.
#[derive(Debug)]
pub struct Waiting {
    request: Arc<WaitingRequest>,
    /// Checks that wait for the answer to another's call, by their index, and the names of their buckets.
    behind: SmallVec<[(usize, Arc<str>); 1]>,
    /// Resolves when the request is decided.
    pub decision: oneshot::Receiver<Result<Decision, Unavailable>>,
}

/// What has become of a request that has waited as long as it may.
#[derive(Debug, Default)]
pub struct GivenUp {
    /// `None` if it has been decided in this very moment: the decision is on its way.
    pub decision: Option<Result<Decision, Unavailable>>,
    pub calls: Vec<Call>,
    /// Buckets of which others had asked the store, which has not answered.
    pub in_vain: SmallVec<[Arc<str>; 1]>,
}

impl Waiting {
    /// Notes that the request is traced. The calls that are made for it from now on say so.
    pub fn trace(&self, cause: &Cause) {
        // It is told once.
        let _ = self.request.cause.set(cause.clone());
    }

    /// By when it must be decided.
    #[must_use]
    pub fn deadline(&self) -> Micros {
        self.request.deadline
    }
}

/// The checks of one request, made.
type Trials<'p> = SmallVec<[Trial<'p>; 2]>;

/// Decides requests from the policy and the buckets in memory.
#[derive(Debug)]
pub struct Engine {
    active: ArcSwap<ActivePolicy>,
    table: Table,
    seed: KeySeed,
    silence: Silence,
    terms: Terms,
    agenda: Agenda,
    debtors: Debtors,
    settings: EngineSettings,
    counts: Counts,
    loads: Loads,
}

/// A policy in force, and what its rules have decided. It may be large: where it is made and dropped, nobody should wait.
#[derive(Debug)]
pub struct ActivePolicy {
    pub policy: Policy,
    /// Since when, in monotonic time.
    pub since: Micros,
    pub tallies: Tallies,
}

impl ActivePolicy {
    fn new(policy: Policy, before: Option<&Self>, now: Now) -> Self {
        Self { tallies: Tallies::of(&policy, before), policy, since: now.monotonic }
    }
}

impl Engine {
    /// An engine whose policy is in force from `now` on.
    #[must_use]
    pub fn new(policy: Policy, settings: EngineSettings, now: Now) -> Self {
        let loads = Loads::default();
        loads.succeeded();
        Self {
            loads,
            active: ArcSwap::from_pointee(ActivePolicy::new(policy, None, now)),
            table: Table::new(settings.max_buckets),
            seed: KeySeed::random(),
            silence: Silence {
                defaults: settings.defaults,
                failure_mode: settings.failure_mode,
                has_store: settings.store_timeout.is_some(),
            },
            terms: Terms::new(
                settings.lease,
                settings.store_timeout.unwrap_or_default(),
                settings.local_percent,
                settings.random_seed,
            ),
            agenda: Agenda::new(now.monotonic),
            debtors: Debtors::new(settings.max_buckets),
            settings,
            counts: Counts::default(),
        }
    }

    /// Decides a request at the time `now`, or says that it has to wait for the store. It neither waits itself nor reads
    /// a clock.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`] where the message is none that Envoy sends. Nothing is taken then.
    pub fn decide(&self, request: &RateLimitRequest, now: Now) -> Result<Ruling, InvalidRequest> {
        validate(request).inspect_err(|_| self.counts.invalid.increment())?;
        let active = self.active.load();
        let mut calls = Vec::new();
        let answer = if let Some(domain) = active.policy.domain(&request.domain) {
            self.answer(self.question(request, &active, domain), &active, now, &mut calls)
        } else {
            self.counts.unknown_domain.increment();
            let statuses: SmallVec<[Status; 4]> = SmallVec::from_elem(Status::NO_LIMIT, request.descriptors.len());
            for (status, descriptor) in statuses.iter().zip(&request.descriptors) {
                active.tallies.unknown_domain.count(status, hits_asked(descriptor, request.hits_addend));
            }
            self.counts.ok.increment();
            Answer::Decided(Decision { code: Code::Ok, source: Source::Unlimited, statuses })
        };
        Ok(Ruling { answer, calls })
    }

    fn question<'p>(
        &self,
        request: &'p RateLimitRequest,
        active: &'p ActivePolicy,
        domain: &'p Domain,
    ) -> Question<'p> {
        let path_to_domain = KeyHasher::new(&self.seed, &request.domain);
        Question::new(request, &active.tallies, domain, &path_to_domain, self.silence)
    }

    /// Takes from the buckets, all or nothing, and says what each descriptor met.
    fn answer(
        &self,
        mut question: Question<'_>,
        active: &Arc<ActivePolicy>,
        now: Now,
        calls: &mut Vec<Call>,
    ) -> Answer {
        let checks = std::mem::take(&mut question.checks);
        let mut buckets = self.table.lock(checks.iter().map(|check| check.key));
        let trials: Trials<'_> = checks.into_iter().map(|check| Trial::begin(check, &mut buckets, now)).collect();
        let refusal = Refusal::of(&trials, question.has_unlimited_quota);
        let is_refused = refusal.is_refused() && !self.settings.shadow_mode;
        if !is_refused && trials.iter().any(|trial| trial.verdict == Verdict::Unknown) {
            return Answer::Waiting(self.wait(&question, trials, active, buckets, now, calls));
        }
        Answer::Decided(self.conclude(question, trials, refusal, buckets, now, calls))
    }

    /// Asks the store for what cannot be decided without it.
    fn wait(
        &self,
        question: &Question<'_>,
        mut trials: Trials<'_>,
        active: &Arc<ActivePolicy>,
        mut buckets: Locked<'_>,
        now: Now,
        calls: &mut Vec<Call>,
    ) -> Waiting {
        for trial in trials.iter_mut().rev().filter(|trial| matches!(trial.effect, Effect::Stored { .. })) {
            trial.undo(&mut buckets, now);
        }
        let outcomes = trials.iter_mut().map(|trial| trial.so_far(&mut buckets)).collect();
        let deadline = now.monotonic + self.terms.timeout;
        let (request, decision) = WaitingRequest::new(question.request(), active, deadline, outcomes);
        for (index, trial) in trials.iter().enumerate().filter(|(_, trial)| trial.verdict == Verdict::Unknown) {
            let check = &trial.check;
            let seat = Seat { request: Arc::clone(&request), check: index };
            let Some(slot) = borrowing_slot(question, check, &mut buckets, now) else { continue };
            let Some(borrower) = &mut slot.borrower else { continue };
            if let Hits::Take(hits) = check.hits {
                borrower.leases.consume(hits);
            }
            if let (true, Hits::Take(hits)) = (check.overdraft, check.hits) {
                calls.extend(slot.debit(&check.limit, hits, Some(seat), now));
                calls.extend(slot.borrow_ahead(&self.terms, now));
            } else {
                let is_enforced = check.enforcement == Enforcement::Enforced && !self.settings.shadow_mode;
                let (limit, hits) = (check.limit, check.hits);
                borrower.queue.push_back(Waiter { seat, limit, hits, is_enforced, aside: Portions::new() });
            }
        }
        let mut behind = SmallVec::new();
        for (index, trial) in trials.iter().enumerate().filter(|(_, trial)| trial.check.tier == Tier::Store) {
            if let Some(slot) = buckets.get(trial.check.key) {
                let call = slot.serve(&self.terms, now);
                if let (None, Some(borrower), Verdict::Unknown) = (&call, &slot.borrower, trial.verdict) {
                    behind.push((index, Arc::clone(&borrower.name)));
                }
                calls.extend(call);
            }
        }
        self.let_go(&mut buckets, now, calls);
        Waiting { request, behind, decision }
    }

    /// Decides a request whose trials have been made.
    fn conclude(
        &self,
        question: Question<'_>,
        mut trials: Trials<'_>,
        refusal: Refusal,
        mut buckets: Locked<'_>,
        now: Now,
        calls: &mut Vec<Call>,
    ) -> Decision {
        let is_enforced = refusal.is_refused() && !self.settings.shadow_mode;
        if is_enforced {
            // An overdraft is charged whatever the others say.
            let is_kept = |trial: &Trial<'_>| trial.is_overdraft() && trial.check.tier == Tier::Store;
            for trial in trials.iter_mut().rev().filter(|trial| !is_kept(trial)) {
                trial.undo(&mut buckets, now);
            }
            for trial in trials.iter_mut().filter(|trial| trial.is_overdraft()) {
                match (trial.check.tier, trial.verdict, trial.check.hits) {
                    (Tier::Process, ..) => trial.redo(&mut buckets, now),
                    (Tier::Store, Verdict::Unknown, Hits::Take(hits)) if !matches!(trial.effect, Effect::Debited) => {
                        let slot = borrowing_slot(&question, &trial.check, &mut buckets, now);
                        calls.extend(slot.and_then(|slot| slot.debit(&trial.check.limit, hits, None, now)));
                    }
                    (Tier::Store, ..) => trial.settle(&mut buckets),
                }
            }
            for trial in &mut trials {
                trial.look_again(&mut buckets, now);
            }
        } else {
            for trial in &mut trials {
                trial.settle(&mut buckets);
                if let (Tier::Store, Hits::GiveBack(hits)) = (trial.check.tier, trial.check.hits) {
                    let slot = borrowing_slot(&question, &trial.check, &mut buckets, now);
                    calls.extend(slot.and_then(|slot| slot.refund(&trial.check.limit, hits, now)));
                    trial.look_again(&mut buckets, now);
                }
            }
        }
        self.keep_up(&trials, !is_enforced, buckets, now, calls);

        let request = question.request();
        let Question { mut statuses, tallies, .. } = question;
        let mut source = Source::Unlimited;
        for descriptor in by_descriptor(&trials) {
            let check = &descriptor[0].check;
            if let Some(mut status) = strictest_status(descriptor, now) {
                if status.is_over {
                    let in_shadow = || (!is_enforced).then_some(Prevention::ServiceShadowMode);
                    status.prevented_by = refusal.prevention(check.enforcement).or_else(in_shadow);
                }
                let percent = self.settings.near_limit_percent;
                status.is_near_limit = !status.is_over && descriptor.iter().any(|trial| trial.is_near_limit(percent));
                source = source.max(status.source);
                statuses[check.descriptor] = status;
            }
        }
        for ((counter, status), descriptor) in tallies.iter().zip(&statuses).zip(&request.descriptors) {
            let hits = hits_asked(descriptor, request.hits_addend);
            counter.tally.count(status, hits);
            if let Some(shown) = counter.shown {
                counter.tally.count_value(shown, descriptor, status.code, self.settings.most_values);
            }
        }
        let code = if is_enforced { Code::OverLimit } else { Code::Ok };
        match code {
            Code::Ok => self.counts.ok.increment(),
            Code::OverLimit => self.counts.over_limit.increment(),
        }
        Decision { code, source, statuses }
    }

    /// Returns what was borrowed of buckets that had to go.
    fn let_go(&self, buckets: &mut Locked<'_>, now: Now, calls: &mut Vec<Call>) {
        for mut evicted in std::mem::take(&mut buckets.evicted) {
            calls.extend(evicted.repay(false, &self.terms, now).0.or_else(|| evicted.return_all(&self.terms, now)));
            self.count_leased(&mut evicted);
        }
    }

    fn count_leased(&self, slot: &mut Slot) {
        if let Some(borrower) = &mut slot.borrower {
            self.counts.count_leased(borrower.leases.take_totals());
        }
    }

    /// Decides a request that waits by the failure modes of its limits, because it has waited as long as it may.
    pub fn give_up(&self, waiting: &Waiting, now: Now) -> GivenUp {
        let mut given_up = GivenUp::default();
        if let Some(claim) = waiting.request.claim() {
            let in_vain = waiting.behind.iter().filter(|(check, _)| claim.outcomes[*check].is_unknown());
            given_up.in_vain = in_vain.map(|(_, bucket)| Arc::clone(bucket)).collect();
            let ending = Ending::OutOfTime;
            given_up.decision = self.finish(&waiting.request, claim.outcomes, ending, now, &mut given_up.calls);
        }
        given_up
    }

    /// Nobody waits for a request any more. What was set aside for it goes back.
    pub fn abandon(&self, waiting: &Waiting, now: Now) -> Vec<Call> {
        let mut calls = Vec::new();
        if let Some(claim) = waiting.request.claim() {
            self.finish(&waiting.request, claim.outcomes, Ending::Abandoned, now, &mut calls);
        }
        calls
    }

    /// Removes idle buckets from one of `parts` parts of the table.
    pub fn sweep(&self, now: Now, parts: usize) {
        self.table.sweep(now, parts);
    }

    /// Replaces the policy, and returns the one before. Buckets whose identity stays keep their state, and so do the tallies
    /// of rules that stay. It is for one caller at a time.
    pub fn set_policy(&self, policy: Policy, now: Now) -> Arc<ActivePolicy> {
        let policy = ActivePolicy::new(policy, Some(&self.active()), now);
        let before = self.active.swap(Arc::new(policy));
        self.loads.succeeded();
        before
    }

    /// Takes note that the policy was loaded anew, and is the same.
    pub fn keep_policy(&self) {
        self.loads.succeeded();
    }

    /// Takes note that a policy has faults. The one in force stays.
    pub fn refuse_policy(&self, faults: &Faults) {
        self.loads.failed(faults);
    }

    /// Whether every request passes.
    #[must_use]
    pub const fn shadow_mode(&self) -> bool {
        self.settings.shadow_mode
    }

    /// What came of attempts to load a policy.
    #[must_use]
    pub const fn loads(&self) -> &Loads {
        &self.loads
    }

    /// Buckets that hold borrowed hits, or have held some lately.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.agenda.len()
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

/// The place of a bucket whose hits are borrowed; made if there is none.
fn borrowing_slot<'b>(
    question: &Question<'_>,
    check: &Check<'_>,
    buckets: &'b mut Locked<'_>,
    now: Now,
) -> Option<&'b mut Slot> {
    if buckets.get(check.key).is_none() {
        let name = shortened(question.bucket_name(check).to_string()).into();
        let borrower = Box::new(Borrower::new(name, check.limit));
        let record = Record::new(&check.limit, Bucket::unused(&check.limit, now), now);
        buckets.insert(Slot::new(check.key, record, Some(borrower)));
    }
    buckets.get(check.key)
}

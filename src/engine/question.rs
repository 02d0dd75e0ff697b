use std::collections::HashSet;
use std::sync::Arc;

use smallvec::SmallVec;

use super::decision::{Enforcement, InvalidRequest, Status};
use super::key::{BucketKey, KeyHasher};
use super::name::BucketName;
use super::tally::{Tallies, Tally};
use crate::limit::{Hits, Limit};
use crate::policy::{Defaults, Domain, FailureMode, Metadata, PathPart, Quota, Rule, Scope};
use crate::request::{Descriptor, RateLimitRequest};

/// A request next to the policy: what has to be checked, and what is known already.
#[derive(Debug)]
pub(super) struct Question<'p> {
    request: &'p RateLimitRequest,
    domain: &'p Domain,
    /// In the order of the descriptors.
    pub(super) checks: SmallVec<[Check<'p>; 2]>,
    /// One for each descriptor, as if it had no check.
    pub(super) statuses: SmallVec<[Status; 4]>,
    /// Who counts each descriptor.
    pub(super) tallies: SmallVec<[Counter<'p>; 4]>,
    /// A quota without a limit is never used up.
    pub(super) has_unlimited_quota: bool,
}

/// Who counts a descriptor, and the entries whose values are told apart, if any are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter<'p> {
    pub(super) tally: &'p Tally,
    pub(super) shown: Option<&'p [bool]>,
}

/// One limit that one descriptor of a request has to pass.
#[derive(Debug)]
pub(super) struct Check<'p> {
    /// Index of the descriptor in the request.
    pub(super) descriptor: usize,
    /// Where its hits are counted.
    pub(super) tier: Tier,
    pub(super) key: BucketKey,
    pub(super) limit: Limit,
    pub(super) name: Option<&'p Arc<str>>,
    pub(super) metadata: Option<&'p Arc<Metadata>>,
    pub(super) hits: Hits,
    pub(super) overdraft: bool,
    pub(super) enforcement: Enforcement,
    pub(super) failure_mode: FailureMode,
}

/// Where the hits of a bucket are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In this process alone.
    Process,
    /// In the store that replicas share.
    Store,
}

/// What limits are where request and policy are silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    pub(super) defaults: Defaults,
    pub(super) failure_mode: FailureMode,
    pub(super) has_store: bool,
}

impl Silence {
    pub(super) fn tier(self, limit: &Limit, scope: Scope) -> Tier {
        // A limit that a request brings may be beyond what the store can count exactly; policies may not.
        let is_exact = u64::from(limit.amount()) <= limit.most_exact_amount();
        if self.has_store && scope == Scope::Global && is_exact { Tier::Store } else { Tier::Process }
    }
}

/// Makes sure that the message is one that Envoy sends.
pub(super) fn validate(request: &RateLimitRequest) -> Result<(), InvalidRequest> {
    if request.domain.is_empty() {
        return Err(InvalidRequest::NoDomain);
    }
    if request.descriptors.is_empty() {
        return Err(InvalidRequest::NoDescriptors);
    }
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        if let Some(limit) = descriptor.limit.filter(|limit| limit.known_unit().is_none()) {
            return Err(InvalidRequest::UnknownUnit { descriptor: index, unit: limit.unit });
        }
    }
    Ok(())
}

impl<'p> Question<'p> {
    /// Finds the limits of each descriptor. `path_to_domain` has read the domain's name.
    pub(super) fn new(
        request: &'p RateLimitRequest,
        tallies: &'p Tallies,
        domain: &'p Domain,
        path_to_domain: &KeyHasher,
        silence: Silence,
    ) -> Self {
        let of_domain = tallies.domain(domain);
        let mut question = Self {
            request,
            domain,
            // Nearly every descriptor has one limit.
            checks: SmallVec::with_capacity(request.descriptors.len()),
            statuses: SmallVec::from_elem(Status::NO_LIMIT, request.descriptors.len()),
            tallies: SmallVec::from_elem(Counter::of(&of_domain.no_limit), request.descriptors.len()),
            has_unlimited_quota: false,
        };
        let mut replaced = HashSet::new();
        for (index, descriptor) in request.descriptors.iter().enumerate() {
            let mut path = path_to_domain.clone();
            let entries = descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value));
            let hits = hits_of(descriptor, request.hits_addend);
            if let Some(limit) = limit_of(descriptor, silence.defaults) {
                question.tallies[index] = Counter::of(&of_domain.own_limit);
                entries.for_each(|(key, value)| path.part(PathPart { key, value, is_shared: false }));
                let tier = silence.tier(&limit, Scope::Global);
                question.checks.push(Check {
                    descriptor: index,
                    tier,
                    key: path.bucket(&limit, tier),
                    limit,
                    name: None,
                    metadata: None,
                    hits,
                    overdraft: silence.defaults.overdraft,
                    enforcement: Enforcement::Enforced,
                    failure_mode: silence.failure_mode,
                });
                continue;
            }
            let Some(found) = domain.find(entries, |part| path.part(part)) else { continue };
            let enforcement = enforcement_of(found.rule);
            question.tallies[index] =
                Counter { tally: tallies.rule(found.rule), shown: found.rule.shown_values.as_deref() };
            for rule_limit in found.limits {
                replaced.extend(rule_limit.replaces.iter().map(|name| &**name));
                let Quota::Limited(limit) = rule_limit.quota else {
                    let metadata = found.rule.metadata.clone();
                    question.statuses[index] = Status { metadata, ..Status::UNLIMITED };
                    question.has_unlimited_quota |= enforcement == Enforcement::Quota;
                    continue;
                };
                let tier = silence.tier(&limit, rule_limit.scope);
                question.checks.push(Check {
                    descriptor: index,
                    tier,
                    key: path.bucket(&limit, tier),
                    limit,
                    name: rule_limit.name.as_ref(),
                    metadata: found.rule.metadata.as_ref(),
                    hits,
                    overdraft: rule_limit.overdraft,
                    enforcement,
                    failure_mode: rule_limit.failure_mode.unwrap_or(silence.failure_mode),
                });
            }
        }
        if !replaced.is_empty() {
            question.checks.retain(|check| !check.name.is_some_and(|name| replaced.contains(&**name)));
        }
        question
    }

    pub(super) const fn request(&self) -> &'p RateLimitRequest {
        self.request
    }

    /// The name of a check's bucket. It is made when the bucket is first borrowed from, and takes longer than to decide.
    pub(super) fn bucket_name(&self, check: &Check<'_>) -> BucketName {
        let descriptor = &self.request.descriptors[check.descriptor];
        let entries = descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value));
        let mut path = Vec::new();
        if descriptor.limit.is_some() {
            path.extend(entries.map(|(key, value)| PathPart { key, value, is_shared: false }));
        } else {
            self.domain.find(entries, |part| path.push(part));
        }
        BucketName::new(&self.request.domain, &path, &check.limit)
    }
}

impl<'p> Counter<'p> {
    const fn of(tally: &'p Tally) -> Self {
        Self { tally, shown: None }
    }
}

/// Hits that a descriptor asks for, as they are counted; none if it looks, or gives back. Clients may name any number, and
/// what is counted must not overflow.
pub(super) fn hits_asked(descriptor: &Descriptor, of_request: u32) -> u64 {
    match hits_of(descriptor, of_request) {
        Hits::Take(hits) => hits.min(u32::MAX.into()),
        Hits::Look | Hits::GiveBack(_) => 0,
    }
}

const fn enforcement_of(rule: &Rule) -> Enforcement {
    if rule.shadow_mode {
        Enforcement::Shadow
    } else if rule.quota_mode {
        Enforcement::Quota
    } else {
        Enforcement::Enforced
    }
}

/// The limit that the request itself brings for a descriptor.
fn limit_of(descriptor: &Descriptor, defaults: Defaults) -> Option<Limit> {
    let limit = descriptor.limit?;
    Some(Limit::per(limit.requests_per_unit, limit.known_unit()?, defaults.algorithm))
}

/// What a descriptor costs; `of_request` is the cost of those that do not say.
fn hits_of(descriptor: &Descriptor, of_request: u32) -> Hits {
    let hits = descriptor.hits_addend.unwrap_or_else(|| u64::from(of_request.max(1)));
    match hits {
        _ if descriptor.is_negative_hits => Hits::GiveBack(hits),
        0 => Hits::Look,
        _ => Hits::Take(hits),
    }
}

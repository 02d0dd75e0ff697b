use std::fmt;

use serde::Serialize;

use super::Engine;
use super::name::BucketName;
use super::question::Tier;
use super::table::Slot;
use crate::limit::{Bucket, Limit, Micros, Now};
use crate::policy::{LimitDescription, Scope, Visible};
use crate::store::{Reply, StoreCall, StoreError};

/// How much of a limit one key has used at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BucketState {
    pub presence: Presence,
    /// Whole hits, rounded up; more than the capacity if the bucket is overdrawn.
    pub used: u64,
    /// Whole hits that can be taken now; `None` if nobody knows the limit.
    pub remaining: Option<u64>,
    /// Until nothing is used any more, rounded up.
    pub seconds_until_full: u64,
    /// Since somebody last asked for it; `None` if it is absent.
    pub seconds_since_touched: Option<u64>,
    /// What this replica has borrowed of it; `None` if its hits are counted in this process, or it is absent.
    pub lease: Option<LeaseState>,
    /// What the store says; `None` if the hits are counted in this process, or nobody has asked.
    pub store: Option<StoreState>,
    /// What to ask the store.
    #[serde(skip)]
    pub(crate) question: Option<StoreCall>,
}

/// How much is used of a bucket in the store, what replicas have borrowed included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StoreState {
    Known {
        /// The bucket's name there.
        key: String,
        used: u64,
        remaining: u64,
        seconds_until_full: u64,
    },
    Unknown {
        key: String,
        error: String,
    },
}

impl StoreState {
    /// What an answer to [`StoreCall::look`] says.
    pub(crate) fn of(key: String, limit: &Limit, answer: &Result<Reply, StoreError>, now: Now) -> Self {
        match answer {
            Ok(reply) => {
                let bucket = Bucket::known(limit, reply.used, reply.lease_time, now);
                let until_full = if bucket.is_unused() { Micros(0) } else { bucket.until_full(limit, now) };
                Self::Known {
                    key,
                    used: bucket.used(),
                    remaining: bucket.free(limit),
                    seconds_until_full: until_full.seconds_rounded_up(),
                }
            }
            Err(error) => Self::Unknown { key, error: error.to_string() },
        }
    }
}

/// What a replica has borrowed of a bucket in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseState {
    /// Hits that can be spent without asking the store.
    pub held: u64,
    /// Hits that were spent or given up, and of which the store has not been told.
    pub not_told: u64,
    /// Requests that wait for the store.
    pub waiting: usize,
    /// Until when what the store refused is refused here, in milliseconds.
    pub denied_for_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It is in memory, and something of it is used.
    InUse,
    /// It is in memory, full again, and about to be swept away.
    Idle,
    /// It is not in memory, which is the same as full.
    Absent,
}

/// What is known of a bucket by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BucketReport {
    pub bucket: String,
    /// The policy's limit of this name. `None` if there is none: the limit was brought by a request, or has gone.
    pub limit: Option<LimitDescription>,
    pub state: BucketState,
}

impl Engine {
    /// What is known of a bucket.
    #[must_use]
    pub fn bucket(&self, name: &BucketName, now: Now) -> BucketReport {
        let active = self.active.load();
        let policy = &active.policy;
        let limit = policy.domain(name.domain()).and_then(|domain| {
            // A pattern is found by itself as a value: a wildcard that comes earlier in the files and matches its text
            // matches all its values too.
            let entries: Vec<_> = name.path().map(|part| (part.key, part.value)).collect();
            let walk = domain.explain(&entries);
            if !walk.path.iter().copied().eq(name.path()) {
                return None;
            }
            let limits = walk.end.map(|end| end.limits).unwrap_or_default();
            limits.into_iter().find_map(|(limit, description)| {
                let quota = limit.quota.limit().copied().filter(|quota| name.is_of(quota))?;
                Some((quota, limit.scope, description))
            })
        });
        let state = match &limit {
            Some((quota, scope, _)) => self.state(name, quota, *scope, now),
            None => self.state_without_limit(name, now),
        };
        BucketReport { bucket: name.to_string(), limit: limit.map(|(.., description)| description), state }
    }

    /// The state of the bucket of a limit.
    pub(super) fn state(&self, name: &BucketName, limit: &Limit, scope: Scope, now: Now) -> BucketState {
        let tier = self.silence.tier(limit, scope);
        let question = (tier == Tier::Store).then(|| StoreCall::look(name.to_string().into(), *limit));
        let state = self
            .with_slot(name, tier, |slot| {
                let mut bucket = slot.record.bucket;
                bucket.settle(limit, now);
                let is_unused = bucket.is_unused();
                let until_full = if is_unused { Micros(0) } else { bucket.until_full(limit, now) };
                BucketState {
                    presence: if is_unused { Presence::Idle } else { Presence::InUse },
                    used: bucket.used(),
                    remaining: Some(bucket.free(limit)),
                    seconds_until_full: until_full.seconds_rounded_up(),
                    seconds_since_touched: Some(slot.record.since_touched(now)),
                    lease: slot.borrower.as_mut().map(|borrower| borrower.state(now.monotonic)),
                    store: None,
                    question: None,
                }
            })
            .unwrap_or_else(|| BucketState::absent(Some(limit.capacity().into())));
        BucketState { question, ..state }
    }

    /// The state of a bucket of which only is known what its last request left behind.
    fn state_without_limit(&self, name: &BucketName, now: Now) -> BucketState {
        let of_slot = |slot: &mut Slot| {
            let until_full = slot.record.until_full(now);
            BucketState {
                presence: if until_full == Micros(0) { Presence::Idle } else { Presence::InUse },
                used: if until_full == Micros(0) { 0 } else { slot.record.bucket.used() },
                remaining: None,
                seconds_until_full: until_full.seconds_rounded_up(),
                seconds_since_touched: Some(slot.record.since_touched(now)),
                lease: slot.borrower.as_mut().map(|borrower| borrower.state(now.monotonic)),
                store: None,
                question: None,
            }
        };
        self.with_slot(name, Tier::Store, of_slot)
            .or_else(|| self.with_slot(name, Tier::Process, of_slot))
            .unwrap_or_else(|| BucketState::absent(None))
    }

    fn with_slot<T>(&self, name: &BucketName, tier: Tier, look: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let key = name.key(&self.seed, tier);
        self.table.lock([key].into_iter()).get(key).map(look)
    }
}

impl BucketState {
    const fn absent(remaining: Option<u64>) -> Self {
        Self {
            presence: Presence::Absent,
            used: 0,
            remaining,
            seconds_until_full: 0,
            seconds_since_touched: None,
            lease: None,
            store: None,
            question: None,
        }
    }
}

/// In a few words, without what the limit is.
impl fmt::Display for BucketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.store {
            None => self.write_own(f)?,
            Some(StoreState::Known { key, used, remaining, seconds_until_full }) => {
                write!(f, "{used} used, {remaining} remaining, full in {seconds_until_full} s, in the store as {key}")?;
            }
            Some(StoreState::Unknown { key, error }) => write!(f, "{key}: {error}")?,
        }
        if let Some(lease) = &self.lease {
            write!(f, "\n   here: {lease}")?;
        }
        self.seconds_since_touched.map_or(Ok(()), |seconds| write!(f, ", asked for {seconds} s ago"))
    }
}

impl BucketState {
    fn write_own(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.presence {
            Presence::Absent => f.write_str("nothing is used (there is no bucket, which is the same as full)")?,
            Presence::Idle => f.write_str("nothing is used any more")?,
            Presence::InUse => write!(f, "{} used", self.used)?,
        }
        self.remaining.map_or(Ok(()), |remaining| write!(f, ", {remaining} remaining"))?;
        if self.presence == Presence::InUse {
            write!(f, ", full in {} s", self.seconds_until_full)?;
        }
        Ok(())
    }
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} borrowed and not spent, {} the store has not been told of", self.held, self.not_told)?;
        if self.waiting > 0 {
            write!(f, ", {} waiting", self.waiting)?;
        }
        if self.denied_for_ms > 0 {
            write!(f, ", refusals remembered for {} ms", self.denied_for_ms)?;
        }
        Ok(())
    }
}

impl fmt::Display for BucketReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.bucket)?;
        match &self.limit {
            Some(limit) => writeln!(f, "   limit: {limit}, {}:{}", Visible(&limit.file), limit.line)?,
            None => writeln!(f, "   limit: none in the policy; a request brought it, or the policy has changed")?,
        }
        writeln!(f, "   now: {}", self.state)
    }
}

use std::fmt;

use serde::Serialize;

use super::Engine;
use super::key::BucketKey;
use super::name::BucketName;
use crate::limit::{Limit, Micros, Now};
use crate::policy::{LimitDescription, Visible};

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
                Some((quota, description))
            })
        });
        let key = name.key(&self.seed);
        let state = match &limit {
            Some((quota, _)) => self.state(key, quota, now),
            None => self.state_without_limit(key, now),
        };
        BucketReport { bucket: name.to_string(), limit: limit.map(|(_, description)| description), state }
    }

    /// The state of the bucket of a limit.
    pub(super) fn state(&self, key: BucketKey, limit: &Limit, now: Now) -> BucketState {
        let slot = self.table.lock([key].into_iter()).get(key).copied();
        let Some(slot) = slot else { return BucketState::absent(Some(limit.capacity().into())) };
        let mut bucket = slot.bucket();
        bucket.settle(limit, now);
        let is_unused = bucket.is_unused();
        let until_full = if is_unused { Micros(0) } else { bucket.until_full(limit, now) };
        BucketState {
            presence: if is_unused { Presence::Idle } else { Presence::InUse },
            used: bucket.used(),
            remaining: Some(bucket.free(limit)),
            seconds_until_full: until_full.seconds_rounded_up(),
            seconds_since_touched: Some(slot.since_touched(now)),
        }
    }

    /// The state of a bucket of which only is known what its last request left behind.
    fn state_without_limit(&self, key: BucketKey, now: Now) -> BucketState {
        let slot = self.table.lock([key].into_iter()).get(key).copied();
        let Some(slot) = slot else { return BucketState::absent(None) };
        let until_full = slot.until_full(now);
        BucketState {
            presence: if until_full == Micros(0) { Presence::Idle } else { Presence::InUse },
            used: if until_full == Micros(0) { 0 } else { slot.bucket().used() },
            remaining: None,
            seconds_until_full: until_full.seconds_rounded_up(),
            seconds_since_touched: Some(slot.since_touched(now)),
        }
    }
}

impl BucketState {
    const fn absent(remaining: Option<u64>) -> Self {
        Self { presence: Presence::Absent, used: 0, remaining, seconds_until_full: 0, seconds_since_touched: None }
    }
}

/// In one line, without what the limit is.
impl fmt::Display for BucketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.presence {
            Presence::Absent => f.write_str("nothing is used (there is no bucket, which is the same as full)")?,
            Presence::Idle => f.write_str("nothing is used any more")?,
            Presence::InUse => write!(f, "{} used", self.used)?,
        }
        self.remaining.map_or(Ok(()), |remaining| write!(f, ", {remaining} remaining"))?;
        if self.presence == Presence::InUse {
            write!(f, ", full in {} s", self.seconds_until_full)?;
        }
        self.seconds_since_touched.map_or(Ok(()), |seconds| write!(f, ", asked for {seconds} s ago"))
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

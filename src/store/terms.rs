//! What the store and its replicas must agree on about a limit's leases.

use crate::limit::{Algorithm, Limit, Micros};

/// An epoch of a token bucket is a quarter of its period, between these bounds.
const SHORTEST_EPOCH: Micros = Micros::from_seconds(1);
const LONGEST_EPOCH: Micros = Micros::from_seconds(60);

/// The least time between two questions of a replica about a bucket that is empty.
pub const RETRY_FLOOR: Micros = Micros(10_000);

/// How far ahead a replica borrows at most, and how often it looks after what it holds: a quarter of the period, between
/// 1 s and 60 s.
#[must_use]
pub fn lease_pace(limit: &Limit) -> Micros {
    Micros(limit.period().0 / 4).clamp(SHORTEST_EPOCH, LONGEST_EPOCH)
}

/// How long an epoch is. Leases of a token bucket end with the epoch after the one in which they were granted; those of
/// a fixed window end with the window, which is its epoch.
///
/// It follows from the period alone and never from the amount, because the name of an epoch is the time at which it
/// began, and must not change when the amount does.
#[must_use]
pub fn epoch_length(limit: &Limit) -> Micros {
    match limit.algorithm() {
        Algorithm::TokenBucket => lease_pace(limit),
        Algorithm::FixedWindow => limit.period(),
    }
}

/// Hits that are so few that the rate yields as many in the [`RETRY_FLOOR`]; what is left of a bucket then goes to the
/// first replica that asks, instead of half of it.
#[must_use]
pub fn scarce_hits(limit: &Limit) -> u64 {
    // Below 2^32 · 10^4.
    (u64::from(limit.amount()) * RETRY_FLOOR.0).div_ceil(limit.period().0)
}

use std::sync::Arc;

use smallvec::SmallVec;

use crate::limit::Unit;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub code: Code,
    /// One for each descriptor of the request, in order.
    pub statuses: SmallVec<[Status; 4]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Ok,
    OverLimit,
}

/// What one descriptor's limit says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: Code,
    /// The limit that counted; none where no limit was found, it was replaced, or it is unlimited.
    pub current_limit: Option<CurrentLimit>,
    /// Hits that can still be taken; 0 when refused or without a limit, 2³²−1 when unlimited.
    pub remaining: u32,
    /// Whole seconds, rounded up, until the refused hits pass, or until nothing is used any more.
    pub seconds_until_reset: Option<u64>,
}

/// A limit as Envoy shows it: a multiplied unit as one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentLimit {
    pub amount: u32,
    pub unit: Unit,
    pub name: Option<Arc<str>>,
}

impl Status {
    /// No limit was found for the descriptor.
    pub(super) const NO_LIMIT: Self =
        Self { code: Code::Ok, current_limit: None, remaining: 0, seconds_until_reset: None };

    pub(super) const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::NO_LIMIT };
}

/// Why a request cannot be answered: it is none that Envoy sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    #[error("the domain is empty: set `domain` in Envoy's rate limit filter")]
    NoDomain,
    #[error("there are no descriptors: send at least one")]
    NoDescriptors,
    #[error("the limit of descriptor {descriptor} has the unknown unit {unit}: send SECOND (1) to WEEK (7)")]
    UnknownUnit {
        /// Counted from 0.
        descriptor: usize,
        unit: i32,
    },
}

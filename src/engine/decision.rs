use std::sync::Arc;

use smallvec::SmallVec;

use crate::limit::Unit;
use crate::policy::Metadata;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub code: Code,
    pub source: Source,
    /// One for each descriptor of the request, in order.
    pub statuses: SmallVec<[Status; 4]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Ok,
    OverLimit,
}

/// Where a decision comes from. One of several limits has the last of their sources in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// No limit had a say.
    Unlimited,
    /// From buckets in memory, or hits that had been borrowed.
    Local,
    /// From a refusal of the store that is remembered.
    DeniedCache,
    /// The store was asked.
    Store,
    /// The store could not be asked: the limit's failure mode.
    Fallback,
}

impl Code {
    pub const ALL: [Self; 2] = [Self::Ok, Self::OverLimit];

    /// The name of the code in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OverLimit => "over_limit",
        }
    }
}

impl Source {
    pub const ALL: [Self; 5] = [Self::Unlimited, Self::Local, Self::DeniedCache, Self::Store, Self::Fallback];

    /// The name of the source in metrics and metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unlimited => "unlimited",
            Self::Local => "local",
            Self::DeniedCache => "denied_cache",
            Self::Store => "store",
            Self::Fallback => "fallback",
        }
    }
}

/// What a limit's refusal means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// It refuses the request.
    Enforced,
    /// It is only counted, and says OK even if it is over.
    Shadow,
    /// It refuses the request if all quotas of the request refuse.
    Quota,
}

/// Why a limit that is over does not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prevention {
    /// The rule is in shadow mode.
    ShadowMode,
    /// Another quota of the request is not used up.
    QuotaMode,
    /// The whole service is in shadow mode.
    ServiceShadowMode,
}

impl Prevention {
    pub const ALL: [Self; 3] = [Self::ShadowMode, Self::QuotaMode, Self::ServiceShadowMode];

    /// The name of the reason in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShadowMode => "shadow_mode",
            Self::QuotaMode => "quota_mode",
            Self::ServiceShadowMode => "service_shadow_mode",
        }
    }
}

/// What one descriptor's limit says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: Code,
    pub source: Source,
    /// The hits do not fit, whether or not that refuses the request.
    pub is_over: bool,
    /// They pass, and hardly any more do.
    pub is_near_limit: bool,
    /// Why it does not refuse the request although it is over.
    pub prevented_by: Option<Prevention>,
    pub enforcement: Enforcement,
    /// The limit that counted; none where no limit was found, it was replaced, or it is unlimited.
    pub current_limit: Option<CurrentLimit>,
    /// Hits that can still be taken; 0 when refused or without a limit, 2³²−1 when unlimited.
    pub remaining: u32,
    /// Whole seconds, rounded up, until the refused hits pass, or until nothing is used any more.
    pub seconds_until_reset: Option<u64>,
    /// The metadata of the rule that was found.
    pub metadata: Option<Arc<Metadata>>,
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
    pub(super) const NO_LIMIT: Self = Self {
        code: Code::Ok,
        source: Source::Unlimited,
        is_over: false,
        is_near_limit: false,
        prevented_by: None,
        enforcement: Enforcement::Enforced,
        current_limit: None,
        remaining: 0,
        seconds_until_reset: None,
        metadata: None,
    };

    pub(super) const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::NO_LIMIT };

    /// Whether it is over, and the request is refused for that.
    #[must_use]
    pub const fn refuses(&self) -> bool {
        self.is_over && self.prevented_by.is_none()
    }
}

/// The store cannot be asked, and a limit of the request leaves the decision to Envoy then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is unavailable, and a limit has failure_mode: unavailable")]
pub struct Unavailable;

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

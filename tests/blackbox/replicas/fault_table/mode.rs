//! The four failure modes, each with a limit and those who ask for it.

use super::super::limit::{Limit, policy_of};
use super::super::load::{Caller, Keys};
use super::REPLICAS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Local,
    Open,
    Closed,
    Unavailable,
}

/// Of each limit, for each key.
const RATE: u64 = 20;

/// Asked for more often than its limit allows.
pub(super) const HOT_KEY: u32 = 0;

/// So many of a hundred requests are for the hot key. Each of the others is for a key of its own, of which nothing can
/// have been borrowed: the store decides it, or the failure mode does.
const FOR_HOT_KEY: u64 = 60;

/// What a replica lets pass alone where the limit is `local`: its part of the limit, less a tenth.
pub(super) const LOCAL_PART: Limit = Limit::tokens(RATE * 9 / 10 / REPLICAS as u64, 1);

impl Mode {
    pub(super) const ALL: [Self; 4] = [Self::Local, Self::Open, Self::Closed, Self::Unavailable];

    pub(super) fn limit(self) -> Limit {
        let limit = Limit::tokens(RATE, 1);
        match self {
            Self::Local => limit.or_local(),
            Self::Open => limit.or_open(),
            Self::Closed => limit,
            Self::Unavailable => limit.or_unavailable(),
        }
    }

    /// The key of its rule.
    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Unavailable => "unavailable",
        }
    }

    pub(super) fn callers(self, per_second: u64) -> Vec<Caller> {
        let for_hot_key = per_second * FOR_HOT_KEY / 100;
        let hot = Caller::open(for_hot_key).keys(Keys::Only(HOT_KEY));
        let new = Caller::open(per_second - for_hot_key).keys(Keys::New);
        [hot, new].map(|caller| caller.rule(self.rule())).to_vec()
    }

    /// Who asks for a key for the first time in an outage: more often than it allows.
    pub(super) fn caller_in_outage(self, key: u32) -> Caller {
        Caller::open(2 * RATE).keys(Keys::Only(key)).rule(self.rule())
    }
}

/// A rule for each mode.
pub(super) fn policy_of_all() -> String {
    let limits = Mode::ALL.map(|mode| (mode.rule(), [mode.limit()]));
    policy_of(limits.iter().map(|(rule, limits)| (*rule, limits.as_slice())))
}

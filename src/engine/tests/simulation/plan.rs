//! What a world is like, what happens in it, and what comes of it.

use super::layout::Layout;
use super::network::Network;
use super::traffic::{Arrivals, Load};
use crate::limit::Limit;
use crate::store::{Reply, StoreError};

pub(super) const MILLISECOND: u64 = 1_000;
pub(super) const SECOND: u64 = 1_000_000;

/// What the world is like.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) limits: Vec<Limit>,
    pub(super) layout: Layout,
    pub(super) overdraft: bool,
    pub(super) replicas: usize,
    pub(super) load: Option<Load>,
    /// Requests besides the load.
    pub(super) arrivals: Arrivals,
    /// Requests cost from 1 to so much.
    pub(super) most_cost: u64,
    pub(super) seconds: u64,
    /// The most buckets that a replica keeps.
    pub(super) max_buckets: usize,
    pub(super) network: Network,
    /// What happens besides, and when.
    pub(super) script: Vec<(u64, Event)>,
    /// The part of requests that are something else.
    pub(super) refunds: f64,
    pub(super) debits: f64,
    pub(super) peeks: f64,
    /// The part of the callers who wait that leave before they are answered.
    pub(super) leavers: f64,
}

impl Plan {
    /// A world without faults.
    pub(super) fn of(limits: &[Limit], replicas: usize, load: Load, seconds: u64) -> Self {
        let is_list = limits.len() == 1 || limits[0].period() != limits[1].period();
        Self {
            limits: limits.to_vec(),
            layout: if is_list { Layout::List } else { Layout::Descriptors },
            overdraft: false,
            replicas,
            load: Some(load),
            arrivals: Vec::new(),
            most_cost: 1,
            seconds,
            max_buckets: 1_000,
            network: Network::default(),
            script: Vec::new(),
            refunds: 0.0,
            debits: 0.0,
            peeks: 0.0,
            leavers: 0.0,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Perhaps a request comes.
    Arrival {
        replica: usize,
    },
    Request {
        replica: usize,
        ask: Ask,
    },
    /// A call reaches the store.
    AtStore {
        call: u64,
    },
    Answer {
        call: u64,
        answer: Result<Reply, StoreError>,
    },
    CallIsOverdue {
        call: u64,
    },
    Deadline {
        request: u64,
    },
    CallerLeaves {
        request: u64,
    },
    LookAfterLeases {
        replica: usize,
    },
    Sweep {
        replica: usize,
    },
    /// A replica ends, and another takes its place.
    Crash {
        replica: usize,
    },
    /// A replica does nothing for a time.
    Pause {
        replica: usize,
        length: u64,
    },
    /// The store's clock goes back.
    ClockGoesBack {
        by: u64,
    },
    /// The first limit changes on a replica.
    Limit {
        replica: usize,
        limit: Limit,
    },
}

/// What a request wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Take(u64),
    GiveBack(u64),
    /// Of one limit, even if it is not free.
    Overdraw {
        limit: usize,
        hits: u64,
    },
    Look,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// The cost admitted, and what one central bucket would have admitted.
    pub(super) admitted: u64,
    pub(super) passed: u64,
    pub(super) requests: u64,
    pub(super) calls: u64,
    /// Requests that waited for the store.
    pub(super) waits: u64,
    /// The worst, over all limits.
    pub(super) excess: f64,
}

impl Report {
    #[expect(clippy::cast_precision_loss, reason = "counts of a simulation")]
    pub(super) fn measures(&self) -> [f64; 3] {
        let requests = self.requests.max(1) as f64;
        [self.admitted as f64 / self.passed.max(1) as f64, self.calls as f64 / requests, self.waits as f64 / requests]
    }
}

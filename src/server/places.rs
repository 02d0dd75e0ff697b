use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::telemetry::metrics::{PortCounts, RequestRefusal};

/// So many requests may be under way besides those for decisions, so that neither a crowd of the one kind nor of the other
/// keeps the rest out. Somebody who watches our health is under way for long.
pub(super) const MOST_OTHERS: usize = 1_000;

/// Places for requests to a port, of which each needs one until its answer has been handed over.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    counts: Arc<PortCounts>,
}

/// A place that is taken. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "it is held, and given back")] OwnedSemaphorePermit);

/// All places are taken.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("there are too many requests under way besides those for decisions: try again later")]
pub(super) struct NoPlace;

impl Places {
    pub(super) fn new(most: usize, counts: &Arc<PortCounts>) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), counts: Arc::clone(counts) }
    }

    pub(super) fn take(&self) -> Result<Place, NoPlace> {
        let permit = Arc::clone(&self.free).try_acquire_owned();
        permit.map(Place).map_err(|_| {
            self.counts.refuse_request(RequestRefusal::Crowded);
            NoPlace
        })
    }
}

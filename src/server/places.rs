use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::BoxError;
use super::bounds::{ARRIVAL, Unread};
use crate::telemetry::metrics::{PortCounts, RequestRefusal};

/// So many requests may be under way besides those for decisions, so that neither a crowd of the one kind nor of the other
/// keeps the rest out. Somebody who watches our health is under way for long.
pub(super) const MOST_OTHERS: usize = 1_000;

/// Places for requests to a port, of which each needs one until its answer has been handed over.
#[derive(Clone, Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    counts: Arc<PortCounts>,
}

/// A place that is taken. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "it is held, and given back")] OwnedSemaphorePermit);

impl Places {
    pub(super) fn new(most: usize, counts: &Arc<PortCounts>) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), counts: Arc::clone(counts) }
    }

    pub(super) fn take(&self) -> Result<Place, Unread> {
        let permit = Arc::clone(&self.free).try_acquire_owned();
        permit.map(Place).map_err(|_| {
            self.counts.refuse_request(RequestRefusal::Crowded);
            Unread::NoPlace
        })
    }

    /// The body of a request that has a place: it must arrive in time, too.
    pub(super) fn in_time<B>(&self, body: B) -> InTime<B> {
        InTime { body, ends: None, counts: Arc::clone(&self.counts) }
    }
}

/// A body of which gRPC is told when it has not arrived in time.
#[derive(Debug)]
pub(super) struct InTime<B> {
    body: B,
    /// Known since there was nothing to read.
    ends: Option<Pin<Box<Sleep>>>,
    counts: Arc<PortCounts>,
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for InTime<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(this.ends.get_or_insert_with(|| Box::pin(sleep(ARRIVAL))).as_mut().poll(context));
        this.counts.refuse_request(RequestRefusal::Slow);
        Poll::Ready(Some(Err(Status::deadline_exceeded(Unread::Slow.to_string()).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

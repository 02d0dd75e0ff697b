//! How long a request may take to arrive.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep, timeout};
use tonic::Status;

use super::BoxError;
use super::bounds::Unread;
use crate::telemetry::metrics::{PortCounts, RequestRefusal};

/// How long a request may take to arrive; of one that is a stream, each part.
pub(super) const ARRIVAL: Duration = Duration::from_secs(10);

/// Waits for a request to arrive. Nearly always it has by now, and needs no timer.
pub(super) async fn in_time<T>(reading: impl Future<Output = Result<T, Unread>>) -> Result<T, Unread> {
    let mut reading = pin!(reading);
    match poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await {
        Poll::Ready(read) => read,
        Poll::Pending => timeout(ARRIVAL, reading).await.unwrap_or(Err(Unread::Slow)),
    }
}

/// A body of which the next part must always arrive in time. gRPC is told when it does not.
#[derive(Debug)]
pub(super) struct InTime<B> {
    body: B,
    /// Known while there is nothing to read.
    ends: Option<Pin<Box<Sleep>>>,
    counts: Arc<PortCounts>,
}

impl<B> InTime<B> {
    pub(super) const fn new(body: B, counts: Arc<PortCounts>) -> Self {
        Self { body, ends: None, counts }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for InTime<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.ends = None;
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

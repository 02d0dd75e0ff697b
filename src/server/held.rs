use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

/// A body, and what is held until it has been handed over to be sent.
#[derive(Debug)]
pub(super) struct Held<B, P> {
    body: B,
    _place: P,
}

impl<B, P> Held<B, P> {
    pub(super) const fn new(body: B, place: P) -> Self {
        Self { body, _place: place }
    }
}

impl<B: Body + Unpin, P: Unpin> Body for Held<B, P> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

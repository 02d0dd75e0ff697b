use std::pin::Pin;
use std::task::{Context, Poll};

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;

use crate::engine::{InvalidRequest, Unavailable};

/// The answer to a request. Nearly always it is there at once.
pub(super) enum Answering {
    Ready(Option<Result<RateLimitResponse, AnswerError>>),
    Waits(Pin<Box<dyn Future<Output = Result<RateLimitResponse, AnswerError>> + Send>>),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Answering {
    pub(super) const fn ready(answer: Result<RateLimitResponse, AnswerError>) -> Self {
        Self::Ready(Some(answer))
    }
}

impl Future for Answering {
    type Output = Result<RateLimitResponse, AnswerError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            // It is taken once, by the one `await`; after that nobody polls.
            Self::Ready(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            Self::Waits(answer) => answer.as_mut().poll(context),
        }
    }
}

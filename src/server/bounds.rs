//! How much may be under way on one port: beyond that requests are refused at once, instead of piling up.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;

use super::MAX_MESSAGE_BYTES;
use super::arrival::{ARRIVAL, InTime, in_time};
use super::places::{MOST_OTHERS, Places};
use crate::settings::ConnectionSettings;
use crate::telemetry::metrics::{PortCounts, RequestRefusal};

/// How much may be under way on a port.
#[derive(Debug)]
pub(super) struct Bounds {
    most_requests: u64,
    most_bytes: u64,
    counts: Arc<PortCounts>,
}

/// A request under way. Its end is when this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    bounds: Arc<Bounds>,
    bytes: u64,
}

/// Why a request was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    #[error("there are --max-requests under way: try again later")]
    Crowded,
    #[error("the requests under way hold --max-request-bytes: try again later")]
    Bytes,
    #[error("the request is larger than {} MiB: send fewer or shorter descriptors", MAX_MESSAGE_BYTES >> 20)]
    Size,
    #[error("the request did not arrive within {ARRIVAL:?}")]
    Slow,
    /// Nobody is there to be told.
    #[error("the client broke off")]
    Broken,
}

impl Bounds {
    pub(super) fn new(counts: &Arc<PortCounts>, settings: &ConnectionSettings) -> Self {
        Self {
            most_requests: settings.max_requests.into(),
            most_bytes: settings.max_request_bytes,
            counts: Arc::clone(counts),
        }
    }

    /// Places for requests that are not for decisions.
    pub(super) fn others(&self) -> Places {
        Places::new(MOST_OTHERS, &self.counts)
    }

    /// Places for requests of all kinds, so many that those for decisions leave some free.
    pub(super) fn all(&self) -> Places {
        let most = usize::try_from(self.most_requests).unwrap_or(usize::MAX);
        Places::new(most.saturating_add(MOST_OTHERS).min(Semaphore::MAX_PERMITS), &self.counts)
    }

    /// The body of a request that is not for a decision.
    pub(super) fn in_time<B>(&self, body: B) -> InTime<B> {
        InTime::new(body, Arc::clone(&self.counts))
    }

    /// Takes a place among the requests under way, if there is one.
    pub(super) fn begin(self: &Arc<Self>) -> Result<UnderWay, Unread> {
        let under_way = UnderWay { bounds: Arc::clone(self), bytes: 0 };
        if self.counts.requests.raise(1) > self.most_requests {
            return Err(under_way.refuse(Unread::Crowded));
        }
        Ok(under_way)
    }
}

impl UnderWay {
    /// Reads a request to its end.
    pub(super) async fn read<B: Body<Data = Bytes> + Unpin>(&mut self, body: B) -> Result<Bytes, Unread> {
        let read = in_time(self.gather(body)).await;
        read.map_err(|unread| self.refuse(unread))
    }

    async fn gather<B: Body<Data = Bytes> + Unpin>(&mut self, mut body: B) -> Result<Bytes, Unread> {
        let mut whole = Bytes::new();
        let mut parts = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(part) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
            self.hold(part.len())?;
            if whole.is_empty() && parts.is_empty() {
                whole = part;
            } else {
                if parts.is_empty() {
                    parts.extend_from_slice(&std::mem::take(&mut whole));
                }
                parts.extend_from_slice(&part);
            }
        }
        Ok(if parts.is_empty() { whole } else { parts.freeze() })
    }

    fn hold(&mut self, more: usize) -> Result<(), Unread> {
        let more = more as u64;
        self.bytes += more;
        let held = self.bounds.counts.request_bytes.raise(more);
        if self.bytes > MAX_MESSAGE_BYTES as u64 {
            Err(Unread::Size)
        } else if held > self.bounds.most_bytes {
            Err(Unread::Bytes)
        } else {
            Ok(())
        }
    }

    fn refuse(&self, why: Unread) -> Unread {
        let refusal = match why {
            Unread::Crowded => RequestRefusal::Crowded,
            Unread::Bytes => RequestRefusal::Bytes,
            Unread::Size => RequestRefusal::Size,
            Unread::Slow => RequestRefusal::Slow,
            Unread::Broken => return why,
        };
        self.bounds.counts.refuse_request(refusal);
        why
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.bounds.counts.requests.lower(1);
        self.bounds.counts.request_bytes.lower(self.bytes);
    }
}

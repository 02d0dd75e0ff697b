use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Status};

use super::{FinishedSpan, Tracer, naming};
use crate::cause::Cause;
use crate::clock::Reading;
use crate::limit::Algorithm;
use crate::store::{Operation, Reply, StoreCall, StoreError, StoreServer};

/// The span of a call to the store.
#[derive(Debug)]
pub struct CallSpan {
    tracer: Arc<Tracer>,
    name: &'static str,
    itself: Cause,
    parent: Option<u64>,
    link: Option<Cause>,
    asked: Reading,
    attributes: Vec<KeyValue>,
}

/// What a call is made for. The request is there if it is traced.
#[derive(Clone, Copy, Debug)]
pub enum CallFor<'a> {
    /// A request waits for the answer.
    Waiting(Option<&'a Cause>),
    /// Nobody waits; a request may have caused it.
    Background(Option<&'a Cause>),
}

/// Where a span belongs.
#[derive(Debug)]
struct Place {
    itself: Cause,
    parent: Option<u64>,
    link: Option<Cause>,
}

impl Tracer {
    /// Begins the span of a call, if it is traced: within the span of the request that waits for it; or, in the background,
    /// in a trace of its own with a link to the request that has caused it. A call in the background that no traced
    /// request has caused is picked like a request without a caller.
    #[must_use]
    pub fn begin_call(
        self: &Arc<Self>,
        call: &StoreCall,
        made_for: CallFor<'_>,
        server: impl FnOnce() -> Option<StoreServer>,
        read_clock: impl FnOnce() -> Reading,
    ) -> Option<CallSpan> {
        let Place { itself, parent, link } = self.place(made_for)?;
        let mut attributes = Vec::with_capacity(14);
        attributes.extend([
            KeyValue::new("db.system.name", "redis"),
            KeyValue::new("db.operation.name", "EVALSHA"),
            KeyValue::new(
                "db.stored_procedure.name",
                match call.limit.algorithm() {
                    Algorithm::TokenBucket => "token_bucket.lua",
                    Algorithm::FixedWindow => "fixed_window.lua",
                },
            ),
            KeyValue::new("comporta.rule", naming::bucket_without_values(&call.bucket)),
            KeyValue::new("comporta.background", parent.is_none()),
        ]);
        if let Some(StoreServer { address, port }) = server() {
            attributes.push(KeyValue::new("server.address", address));
            attributes.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
        }
        if self.with_values {
            attributes.push(KeyValue::new("comporta.bucket", Arc::clone(&call.bucket)));
        }
        let name = match &call.operation {
            Operation::Acquire { needed, want, .. } => {
                attributes.push(KeyValue::new("comporta.needed", integer(*needed)));
                attributes.push(KeyValue::new("comporta.want", integer(*want)));
                "store.acquire"
            }
            Operation::Refund { hits } => {
                attributes.push(KeyValue::new("comporta.hits", integer(*hits)));
                "store.refund"
            }
            Operation::Debit { hits } => {
                attributes.push(KeyValue::new("comporta.hits", integer(*hits)));
                "store.debit"
            }
        };
        Some(CallSpan { tracer: Arc::clone(self), name, itself, parent, link, asked: read_clock(), attributes })
    }

    fn place(&self, made_for: CallFor<'_>) -> Option<Place> {
        let span_id = self.new_span_id();
        let root = |trace_id| Cause { trace_id, span_id, state: None };
        Some(match made_for {
            CallFor::Waiting(request) => {
                let request = request?;
                Place { itself: Cause { span_id, ..request.clone() }, parent: Some(request.span_id), link: None }
            }
            CallFor::Background(Some(cause)) => {
                Place { itself: root(self.new_trace_id()), parent: None, link: Some(cause.clone()) }
            }
            CallFor::Background(None) => Place { itself: root(self.root()?), parent: None, link: None },
        })
    }
}

impl CallSpan {
    pub fn end(mut self, answer: &Result<Reply, StoreError>) {
        let status = match answer {
            Ok(reply) => {
                self.attributes.extend([
                    KeyValue::new("comporta.granted", reply.granted),
                    KeyValue::new("comporta.lent", integer(reply.extra)),
                ]);
                if !reply.granted {
                    let retry_after = Duration::from_micros(reply.retry_after.0).as_secs_f64();
                    self.attributes.push(KeyValue::new("comporta.retry_after", retry_after));
                }
                Status::Unset
            }
            Err(error) => {
                self.attributes.push(KeyValue::new("error.type", error.kind()));
                Status::error(error.to_string())
            }
        };
        self.tracer.send(FinishedSpan {
            name: self.name,
            kind: SpanKind::Client,
            itself: self.itself,
            parent: self.parent,
            link: self.link,
            start: self.asked.now.utc,
            time: self.asked.elapsed(),
            attributes: self.attributes,
            status,
        });
    }
}

/// OpenTelemetry has no larger numbers; no limit has either.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

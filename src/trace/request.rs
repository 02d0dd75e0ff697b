use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{SpanKind, Status};
use opentelemetry::{Array, KeyValue, StringValue, Value};

use super::{FinishedSpan, Tracer, naming};
use crate::cause::Cause;
use crate::clock::Reading;
use crate::engine::{Code, Decision, InvalidRequest, Unavailable};
use crate::request::RateLimitRequest;

/// The way on which a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    Grpc,
    Json,
}

/// A request that is going to be traced.
#[derive(Debug)]
pub struct Picked {
    pub(super) tracer: Arc<Tracer>,
    pub(super) trace_id: u128,
    /// The span of the one who asks.
    pub(super) parent: Option<u64>,
    pub(super) state: Option<Arc<str>>,
    pub(super) face: Face,
}

/// The span of a request that is being decided. Dropped before it is ended, it says that the client has left.
#[derive(Debug)]
pub struct RequestSpan {
    tracer: Arc<Tracer>,
    itself: Cause,
    parent: Option<u64>,
    face: Face,
    asked: Reading,
    /// What is known of it so far. `None` when it has ended.
    attributes: Option<Vec<KeyValue>>,
}

/// How a request has ended, as gRPC and HTTP call it.
struct Outcome {
    grpc: &'static str,
    http: i64,
    /// Why the service is to blame.
    fault: Option<String>,
}

impl Picked {
    /// Begins the span of a request that was asked just now.
    #[must_use]
    pub fn begin(self, request: &RateLimitRequest, asked: Reading) -> RequestSpan {
        let Self { tracer, trace_id, parent, state, face } = self;
        let mut attributes = Vec::with_capacity(14);
        attributes.push(KeyValue::new("comporta.domain", naming::domain(request)));
        let described = request.descriptors.iter().take(naming::MOST_DESCRIPTORS);
        let descriptors = described.map(|descriptor| naming::descriptor(descriptor, tracer.with_values).into());
        attributes.push(texts("comporta.descriptors", descriptors));
        attributes.push(KeyValue::new("comporta.hits", i64::from(request.hits_addend.max(1))));
        attributes.push(KeyValue::new("comporta.replica", tracer.instance.clone()));
        let itself = Cause { trace_id, span_id: tracer.new_span_id(), state };
        RequestSpan { tracer, itself, parent, face, asked, attributes: Some(attributes) }
    }
}

impl RequestSpan {
    /// For the calls that the request causes.
    #[must_use]
    pub const fn cause(&self) -> &Cause {
        &self.itself
    }

    pub fn decided(mut self, decision: &Decision, has_waited: bool) {
        let statuses = decision.statuses.iter().take(naming::MOST_DESCRIPTORS);
        if let Some(attributes) = &mut self.attributes {
            attributes.extend([
                KeyValue::new("comporta.code", decision.code.name()),
                KeyValue::new("comporta.source", decision.source.name()),
                KeyValue::new("comporta.waited", has_waited),
                texts("comporta.descriptor.codes", statuses.map(|status| status.code.name().into())),
            ]);
        }
        let http = match decision.code {
            Code::Ok => 200,
            Code::OverLimit => 429,
        };
        self.end(Outcome { grpc: "OK", http, fault: None });
    }

    pub fn invalid(mut self, error: &InvalidRequest) {
        if let Some(attributes) = &mut self.attributes {
            attributes.push(KeyValue::new("comporta.error", error.to_string()));
        }
        self.end(Outcome { grpc: "INVALID_ARGUMENT", http: 400, fault: None });
    }

    pub fn unavailable(mut self, error: &Unavailable) {
        self.end(Outcome { grpc: "UNAVAILABLE", http: 503, fault: Some(error.to_string()) });
    }

    fn end(&mut self, outcome: Outcome) {
        let Some(mut attributes) = self.attributes.take() else { return };
        match self.face {
            Face::Grpc => attributes.extend([
                KeyValue::new("rpc.system.name", "grpc"),
                KeyValue::new("rpc.method", "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
                KeyValue::new("rpc.response.status_code", outcome.grpc),
            ]),
            Face::Json => attributes.extend([
                KeyValue::new("http.request.method", "POST"),
                KeyValue::new("http.route", "/json"),
                KeyValue::new("url.path", "/json"),
                KeyValue::new("url.scheme", "http"),
                KeyValue::new("http.response.status_code", outcome.http),
            ]),
        }
        let status = outcome.fault.map_or(Status::Unset, |fault| {
            let kind = match self.face {
                Face::Grpc => outcome.grpc.into(),
                Face::Json => Value::from(outcome.http.to_string()),
            };
            attributes.push(KeyValue::new("error.type", kind));
            Status::error(fault)
        });
        self.tracer.send(FinishedSpan {
            name: "ShouldRateLimit",
            kind: SpanKind::Server,
            itself: self.itself.clone(),
            parent: self.parent,
            link: None,
            start: self.asked.now.utc,
            time: self.asked.elapsed().max(SHORTEST),
            attributes,
            status,
        });
    }
}

/// Tools show spans that take no time as if they had never ended.
const SHORTEST: Duration = Duration::from_nanos(1);

impl Drop for RequestSpan {
    fn drop(&mut self) {
        // What HTTP has no status for is 499 with many proxies.
        self.end(Outcome { grpc: "CANCELLED", http: 499, fault: None });
    }
}

fn texts(name: &'static str, texts: impl Iterator<Item = StringValue>) -> KeyValue {
    KeyValue::new(name, Value::Array(Array::String(texts.collect())))
}

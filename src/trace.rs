//! Traces: spans of requests and of the calls that they cause, sent to a collector.
//!
//! Whether a request is traced is decided from one header, before anything is made: see [`Tracer::pick`]. What is traced is
//! written down as it ends, and leaves through a bounded queue, on a thread of its own. No request waits for it, and
//! nothing that the exporter does is traced.

mod call;
mod caller;
mod endpoint;
mod export;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod naming;
mod queue;
mod request;
mod sampling;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, StringValue};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanLinks};

pub use call::{CallFor, CallSpan};
pub use endpoint::{EndpointError, OtlpEndpoint, OtlpProtocol};
pub use export::ExportError;
pub use request::{Face, Picked, RequestSpan};
pub use sampling::{Ratio, RatioError, Sampling};

use self::caller::Caller;
use self::export::Resources;
use self::queue::Queue;
use crate::cause::Cause;
use crate::clock::Clock;
use crate::limit::Micros;

/// The release of OpenTelemetry's semantic conventions that the names of attributes are taken from.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.45.0";

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The longest `tracestate` that is passed on, in bytes: the W3C asks for as much.
const LONGEST_STATE: usize = 512;

/// What is traced, and where it goes.
#[derive(Clone, Debug, PartialEq)]
pub struct TracerSettings {
    pub endpoint: OtlpEndpoint,
    pub protocol: OtlpProtocol,
    /// How long the collector may take for a batch.
    pub timeout: Duration,
    pub sampling: Sampling,
    /// Spans name the values of descriptors, and not only their keys.
    pub with_values: bool,
}

/// Decides what is traced, and sends it.
#[derive(Debug)]
pub struct Tracer {
    sampling: Sampling,
    with_values: bool,
    /// This process, among its replicas.
    instance: StringValue,
    scope: InstrumentationScope,
    ids: RandomIdGenerator,
    queue: Queue,
}

impl Tracer {
    /// Begins to send, on a thread of its own. Nothing is connected to before there is something to send.
    ///
    /// # Errors
    ///
    /// When what it takes for TLS cannot be had, or there is no thread.
    pub fn start(settings: &TracerSettings, clock: &Arc<Clock>) -> Result<Arc<Self>, ExportError> {
        let Resources { resource, instance } = Resources::detect();
        Ok(Arc::new(Self {
            sampling: settings.sampling,
            with_values: settings.with_values,
            instance,
            scope: InstrumentationScope::builder("comporta")
                .with_version(env!("CARGO_PKG_VERSION"))
                .with_schema_url(SCHEMA)
                .build(),
            ids: RandomIdGenerator::default(),
            queue: Queue::start(settings, &resource, Arc::clone(clock))?,
        }))
    }

    /// Whether a request with these headers is traced. For one that is not, this is all that tracing costs: a header is
    /// looked up, and nothing is allocated.
    #[must_use]
    pub fn pick(self: &Arc<Self>, headers: &HeaderMap, face: Face) -> Option<Picked> {
        let caller = headers.get(&TRACEPARENT).and_then(|header| Caller::read(header.as_bytes()));
        let trace_id = match &caller {
            Some(caller) => self.sampling.picks(caller).then_some(caller.trace_id)?,
            None => self.root()?,
        };
        let state = caller.is_some().then(|| state_in(headers)).flatten();
        Some(Picked { tracer: Arc::clone(self), trace_id, parent: caller.map(|caller| caller.span_id), state, face })
    }

    /// Sends what is left, and waits so long at most until the collector has it.
    pub async fn end(&self, patience: Duration) {
        self.queue.end(patience).await;
    }

    /// The name of a new trace that nobody has asked for, if it is one of those that are picked.
    fn root(&self) -> Option<u128> {
        if self.sampling.root == Ratio::NEVER {
            return None;
        }
        let trace_id = self.new_trace_id();
        self.sampling.root.picks(trace_id).then_some(trace_id)
    }

    fn new_trace_id(&self) -> u128 {
        u128::from_be_bytes(self.ids.new_trace_id().to_bytes())
    }

    fn new_span_id(&self) -> u64 {
        u64::from_be_bytes(self.ids.new_span_id().to_bytes())
    }

    fn send(&self, span: FinishedSpan) {
        let mut links = SpanLinks::default();
        links.links.extend(span.link.map(|cause| Link::with_context(context(&cause))));
        let start_time = UNIX_EPOCH + Duration::from_micros(span.start.0);
        self.queue.send(SpanData {
            span_context: context(&span.itself),
            parent_span_id: SpanId::from(span.parent.unwrap_or_default()),
            parent_span_is_remote: span.parent.is_some() && span.kind == SpanKind::Server,
            span_kind: span.kind,
            name: Cow::Borrowed(span.name),
            start_time,
            end_time: start_time + span.time,
            attributes: span.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: span.status,
            instrumentation_scope: self.scope.clone(),
        });
    }
}

/// Something that has happened.
struct FinishedSpan {
    name: &'static str,
    kind: SpanKind,
    itself: Cause,
    parent: Option<u64>,
    link: Option<Cause>,
    /// In UTC.
    start: Micros,
    time: Duration,
    attributes: Vec<KeyValue>,
    status: Status,
}

fn context(cause: &Cause) -> SpanContext {
    let (trace_id, span_id) = (TraceId::from(cause.trace_id), SpanId::from(cause.span_id));
    let state = cause.state.as_deref().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, state)
}

/// The `tracestate` of a request; several headers are one list.
fn state_in(headers: &HeaderMap) -> Option<Arc<str>> {
    let lists: Vec<&str> = headers.get_all(&TRACESTATE).iter().filter_map(|header| header.to_str().ok()).collect();
    let state = lists.join(",");
    (1..=LONGEST_STATE).contains(&state.len()).then(|| state.into())
}

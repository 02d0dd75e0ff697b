//! An OpenTelemetry collector: it takes traces over gRPC or HTTP, and lets tests look at them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span as ProtoSpan;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use parking_lot::Mutex;
use prost::Message;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::{free_address, wait_for};

/// A collector that listens.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    received: Arc<Received>,
    _stop: oneshot::Sender<()>,
}

/// All that has come.
#[derive(Debug, Default)]
struct Received {
    requests: Mutex<Vec<ExportTraceServiceRequest>>,
    headers: Mutex<HeaderMap>,
}

/// A span as tests read it: names in hexadecimal, values as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) kind: i32,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty if it has none.
    pub(crate) parent: String,
    pub(crate) state: String,
    /// Trace and span of each.
    pub(crate) links: Vec<(String, String)>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_error: bool,
    pub(crate) attributes: BTreeMap<String, Value>,
    /// What is said of the one who has sent it.
    pub(crate) resource: BTreeMap<String, Value>,
}

impl Collector {
    pub(crate) const SERVER: i32 = 2;
    pub(crate) const CLIENT: i32 = 3;

    pub(crate) fn grpc() -> Self {
        Self::grpc_at(free_address())
    }

    pub(crate) fn grpc_at(address: SocketAddr) -> Self {
        Self::start(address, |listener, received, stop| async move {
            let incoming = TcpListenerStream::new(listener);
            let service = TraceServiceServer::from_arc(received);
            let stopped = async { drop(stop.await) };
            Server::builder().add_service(service).serve_with_incoming_shutdown(incoming, stopped).await.unwrap();
        })
    }

    pub(crate) fn http() -> Self {
        Self::start(free_address(), |listener, received, stop| async move {
            let router = axum::Router::new().route("/v1/traces", post(take)).with_state(received);
            let stopped = async { drop(stop.await) };
            axum::serve(listener, router).with_graceful_shutdown(stopped).await.unwrap();
        })
    }

    fn start<F: Future<Output = ()>>(
        address: SocketAddr,
        serve: impl FnOnce(TcpListener, Arc<Received>, oneshot::Receiver<()>) -> F + Send + 'static,
    ) -> Self {
        let received = Arc::<Received>::default();
        let (stop, stopped) = oneshot::channel();
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let of_thread = Arc::clone(&received);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { serve(TcpListener::from_std(listener).unwrap(), of_thread, stopped).await });
        });
        Self { address, received, _stop: stop }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has come so far, in the order in which it came.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let requests = self.received.requests.lock();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let spans = resources.flat_map(|sent| {
            let resource = sent.resource.as_ref().map(|resource| attributes(&resource.attributes)).unwrap_or_default();
            let spans = sent.scope_spans.iter().flat_map(|scope| &scope.spans);
            spans.map(move |span| Span::of(span, resource.clone()))
        });
        spans.collect()
    }

    /// Waits until there is what is looked for.
    pub(crate) fn wait_for<T>(&self, what: &str, find: impl Fn(&[Span]) -> Option<T>) -> T {
        wait_for(what, || find(&self.spans()))
    }

    /// Waits for so many spans of a trace.
    pub(crate) fn wait_for_trace(&self, trace_id: &str, count: usize) -> Vec<Span> {
        self.wait_for(&format!("{count} spans of the trace {trace_id}"), |spans| {
            let of_trace: Vec<Span> = spans.iter().filter(|span| span.trace == trace_id).cloned().collect();
            (of_trace.len() >= count).then_some(of_trace)
        })
    }

    /// Whether a text stands anywhere in what has come.
    pub(crate) fn has_seen(&self, text: &str) -> bool {
        let requests = self.received.requests.lock();
        requests.iter().any(|request| memchr::memmem::find(&request.encode_to_vec(), text.as_bytes()).is_some())
    }

    /// A header of the last request.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.received.headers.lock().get(name).map(|value| value.to_str().unwrap().to_owned())
    }
}

impl Received {
    fn take(&self, headers: &HeaderMap, request: ExportTraceServiceRequest) {
        *self.headers.lock() = headers.clone();
        self.requests.lock().push(request);
    }
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let headers = request.metadata().as_ref().clone();
        self.take(&headers, request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn take(State(received): State<Arc<Received>>, headers: HeaderMap, body: Bytes) -> Vec<u8> {
    received.take(&headers, ExportTraceServiceRequest::decode(body).unwrap());
    ExportTraceServiceResponse::default().encode_to_vec()
}

impl Span {
    fn of(span: &ProtoSpan, resource: BTreeMap<String, Value>) -> Self {
        Self {
            name: span.name.clone(),
            kind: span.kind,
            trace: hexadecimal(&span.trace_id),
            id: hexadecimal(&span.span_id),
            parent: hexadecimal(&span.parent_span_id),
            state: span.trace_state.clone(),
            links: span.links.iter().map(|link| (hexadecimal(&link.trace_id), hexadecimal(&link.span_id))).collect(),
            start: span.start_time_unix_nano,
            end: span.end_time_unix_nano,
            is_error: span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error),
            attributes: attributes(&span.attributes),
            resource,
        }
    }

    /// The value of an attribute that must be there.
    pub(crate) fn get(&self, name: &str) -> &Value {
        self.attributes.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, Value> {
    pairs.iter().map(|pair| (pair.key.clone(), to_json(pair.value.as_ref()))).collect()
}

fn to_json(value: Option<&AnyValue>) -> Value {
    match value.and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone().into(),
        Some(any_value::Value::BoolValue(flag)) => (*flag).into(),
        Some(any_value::Value::IntValue(number)) => (*number).into(),
        Some(any_value::Value::DoubleValue(number)) => (*number).into(),
        Some(any_value::Value::ArrayValue(array)) => array.values.iter().map(|value| to_json(Some(value))).collect(),
        other => panic!("an attribute of another kind: {other:?}"),
    }
}

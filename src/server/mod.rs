//! The faces of the service: gRPC for Envoy, HTTP for functions and probes, a port for operators.

mod admin;
mod answer;
mod arrival;
mod bounds;
mod connections;
mod deadline;
mod decision_log;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod grpc;
mod held;
mod http;
mod json;
mod listen;
mod metadata;
mod places;
mod reflection;
mod response;
mod signals;
mod sniff;
mod unary;

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, Request};
use axum::Router;
use axum::response::Response;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::task::JoinError;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::Service;
use tracing::{info, warn};

pub use listen::Listeners;
pub use signals::{Stop, StopSignals};

use self::http::HttpFace;
use crate::clock::{Clock, Reading};
use crate::engine::{Decision, Unavailable};
use crate::limit::Micros;
use crate::replica::{Deciding, Replica};
use crate::request::RateLimitRequest;
use crate::settings::{ResponseSettings, ServeSettings};
use crate::telemetry::metrics::{Metrics, PortCounts};
use crate::tls::ServerTls;
use crate::trace::{Face, Picked, RequestSpan};
use answer::{AnswerError, Answering};
use bounds::Bounds;
use connections::Port;
use decision_log::DecisionLog;
use grpc::GrpcFace;
use response::to_response;

/// Any error, at the edges of the program where it is only told.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The largest message that is read, in bytes: gRPC's usual bound, for requests over HTTP too.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Names under which health is asked for: the server, Envoy's service, and the name of envoyproxy/ratelimit's probes.
const HEALTH_NAMES: [&str; 3] = ["", grpc::SERVICE_NAME, "ratelimit"];

/// So much of what is left for connections the gRPC port may take, before those of HTTP are told to go all the same.
const GRPC_SHARE: f64 = 0.75;

/// What the faces share.
#[derive(Debug)]
struct App {
    replica: Arc<Replica>,
    metrics: Metrics,
    response: ResponseSettings,
    log: DecisionLog,
    phase: watch::Sender<Phase>,
}

/// What the service has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It answers already, and should get no requests yet if others can have them.
    Starting,
    Serving,
    Stopping,
}

impl App {
    fn new(replica: Arc<Replica>, ports: Vec<Arc<PortCounts>>, response: ResponseSettings) -> Self {
        let metrics = Metrics::new(Arc::clone(&replica), ports);
        Self { replica, metrics, response, log: DecisionLog::new(), phase: watch::Sender::new(Phase::Starting) }
    }

    fn clock(&self) -> &Arc<Clock> {
        &self.replica.clock
    }

    /// Whether a request with these headers is traced.
    fn pick(&self, headers: &HeaderMap, face: Face) -> Option<Picked> {
        self.replica.tracer()?.pick(headers, face)
    }

    /// Answers a request; one that waits for the store is answered in so much time, if the client says how much it has.
    fn answer(
        self: &Arc<Self>,
        request: &RateLimitRequest,
        patience: Option<Duration>,
        picked: Option<Picked>,
    ) -> Answering {
        let asked = self.clock().read();
        let deadline = patience.map(|patience| asked.now.monotonic + Micros::from(patience));
        let span = picked.map(|picked| Box::new(picked.begin(request, asked)));
        match self.replica.decide(request, asked.now, deadline, span.as_deref().map(RequestSpan::cause)) {
            Err(invalid) => {
                if let Some(span) = span {
                    span.invalid(&invalid);
                }
                Answering::ready(Err(invalid.into()))
            }
            Ok(Deciding::Decided(decision)) => {
                Answering::ready(self.conclude(Ok(decision), request, asked, span, false))
            }
            Ok(Deciding::Waits(decision)) => {
                let (app, request) = (Arc::clone(self), request.clone());
                Answering::Waits(Box::pin(async move {
                    let decision = decision.await;
                    app.conclude(decision, &request, asked, span, true)
                }))
            }
        }
    }

    /// Tells all who want to know what has become of a request.
    fn conclude(
        &self,
        decision: Result<Decision, Unavailable>,
        request: &RateLimitRequest,
        asked: Reading,
        span: Option<Box<RequestSpan>>,
        has_waited: bool,
    ) -> Result<RateLimitResponse, AnswerError> {
        self.metrics.observe_decision(asked.elapsed());
        let cause = span.as_deref().map(RequestSpan::cause);
        self.log.tell(decision.as_ref().map_err(|error| *error), request, &self.replica.engine, cause, asked.now);
        match (span, &decision) {
            (Some(span), Ok(decision)) => span.decided(decision, has_waited),
            (Some(span), Err(unavailable)) => span.unavailable(unavailable),
            (None, _) => {}
        }
        Ok(to_response(decision?, request, &self.response))
    }
}

/// TLS of the ports that speak it.
#[derive(Clone, Debug, Default)]
pub struct PortTls {
    pub grpc: Option<Arc<ServerTls>>,
    pub http: Option<Arc<ServerTls>>,
}

impl PortTls {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    ///
    /// A text for people, which names the flag and the file.
    pub fn load(settings: &ServeSettings, clock: &Arc<Clock>) -> Result<Self, String> {
        let load = |files: Option<_>| {
            let tls = files.map(|files| ServerTls::load(files, Arc::clone(clock))).transpose();
            tls.map(|tls| tls.map(Arc::new))
        };
        Ok(Self { grpc: load(settings.grpc_tls.files())?, http: load(settings.http.files())? })
    }
}

/// Serves until it is told to stop, then lets the requests under way finish, gives back what is borrowed, and sends the
/// last traces; all within the drain timeout. Requests are answered from the beginning; probes are told to send them once
/// `prepared` resolves. `leave_store` tells the other replicas that there is one less.
pub async fn serve(
    listeners: Listeners,
    tls: PortTls,
    replica: Arc<Replica>,
    settings: &ServeSettings,
    prepared: impl Future<Output = ()> + Send + 'static,
    leave_store: impl Future<Output = ()>,
    mut signals: StopSignals,
) -> Result<(), BoxError> {
    let ports = Ports::new(&tls);
    let app = Arc::new(App::new(Arc::clone(&replica), ports.all(), settings.response.clone()));
    let (health, health_service) = tonic_health::server::health_reporter();
    for name in HEALTH_NAMES {
        health.set_service_status(name, ServingStatus::NotServing).await;
    }
    info!("listening: {listeners}");

    let (stop_grpc, stop_http) = (watch::Sender::new(false), watch::Sender::new(false));
    let new_port =
        |name, has_http_1, counts| Port::new(name, has_http_1, &settings.connections, counts, &replica.clock);
    let grpc_bounds = Bounds::new(&ports.grpc, &settings.connections);
    let grpc = Arc::new(GrpcFace::new(Arc::clone(&app), grpc_bounds, health_service)?);
    let mut grpc = tokio::spawn(new_port("gRPC", false, &ports.grpc).serve(
        listeners.grpc,
        move |request, _| grpc.answer(request),
        stop_grpc.subscribe(),
    ));
    let wants_known_clients = settings.http.http_tls_client_ca.is_some();
    let http_bounds = Bounds::new(&ports.http, &settings.connections);
    let http = Arc::new(HttpFace::new(Arc::clone(&app), http_bounds, wants_known_clients));
    let mut http = tokio::spawn(new_port("HTTP", true, &ports.http).serve(
        listeners.http,
        move |request, client| http.answer(request, client),
        stop_http.subscribe(),
    ));
    let admin = admin::router(Arc::clone(&app));
    let mut admin = tokio::spawn(new_port("admin", true, &ports.admin).serve(
        listeners.admin,
        move |request, _| route(admin.clone(), request),
        stop_http.subscribe(),
    ));
    let mut housekeeping = tokio::spawn(Arc::clone(&replica).keep_house());
    for tls in [tls.grpc, tls.http].into_iter().flatten() {
        tokio::spawn(tls.follow_files());
    }

    let starting = tokio::spawn(start_up(prepared, Arc::clone(&app), health.clone()));
    let stop = tokio::select! {
        stop = signals.next() => stop,
        // A task that ends by itself has failed; there is nothing to drain then.
        ended = &mut grpc => return Err(failure("gRPC", ended)),
        ended = &mut http => return Err(failure("HTTP", ended)),
        ended = &mut admin => return Err(failure("admin", ended)),
        ended = &mut housekeeping => return Err(failure("housekeeping", ended)),
    };
    let stopping = replica.clock.read();
    let left = |timeout: Duration| timeout.saturating_sub(stopping.elapsed());
    starting.abort();
    // It must not say that we are ready after we have said that we are not.
    drop(starting.await);
    app.phase.send_replace(Phase::Stopping);
    for name in HEALTH_NAMES {
        health.set_service_status(name, ServingStatus::NotServing).await;
    }
    let delay = if stop == Stop::Terminate { settings.drain_delay } else { Duration::ZERO };
    info!("stopping: {}{}", stop.signal(), if delay.is_zero() { String::new() } else { format!(", in {delay:?}") });
    let drain_timeout = settings.drain_timeout;
    let for_requests = settings.drain_time_for_requests();
    // HTTP goes on until gRPC has drained, so that probes read "stopping" and not a refused connection.
    let drained = async {
        tokio::time::sleep(delay).await;
        stop_grpc.send_replace(true);
        // Whoever watches our health has been told; the end of the stream lets its connection end too.
        for name in HEALTH_NAMES {
            health.clone().clear_service_status(name).await;
        }
        drop(tokio::time::timeout(left(for_requests).mul_f64(GRPC_SHARE), &mut grpc).await);
        stop_http.send_replace(true);
        drop(tokio::join!(&mut http, &mut admin));
        if !grpc.is_finished() {
            drop((&mut grpc).await);
        }
    };
    tokio::select! {
        biased;
        drained = tokio::time::timeout(for_requests, drained) => {
            let left = ports.connections();
            if drained.is_err() && left > 0 {
                warn!(
                    connections = left,
                    "some connections did not end in the {for_requests:?} that --drain-timeout leaves; they are cut"
                );
            }
        }
        again = signals.next() => warn!("{} once more: connections are cut", again.signal()),
    }
    for task in [grpc, http, admin] {
        task.abort();
    }
    replica.return_leases(left(drain_timeout)).await;
    housekeeping.abort();
    drop(tokio::time::timeout(left(drain_timeout), leave_store).await);
    if let Some(tracer) = replica.tracer() {
        tracer.end(left(drain_timeout)).await;
    }
    info!("stopped");
    Ok(())
}

/// What is counted of each port.
struct Ports {
    grpc: Arc<PortCounts>,
    http: Arc<PortCounts>,
    admin: Arc<PortCounts>,
}

impl Ports {
    fn new(tls: &PortTls) -> Self {
        Self {
            grpc: PortCounts::new("grpc", tls.grpc.clone()),
            http: PortCounts::new("http", tls.http.clone()),
            admin: PortCounts::new("admin", None),
        }
    }

    fn all(&self) -> Vec<Arc<PortCounts>> {
        [&self.grpc, &self.http, &self.admin].map(Arc::clone).into()
    }

    /// How many connections there are.
    fn connections(&self) -> u64 {
        [&self.grpc, &self.http, &self.admin].iter().map(|port| port.connections.get()).sum()
    }
}

/// What a router answers.
async fn route(mut router: Router, request: Request<Incoming>) -> Response {
    let Ok(response) = router.call(request).await;
    response
}

/// Tells probes that requests can come.
async fn start_up(prepared: impl Future<Output = ()>, app: Arc<App>, health: HealthReporter) {
    prepared.await;
    for name in HEALTH_NAMES {
        health.set_service_status(name, ServingStatus::Serving).await;
    }
    app.phase.send_replace(Phase::Serving);
}

/// Why the service cannot go on.
fn failure(task: &str, ended: Result<(), JoinError>) -> BoxError {
    match ended {
        Ok(()) => format!("{task} ended by itself").into(),
        Err(error) => format!("{task} failed: {error}").into(),
    }
}

async fn until_set(mut flag: watch::Receiver<bool>) {
    // An error means that the sender is gone, which ends the service too.
    drop(flag.wait_for(|is_set| *is_set).await);
}

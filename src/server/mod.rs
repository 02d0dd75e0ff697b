//! The faces of the service: gRPC for Envoy, HTTP for functions and probes, a port for operators.

mod admin;
mod answer;
mod deadline;
mod decision_log;
mod grpc;
mod http;
mod json;
mod listen;
mod metadata;
mod reflection;
mod response;
mod signals;
mod sniff;

use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderMap;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use tokio::sync::watch;
use tokio::task::JoinError;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tracing::{info, warn};

pub use listen::Listeners;
pub use signals::signals;

use crate::clock::{Clock, Reading};
use crate::engine::{Decision, Unavailable};
use crate::limit::Micros;
use crate::replica::{Deciding, Replica};
use crate::request::RateLimitRequest;
use crate::settings::{ResponseSettings, ServeSettings};
use crate::telemetry::metrics::Metrics;
use crate::trace::{Face, Picked, RequestSpan};
use answer::{AnswerError, Answering};
use decision_log::DecisionLog;
use response::to_response;

/// Any error, at the edges of the program where it is only told.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The largest message that is read, in bytes: gRPC's usual bound, for requests over HTTP too.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Names under which health is asked for: the server, Envoy's service, and the name of envoyproxy/ratelimit's probes.
const HEALTH_NAMES: [&str; 3] = ["", grpc::SERVICE_NAME, "ratelimit"];

/// How long the last traces may take to be sent: what is left of the drain timeout, between these.
const SHORTEST_FLUSH: Duration = Duration::from_secs(1);
const LONGEST_FLUSH: Duration = Duration::from_secs(5);

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
    fn new(replica: Arc<Replica>, response: ResponseSettings) -> Self {
        let metrics = Metrics::new(Arc::clone(&replica));
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

/// Serves until `shutdown` resolves, then lets the requests under way finish, for the drain timeout at most. Requests are
/// answered from the beginning; probes are told to send them once `prepared` resolves.
pub async fn serve(
    listeners: Listeners,
    replica: Arc<Replica>,
    settings: &ServeSettings,
    prepared: impl Future<Output = ()> + Send + 'static,
    shutdown: impl Future<Output = &'static str>,
) -> Result<(), BoxError> {
    let app = Arc::new(App::new(Arc::clone(&replica), settings.response.clone()));
    let (health, health_service) = tonic_health::server::health_reporter();
    for name in HEALTH_NAMES {
        health.set_service_status(name, ServingStatus::NotServing).await;
    }
    info!("listening: {listeners}");

    let (stop_grpc, stop_http) = (watch::Sender::new(false), watch::Sender::new(false));
    let mut grpc = tokio::spawn(grpc::serve(listeners.grpc, Arc::clone(&app), health_service, until_set(&stop_grpc)));
    let mut http = tokio::spawn(http::serve(listeners.http, Arc::clone(&app), until_set(&stop_http)));
    let mut admin = tokio::spawn(admin::serve(listeners.admin, Arc::clone(&app), until_set(&stop_http)));
    let mut housekeeping = tokio::spawn(Arc::clone(&replica).keep_house());

    let starting = tokio::spawn(start_up(prepared, Arc::clone(&app), health.clone()));
    tokio::select! {
        reason = shutdown => info!("stopping: {reason}"),
        // A task that ends by itself has failed; there is nothing to drain then.
        ended = &mut grpc => return Err(failure("gRPC", ended)),
        ended = &mut http => return Err(failure("HTTP", ended)),
        ended = &mut admin => return Err(failure("admin", ended)),
        ended = &mut housekeeping => return Err(failure("housekeeping", ended.map(Ok))),
    }
    let stopping = replica.clock.read();
    starting.abort();
    app.phase.send_replace(Phase::Stopping);
    for name in HEALTH_NAMES {
        health.set_service_status(name, ServingStatus::NotServing).await;
    }
    let drain_timeout = settings.drain_timeout;
    // HTTP goes on until gRPC has drained, so that probes read "stopping" and not a refused connection.
    let drained = async {
        stop_grpc.send_replace(true);
        // Whoever watches our health has been told; the end of the stream lets its connection end too.
        for name in HEALTH_NAMES {
            health.clone().clear_service_status(name).await;
        }
        drop((&mut grpc).await);
        stop_http.send_replace(true);
        tokio::join!(&mut http, &mut admin)
    };
    if tokio::time::timeout(drain_timeout, drained).await.is_err() {
        warn!("some connections did not end within --drain-timeout, {drain_timeout:?}; they are cut");
    }
    for task in [grpc, http, admin] {
        task.abort();
    }
    replica.return_leases().await;
    housekeeping.abort();
    if let Some(tracer) = replica.tracer() {
        let left = drain_timeout.saturating_sub(stopping.elapsed());
        tracer.end(left.clamp(SHORTEST_FLUSH, LONGEST_FLUSH)).await;
    }
    info!("stopped");
    Ok(())
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
fn failure(task: &str, ended: Result<Result<(), BoxError>, JoinError>) -> BoxError {
    match ended {
        Ok(Ok(())) => format!("{task} ended by itself").into(),
        Ok(Err(error)) => format!("{task} failed: {error}").into(),
        Err(error) => format!("{task} failed: {error}").into(),
    }
}

fn until_set(flag: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + 'static {
    let mut flag = flag.subscribe();
    // An error means that the sender is gone, which ends the service too.
    async move { drop(flag.wait_for(|is_set| *is_set).await) }
}

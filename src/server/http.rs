//! The HTTP port: the same question in JSON, and probes.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use http::{Request, StatusCode, header};
use hyper::body::Incoming;
use tower::Service;

use super::answer::AnswerError;
use super::bounds::{Bounds, Unread};
use super::connections::Client;
use super::held::Held;
use super::places::Places;
use super::{App, Phase, json};
use crate::trace::Face;

/// What is answered on the HTTP port.
#[derive(Debug)]
pub(super) struct HttpFace {
    router: Router,
    /// Answers that have not been sent, those of probes and refusals too.
    places: Places,
}

/// What the pages share.
#[derive(Debug)]
struct Pages {
    app: Arc<App>,
    bounds: Arc<Bounds>,
    /// Only clients with a certificate may ask `/json`.
    wants_known_clients: bool,
}

impl HttpFace {
    pub(super) fn new(app: Arc<App>, bounds: Bounds, wants_known_clients: bool) -> Self {
        let places = bounds.all();
        let pages = Pages { app, bounds: Arc::new(bounds), wants_known_clients };
        let router = Router::new()
            .route("/json", post(should_rate_limit))
            .route("/healthcheck", get(is_ready))
            .route("/readyz", get(is_ready))
            .route("/livez", get(|| async { "ok\n" }))
            .fallback(|| async {
                (StatusCode::NOT_FOUND, "here are POST /json, GET /healthcheck, /livez and /readyz\n")
            })
            .method_not_allowed_fallback(|| async {
                (StatusCode::METHOD_NOT_ALLOWED, "use POST for /json, and GET for /healthcheck, /livez and /readyz\n")
            })
            .with_state(Arc::new(pages));
        Self { router, places }
    }

    pub(super) fn answer(
        &self,
        mut request: Request<Incoming>,
        client: Client,
    ) -> impl Future<Output = Response> + Send + use<> {
        request.extensions_mut().insert(client);
        let answering = self.router.clone().call(request);
        let place = self.places.take();
        async move {
            let place = match place {
                Ok(place) => place,
                Err(error) => return refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
            };
            let Ok(response) = answering.await;
            response.map(|body| Body::new(Held::new(body, place)))
        }
    }
}

/// Whether requests should be sent here: not before the store was tried, nor while the process is about to end.
async fn is_ready(State(pages): State<Arc<Pages>>) -> impl IntoResponse {
    let app = &pages.app;
    let (status, word) = match *app.phase.borrow() {
        Phase::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
        Phase::Serving => (StatusCode::OK, "ok"),
        Phase::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    let store = app.replica.store_condition().map_or_else(String::new, |condition| format!("redis: {condition}\n"));
    (status, format!("{word}\n{store}"))
}

/// `ShouldRateLimit` in JSON.
async fn should_rate_limit(State(pages): State<Arc<Pages>>, request: axum::extract::Request) -> Response {
    let (head, body) = request.into_parts();
    let is_known = head.extensions.get::<Client>().is_some_and(|client| client.is_known);
    if pages.wants_known_clients && !is_known {
        return refuse(StatusCode::FORBIDDEN, "show a certificate that --http-tls-client-ca has signed");
    }
    let mut under_way = match pages.bounds.begin() {
        Ok(under_way) => under_way,
        Err(unread) => return refuse_unread(unread),
    };
    let body = match under_way.read(body).await {
        Ok(body) => body,
        Err(unread) => return refuse_unread(unread),
    };
    let app = &pages.app;
    let picked = app.pick(&head.headers, Face::Json);
    let request = match json::read_request(&body) {
        Ok(request) => request,
        Err(error) => {
            const EXAMPLE: &str =
                r#"{"domain": "api", "descriptors": [{"entries": [{"key": "tenant", "value": "acme"}]}]}"#;
            return refuse(
                StatusCode::BAD_REQUEST,
                &format!("{error}; the body must be a JSON object such as {EXAMPLE}"),
            );
        }
    };
    match app.answer(&request, None, picked).await {
        Ok(response) => {
            let status = match response.overall_code() {
                Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
                Code::Ok | Code::Unknown => StatusCode::OK,
            };
            let answer = answer(status, &json::write_response(&response));
            // Under way until it has been sent.
            answer.map(|body| Body::new(Held::new(body, under_way)))
        }
        Err(error @ AnswerError::Invalid(_)) => refuse(StatusCode::BAD_REQUEST, &error.to_string()),
        Err(error @ AnswerError::Unavailable(_)) => refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
    }
}

fn refuse_unread(unread: Unread) -> Response {
    let status = match unread {
        Unread::Crowded | Unread::Bytes => StatusCode::SERVICE_UNAVAILABLE,
        Unread::Size => StatusCode::PAYLOAD_TOO_LARGE,
        Unread::Slow => StatusCode::REQUEST_TIMEOUT,
        Unread::Broken => StatusCode::BAD_REQUEST,
    };
    refuse(status, &unread.to_string())
}

fn refuse(status: StatusCode, message: &str) -> Response {
    answer(status, &serde_json::json!({ "error": message }))
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

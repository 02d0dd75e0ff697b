use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use http::request::Parts;
use http::{StatusCode, header};
use tokio::net::TcpListener;

use super::answer::AnswerError;
use super::{App, BoxError, MAX_MESSAGE_BYTES, Phase, json};
use crate::trace::{Face, Picked};

pub(super) async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BoxError> {
    let router = Router::new()
        .route("/json", post(should_rate_limit).layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES)))
        .route("/healthcheck", get(is_ready))
        .route("/readyz", get(is_ready))
        .route("/livez", get(|| async { "ok\n" }))
        .fallback(|| async { (StatusCode::NOT_FOUND, "here are POST /json, GET /healthcheck, /livez and /readyz\n") })
        .method_not_allowed_fallback(|| async {
            (StatusCode::METHOD_NOT_ALLOWED, "use POST for /json, and GET for /healthcheck, /livez and /readyz\n")
        })
        .with_state(app);
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await?;
    Ok(())
}

/// Whether requests should be sent here: not before the store was tried, nor while the process is about to end.
async fn is_ready(State(app): State<Arc<App>>) -> impl IntoResponse {
    let (status, word) = match *app.phase.borrow() {
        Phase::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
        Phase::Serving => (StatusCode::OK, "ok"),
        Phase::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    let store = app.replica.store_condition().map_or_else(String::new, |condition| format!("redis: {condition}\n"));
    (status, format!("{word}\n{store}"))
}

/// `ShouldRateLimit` in JSON.
async fn should_rate_limit(
    State(app): State<Arc<App>>,
    Traced(picked): Traced,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return refuse(rejection.status(), "the request is larger than 4 MiB: send fewer or shorter descriptors");
        }
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text()),
    };
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
            answer(status, &json::write_response(&response))
        }
        Err(error @ AnswerError::Invalid(_)) => refuse(StatusCode::BAD_REQUEST, &error.to_string()),
        Err(error @ AnswerError::Unavailable(_)) => refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
    }
}

/// A request that is traced, if it is.
struct Traced(Option<Picked>);

impl FromRequestParts<Arc<App>> for Traced {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        Ok(Self(app.pick(&parts.headers, Face::Json)))
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    answer(status, &serde_json::json!({ "error": message }))
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

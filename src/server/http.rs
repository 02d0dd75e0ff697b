use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{StatusCode, header};
use tokio::net::TcpListener;

use super::response::to_response;
use super::{App, BoxError, MAX_MESSAGE_BYTES, json};
use crate::engine::Code;

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
        .with_state(app);
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await?;
    Ok(())
}

/// Whether requests should be sent here: not while the process is about to end.
async fn is_ready(State(app): State<Arc<App>>) -> impl IntoResponse {
    if app.is_draining.load(Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

/// `ShouldRateLimit` in JSON.
async fn should_rate_limit(State(app): State<Arc<App>>, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text()),
    };
    let request = match json::read_request(&body) {
        Ok(request) => request,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match app.decide(&request) {
        Ok(decision) => {
            let status = match decision.code {
                Code::Ok => StatusCode::OK,
                Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
            };
            answer(status, &json::write_response(&to_response(decision)))
        }
        Err(invalid) => refuse(StatusCode::BAD_REQUEST, &invalid.to_string()),
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    answer(status, &serde_json::json!({ "error": message }))
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{StatusCode, header};
use tokio::net::TcpListener;

use super::BoxError;
use crate::telemetry::metrics::{CONTENT_TYPE, Metrics};

pub(super) async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BoxError> {
    let router = Router::new().route("/metrics", get(show_metrics)).with_state(Arc::new(metrics));
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await?;
    Ok(())
}

async fn show_metrics(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    match metrics.encode() {
        Ok(page) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

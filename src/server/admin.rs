//! Pages for operators: what the service knows, in text and in JSON.

mod pages;
mod query;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Serialize;
use tokio::net::TcpListener;

use super::{App, BoxError};
use crate::engine::Engine;
use crate::limit::Now;
use crate::telemetry::metrics::{self, Metrics};
use query::Query;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

#[derive(Debug)]
struct Admin {
    app: Arc<App>,
    metrics: Metrics,
}

pub(super) async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BoxError> {
    axum::serve(listener, router(Admin { app, metrics })).with_graceful_shutdown(shutdown).await?;
    Ok(())
}

fn router(admin: Admin) -> Router {
    Router::new()
        .route("/", get(|| async { pages::INDEX }))
        .route("/policy", page(&pages::POLICY))
        .route("/explain", page(&pages::EXPLAIN))
        .route("/buckets", page(&pages::BUCKETS))
        .route("/metrics", get(show_metrics))
        .fallback(|uri: Uri| async move {
            (StatusCode::NOT_FOUND, format!("there is no page {}; here are\n\n{}", uri.path(), pages::INDEX))
        })
        .method_not_allowed_fallback(|| async {
            (StatusCode::METHOD_NOT_ALLOWED, "this port only shows, it changes nothing: use GET or HEAD\n")
        })
        .with_state(Arc::new(admin))
}

async fn show_metrics(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    match admin.metrics.encode() {
        Ok(page) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// A page that answers questions.
#[derive(Debug)]
struct Page<T: 'static> {
    make: fn(&Engine, &Query, Now) -> Result<T, PageError>,
    /// Good questions, for those who have asked a bad one.
    examples: &'static str,
}

/// Why a page cannot be shown.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("{0}")]
    BadQuestion(String),
    #[error("{0}")]
    NotFound(String),
    #[error("the page cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl PageError {
    const fn status(&self) -> StatusCode {
        match self {
            Self::BadQuestion(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Json(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A page that is made on a thread where it holds up no request, because a policy may have 100,000 rules.
fn page<T: Serialize + fmt::Display + 'static>(page: &'static Page<T>) -> MethodRouter<Arc<Admin>> {
    get(move |State(admin): State<Arc<Admin>>, RawQuery(query): RawQuery, headers: HeaderMap| async move {
        let now = admin.app.clock.now();
        let query = query.unwrap_or_default();
        let rendering = tokio::task::spawn_blocking(move || {
            let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
            render(&admin.app.engine, &query, accept, now, page)
        });
        match rendering.await {
            Ok(rendered) => rendered.into_response(),
            Err(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("the page could not be made: {error}\n")).into_response()
            }
        }
    })
}

/// A page as it is sent.
#[derive(Debug)]
struct Rendered {
    status: StatusCode,
    content_type: &'static str,
    body: String,
}

impl IntoResponse for Rendered {
    fn into_response(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, self.content_type)], self.body).into_response()
    }
}

fn render<T: Serialize + fmt::Display>(
    engine: &Engine,
    query: &str,
    accept: Option<&str>,
    now: Now,
    page: &Page<T>,
) -> Rendered {
    let query = Query::parse(query);
    let format = query.as_ref().map_or(Ok(None), Query::wants_json);
    let is_json = if let Ok(Some(wants_json)) = format { wants_json } else { accepts_json(accept) };
    let answer = format.and(query).and_then(|query| (page.make)(engine, &query, now));
    let written =
        answer.and_then(|it| if is_json { Ok(serde_json::to_string_pretty(&it)? + "\n") } else { Ok(it.to_string()) });
    let (status, body) = match written {
        Ok(body) => (StatusCode::OK, body),
        Err(error) => {
            let message = match &error {
                PageError::BadQuestion(problem) => format!("{problem}\nfor example: {}", page.examples),
                PageError::NotFound(_) | PageError::Json(_) => error.to_string(),
            };
            let body = if is_json { serde_json::json!({ "error": message }).to_string() } else { message };
            (error.status(), body + "\n")
        }
    };
    Rendered { status, content_type: if is_json { JSON } else { TEXT }, body }
}

/// Whether a client names JSON among the types that it takes. Browsers name others, and curl takes anything.
fn accepts_json(accept: Option<&str>) -> bool {
    let types = accept.unwrap_or_default().split(',');
    types.map(|one| one.split(';').next().unwrap_or_default().trim()).any(|one| one.eq_ignore_ascii_case(JSON))
}

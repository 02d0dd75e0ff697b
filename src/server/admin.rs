//! Pages for operators: what the service knows, in text and in JSON.

#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
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
use tokio::sync::Mutex;

use super::App;
use crate::limit::Now;
use crate::replica::Replica;
use crate::telemetry::metrics;
use query::Query;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

#[derive(Debug)]
struct Admin {
    app: Arc<App>,
    /// Held while a page is made. Each takes some megabytes when the policy is large, so they are made one by one.
    turn: Arc<Mutex<()>>,
}

pub(super) fn router(app: Arc<App>) -> Router {
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
        .with_state(Arc::new(Admin { app, turn: Arc::default() }))
}

async fn show_metrics(State(admin): State<Arc<Admin>>) -> Response {
    let app = Arc::clone(&admin.app);
    admin
        .make(move || match app.metrics.encode() {
            Ok(body) => Rendered { status: StatusCode::OK, content_type: metrics::CONTENT_TYPE, body },
            Err(error) => Rendered::failure(&error),
        })
        .await
}

impl Admin {
    /// Makes a page in its turn, on a thread where that holds up no request: a policy may have 100,000 rules.
    async fn make(&self, page: impl FnOnce() -> Rendered + Send + 'static) -> Response {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let rendering = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            page()
        });
        rendering.await.unwrap_or_else(|error| Rendered::failure(&error)).into_response()
    }
}

/// A page that answers questions.
#[derive(Debug)]
struct Page<T: 'static> {
    make: fn(&Replica, &Query, Now) -> Result<T, PageError>,
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

fn page<T: Serialize + fmt::Display + 'static>(page: &'static Page<T>) -> MethodRouter<Arc<Admin>> {
    get(move |State(admin): State<Arc<Admin>>, RawQuery(query): RawQuery, headers: HeaderMap| async move {
        let app = Arc::clone(&admin.app);
        admin
            .make(move || {
                let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
                render(&app.replica, &query.unwrap_or_default(), accept, app.clock().now(), page)
            })
            .await
    })
}

/// A page as it is sent.
#[derive(Debug)]
struct Rendered {
    status: StatusCode,
    content_type: &'static str,
    body: String,
}

impl Rendered {
    fn failure(error: &dyn fmt::Display) -> Self {
        let body = format!("the page could not be made: {error}\n");
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, content_type: TEXT, body }
    }
}

impl IntoResponse for Rendered {
    fn into_response(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, self.content_type)], self.body).into_response()
    }
}

fn render<T: Serialize + fmt::Display>(
    replica: &Replica,
    query: &str,
    accept: Option<&str>,
    now: Now,
    page: &Page<T>,
) -> Rendered {
    let query = Query::parse(query);
    let wanted = query.as_ref().ok().and_then(|query| query.wants_json().ok().flatten());
    let is_json = wanted.unwrap_or_else(|| accepts_json(accept));
    let write = || -> Result<String, PageError> {
        let query = query?;
        query.wants_json()?;
        let answer = (page.make)(replica, &query, now)?;
        Ok(if is_json { serde_json::to_string_pretty(&answer)? + "\n" } else { answer.to_string() })
    };
    let (status, body) = match write() {
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

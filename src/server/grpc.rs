//! The gRPC port: Envoy's service, health and reflection.

use std::sync::Arc;

use bytes::Bytes;
pub(super) use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::SERVICE_NAME;
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::pb::health_server::{Health, HealthServer};
use tower::Service;

use super::answer::AnswerError;
use super::bounds::{Bounds, Unread};
use super::held::Held;
use super::places::Places;
use super::unary::{self, GrpcBody};
use super::{App, BoxError, deadline, reflection};
use crate::request::RateLimitRequest;
use crate::trace::Face;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The longest message to the other services, in bytes: they are asked by names.
const MAX_OTHER_MESSAGE_BYTES: usize = 16 * 1024;

/// What is answered on the gRPC port.
///
/// Envoy's method is written out instead of generated: its requests are our own messages (see [`crate::request`]), and
/// nothing stands between the connection and the decision. Health and reflection are tonic's.
#[derive(Debug)]
pub(super) struct GrpcFace {
    app: Arc<App>,
    bounds: Arc<Bounds>,
    others: Routes,
    places_for_others: Places,
}

impl GrpcFace {
    pub(super) fn new(app: Arc<App>, bounds: Bounds, health: HealthServer<impl Health>) -> Result<Self, BoxError> {
        let others = Routes::new(health.max_decoding_message_size(MAX_OTHER_MESSAGE_BYTES))
            .add_service(reflection::v1()?.max_decoding_message_size(MAX_OTHER_MESSAGE_BYTES))
            .add_service(reflection::v1alpha()?.max_decoding_message_size(MAX_OTHER_MESSAGE_BYTES))
            .prepare();
        Ok(Self { app, places_for_others: bounds.others(), bounds: Arc::new(bounds), others })
    }

    pub(super) fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<GrpcBody>> + Send + use<> {
        let face = Arc::clone(self);
        async move {
            let answered = if request.uri().path() == SHOULD_RATE_LIMIT {
                face.should_rate_limit(request).await
            } else {
                face.answer_other(request).await
            };
            answered.unwrap_or_else(|status| unary::refuse(&status))
        }
    }

    async fn should_rate_limit(&self, request: Request<Incoming>) -> Result<Response<GrpcBody>, Status> {
        unary::check(&request)?;
        let mut under_way = self.bounds.begin().map_err(to_status)?;
        let (head, body) = request.into_parts();
        let message = unary::unframe(under_way.read(body).await.map_err(to_status)?)?;
        let message = read(message)?;
        let patience = head.headers.get(deadline::HEADER).and_then(|value| deadline::patience(value.as_bytes()));
        let picked = self.app.pick(&head.headers, Face::Grpc);
        let response = self.app.answer(&message, patience, picked).await.map_err(|error| {
            let message = error.to_string();
            match error {
                AnswerError::Invalid(_) => Status::invalid_argument(message),
                AnswerError::Unavailable(_) => Status::unavailable(message),
            }
        })?;
        unary::answer(&response, under_way)
    }

    async fn answer_other(&self, request: Request<Incoming>) -> Result<Response<GrpcBody>, Status> {
        if request.uri().path().starts_with(&format!("/{SERVICE_NAME}/")) {
            return Err(Status::unimplemented("the service has one method: ShouldRateLimit"));
        }
        let place = self.places_for_others.take().map_err(|error| Status::resource_exhausted(error.to_string()))?;
        let request = request.map(|body| self.bounds.in_time(body));
        let Ok(response) = self.others.clone().call(request).await;
        Ok(response.map(|body| GrpcBody::Other(Held::new(body, place))))
    }
}

fn read(message: Bytes) -> Result<RateLimitRequest, Status> {
    RateLimitRequest::read(message).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn to_status(unread: Unread) -> Status {
    let message = unread.to_string();
    match unread {
        Unread::Crowded | Unread::Bytes | Unread::Size => Status::resource_exhausted(message),
        Unread::Slow => Status::deadline_exceeded(message),
        Unread::Broken => Status::cancelled(message),
    }
}

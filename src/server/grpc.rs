use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
pub(super) use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::SERVICE_NAME;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_prost::ProstCodec;

use super::answer::{AnswerError, Answering};
use super::listen::grpc_connections;
use super::sniff::sniff;
use super::{App, BoxError, MAX_MESSAGE_BYTES, deadline, reflection};
use crate::request::RateLimitRequest;
use crate::trace::Face;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

pub(super) async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    health: HealthServer<impl Health>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), BoxError> {
    let incoming = sniff(grpc_connections(listener, Arc::clone(app.clock())), Arc::clone(&app));
    Server::builder()
        .add_service(RateLimitService(app))
        .add_service(health)
        .add_service(reflection::v1()?)
        .add_service(reflection::v1alpha()?)
        .serve_with_incoming_shutdown(incoming, shutdown)
        .await?;
    Ok(())
}

/// Envoy's `RateLimitService`, written out instead of generated, because its requests are our own messages: see
/// [`crate::request`].
#[derive(Clone)]
struct RateLimitService(Arc<App>);

impl NamedService for RateLimitService {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<http::Request<Body>> for RateLimitService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != SHOULD_RATE_LIMIT {
            return Box::pin(ready(Ok(
                Status::unimplemented("the service has one method: ShouldRateLimit").into_http()
            )));
        }
        let method = ShouldRateLimit(Arc::clone(&self.0));
        Box::pin(async move {
            let codec = ProstCodec::<RateLimitResponse, RateLimitRequest>::default();
            let mut grpc = Grpc::new(codec).max_decoding_message_size(MAX_MESSAGE_BYTES);
            Ok(grpc.unary(method, request).await)
        })
    }
}

struct ShouldRateLimit(Arc<App>);

impl UnaryService<RateLimitRequest> for ShouldRateLimit {
    type Response = RateLimitResponse;
    type Future = GrpcAnswering;

    fn call(&mut self, request: Request<RateLimitRequest>) -> Self::Future {
        let patience = request.metadata().get(deadline::HEADER).and_then(|value| deadline::patience(value.as_bytes()));
        let picked = self.0.pick(request.metadata().as_ref(), Face::Grpc);
        GrpcAnswering(self.0.answer(request.get_ref(), patience, picked))
    }
}

/// An answer in gRPC's terms.
struct GrpcAnswering(Answering);

impl Future for GrpcAnswering {
    type Output = Result<Response<RateLimitResponse>, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.map(Response::new).map_err(to_status))
    }
}

fn to_status(error: AnswerError) -> Status {
    let message = error.to_string();
    match error {
        AnswerError::Invalid(_) => Status::invalid_argument(message),
        AnswerError::Unavailable(_) => Status::unavailable(message),
    }
}

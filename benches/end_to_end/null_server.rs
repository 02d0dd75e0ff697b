//! A rate limit service that limits nothing: what gRPC alone costs.
//!
//! It is what anybody would write first: tonic's server with its default settings, the service as generated from Envoy's
//! files, the system's allocator. It answers at once, and each status holds as much as a real one.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::Duration;
use tonic::{Request, Response, Status};

struct NullService {
    status: DescriptorStatus,
}

#[tonic::async_trait]
impl RateLimitService for NullService {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let statuses = vec![self.status.clone(); request.get_ref().descriptors.len()];
        Ok(Response::new(RateLimitResponse { overall_code: self.status.code, statuses, ..Default::default() }))
    }
}

pub(crate) fn service(is_refusing: bool) -> RateLimitServiceServer<impl RateLimitService> {
    let code = if is_refusing { Code::OverLimit } else { Code::Ok };
    let status = DescriptorStatus {
        code: code.into(),
        current_limit: Some(RateLimit {
            requests_per_unit: 4_000_000_000,
            unit: Unit::Minute.into(),
            ..Default::default()
        }),
        limit_remaining: if is_refusing { 0 } else { 3_999_999_999 },
        duration_until_reset: Some(Duration { seconds: 1, nanos: 0 }),
        ..Default::default()
    };
    RateLimitServiceServer::new(NullService { status })
}

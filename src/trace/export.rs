use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::{Key, KeyValue, StringValue};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use rustls::crypto::ring;

use super::{OtlpProtocol, TracerSettings};
use crate::random::random_u64;

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("traces cannot be sent: {0}")]
    Exporter(#[from] ExporterBuildError),
    #[error("the authorities that this machine trusts cannot be read, and https needs them to send traces: {0}")]
    Authorities(std::io::Error),
    #[error("traces need a thread of their own: {0}")]
    Thread(std::io::Error),
}

/// What sends batches of spans. Needs the runtime that it is used on. Headers are taken from the environment.
pub(super) fn exporter(settings: &TracerSettings) -> Result<SpanExporter, ExportError> {
    let endpoint = settings.endpoint.to_string();
    match settings.protocol {
        OtlpProtocol::Grpc => {
            let mut builder =
                SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(settings.timeout);
            if settings.endpoint.is_tls() {
                builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
            }
            Ok(builder.build()?)
        }
        OtlpProtocol::Http => {
            let builder = SpanExporter::builder().with_http().with_endpoint(endpoint).with_timeout(settings.timeout);
            Ok(if settings.endpoint.is_tls() {
                builder.with_http_client(HyperClient::new(https_connector()?, settings.timeout, None)).build()?
            } else {
                builder.with_http_client(HyperClient::with_default_connector(settings.timeout, None)).build()?
            })
        }
    }
}

fn https_connector() -> Result<HttpsConnector<HttpConnector>, ExportError> {
    let builder = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(ring::default_provider())
        .map_err(ExportError::Authorities)?;
    Ok(builder.https_only().enable_http1().build())
}

/// What sends the spans, as all of them say.
pub(super) struct Resources {
    pub(super) resource: Resource,
    /// Its `service.instance.id`.
    pub(super) instance: StringValue,
}

impl Resources {
    /// What `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` say, and what they leave to us.
    pub(super) fn detect() -> Self {
        const NAME: Key = Key::from_static_str("service.name");
        const VERSION: Key = Key::from_static_str("service.version");
        const INSTANCE: Key = Key::from_static_str("service.instance.id");
        let told = Resource::builder().build();
        let has_name = told.get(&NAME).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
        let instance = told
            .get(&INSTANCE)
            .map_or_else(|| format!("{:016x}{:016x}", random_u64(), random_u64()), |id| id.as_str().into_owned());
        let instance = StringValue::from(Arc::<str>::from(instance));
        let mut ours = vec![KeyValue::new(INSTANCE, instance.clone())];
        if !has_name {
            ours.push(KeyValue::new(NAME, "comporta"));
        }
        if told.get(&VERSION).is_none() {
            ours.push(KeyValue::new(VERSION, env!("CARGO_PKG_VERSION")));
        }
        Self { resource: Resource::builder().with_attributes(ours).build(), instance }
    }
}

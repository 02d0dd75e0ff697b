//! How clients are spoken to.

use std::path::PathBuf;

use clap::Args;

use super::HttpAddress;
use crate::tls::{SubjectName, TlsFiles};

/// TLS on the gRPC port.
#[derive(Args, Clone, Debug)]
pub struct GrpcTlsSettings {
    /// File with the certificate of the gRPC port, and those above it, in the PEM format; it is spoken TLS to then
    #[arg(long, env = "COMPORTA_GRPC_TLS_CERT", value_name = "FILE", requires = "grpc_tls_key")]
    pub grpc_tls_cert: Option<PathBuf>,

    /// File with the key of --grpc-tls-cert, in the PEM format
    #[arg(long, env = "COMPORTA_GRPC_TLS_KEY", value_name = "FILE", requires = "grpc_tls_cert")]
    pub grpc_tls_key: Option<PathBuf>,

    /// File with the authorities of which one must have signed the certificate of a client, in the PEM format; none is
    /// served without
    #[arg(long, env = "COMPORTA_GRPC_TLS_CLIENT_CA", value_name = "FILE", requires = "grpc_tls_cert")]
    pub grpc_tls_client_ca: Option<PathBuf>,

    /// Names of which the certificate of a client must have one: DNS names, and URIs such as
    /// `spiffe://cluster.local/ns/edge/sa/envoy`, with commas between them [default: any]
    #[arg(
        long,
        env = "COMPORTA_GRPC_TLS_CLIENT_SAN",
        value_name = "NAME",
        value_delimiter = ',',
        requires = "grpc_tls_client_ca",
        value_parser = SubjectName::parse
    )]
    pub grpc_tls_client_san: Vec<SubjectName>,
}

/// Where the HTTP port is, and TLS on it.
#[derive(Args, Clone, Debug)]
pub struct HttpSettings {
    #[command(flatten)]
    pub address: HttpAddress,

    /// File with the certificate of the HTTP port, and those above it, in the PEM format; it is spoken TLS to then
    #[arg(long, env = "COMPORTA_HTTP_TLS_CERT", value_name = "FILE", requires = "http_tls_key")]
    pub http_tls_cert: Option<PathBuf>,

    /// File with the key of --http-tls-cert, in the PEM format
    #[arg(long, env = "COMPORTA_HTTP_TLS_KEY", value_name = "FILE", requires = "http_tls_cert")]
    pub http_tls_key: Option<PathBuf>,

    /// File with the authorities of which one must have signed the certificate of a client, in the PEM format; /json is
    /// refused without, and probes need none
    #[arg(long, env = "COMPORTA_HTTP_TLS_CLIENT_CA", value_name = "FILE", requires = "http_tls_cert")]
    pub http_tls_client_ca: Option<PathBuf>,

    /// Names of which the certificate of a client must have one, as in --grpc-tls-client-san [default: any]
    #[arg(
        long,
        env = "COMPORTA_HTTP_TLS_CLIENT_SAN",
        value_name = "NAME",
        value_delimiter = ',',
        requires = "http_tls_client_ca",
        value_parser = SubjectName::parse
    )]
    pub http_tls_client_san: Vec<SubjectName>,
}

impl GrpcTlsSettings {
    /// The files; `None` if plaintext is spoken.
    #[must_use]
    pub fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            flags: "--grpc-tls",
            certificate: self.grpc_tls_cert.clone()?,
            key: self.grpc_tls_key.clone()?,
            client_authorities: self.grpc_tls_client_ca.clone(),
            client_names: self.grpc_tls_client_san.clone(),
            lets_strangers_in: false,
            protocols: &[b"h2"],
        })
    }
}

impl HttpSettings {
    /// The files; `None` if plaintext is spoken. Probes have no certificate.
    #[must_use]
    pub fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            flags: "--http-tls",
            certificate: self.http_tls_cert.clone()?,
            key: self.http_tls_key.clone()?,
            client_authorities: self.http_tls_client_ca.clone(),
            client_names: self.http_tls_client_san.clone(),
            lets_strangers_in: true,
            protocols: &[b"h2", b"http/1.1"],
        })
    }
}

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// The language in which traces are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    Grpc,
    /// Protobuf over HTTP/1.1.
    Http,
}

impl OtlpProtocol {
    pub const ALL: [Self; 2] = [Self::Grpc, Self::Http];

    /// The name that OpenTelemetry has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http/protobuf",
        }
    }
}

/// Where a collector listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpEndpoint(Uri);

/// A text that is no endpoint. It is not repeated, because a password may be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("give the URL of a collector, such as http://collector:4317, or with https:// for TLS")]
    NoUrl,
    #[error("it has a login in it: give that as a header in OTEL_EXPORTER_OTLP_HEADERS")]
    Login,
}

impl OtlpEndpoint {
    const GRPC_PORT: u16 = 4317;

    /// The same collector where it takes traces over HTTP: endpoints that are not for traces alone have a path before that.
    #[must_use]
    pub fn with_path_of_traces(&self) -> Self {
        let base = self.0.to_string();
        Self(format!("{}/v1/traces", base.trim_end_matches('/')).parse().unwrap_or_else(|_| self.0.clone()))
    }

    /// What is spoken there if nobody says: gRPC on its usual port, and otherwise what OpenTelemetry recommends.
    #[must_use]
    pub fn usual_protocol(&self) -> OtlpProtocol {
        if self.0.port_u16() == Some(Self::GRPC_PORT) { OtlpProtocol::Grpc } else { OtlpProtocol::Http }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

impl FromStr for OtlpEndpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let uri: Uri = text.parse().map_err(|_| EndpointError::NoUrl)?;
        let is_url = matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.query().is_none();
        if !is_url {
            return Err(EndpointError::NoUrl);
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(EndpointError::Login);
        }
        Ok(Self(uri))
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_with_a_scheme() {
        let read = |text: &str| text.parse::<OtlpEndpoint>();
        for text in ["", "collector", "collector:4317", "/v1/traces", "http://", "ftp://a", "http://a/?key=b"] {
            assert_eq!(read(text), Err(EndpointError::NoUrl), "{text}");
        }
        assert_eq!(read("http://user:secret@collector:4317"), Err(EndpointError::Login));
        assert!(read("https://[::1]:4317").unwrap().is_tls());
    }

    #[test]
    fn the_port_of_grpc_speaks_grpc() {
        let usual = |text: &str| text.parse::<OtlpEndpoint>().unwrap().usual_protocol();
        assert_eq!(usual("http://collector:4317"), OtlpProtocol::Grpc);
        assert_eq!(usual("http://collector:4318"), OtlpProtocol::Http);
        assert_eq!(usual("https://otlp.example.com/otlp"), OtlpProtocol::Http);
    }

    #[test]
    fn traces_have_a_path_of_their_own() {
        let path = |text: &str| text.parse::<OtlpEndpoint>().unwrap().with_path_of_traces().to_string();
        assert_eq!(path("http://collector:4318"), "http://collector:4318/v1/traces");
        assert_eq!(path("http://collector:4318/otlp/"), "http://collector:4318/otlp/v1/traces");
    }
}

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// What went wrong between a client and a port whose flags begin with `flags`, and what to do about it.
pub(super) fn explain(error: &io::Error, flags: &str) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let advice = match inner {
        Some(Error::InvalidCertificate(CertificateError::Other(other))) => return other.0.to_string(),
        Some(Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
            "the client needs a new one".to_owned()
        }
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            format!("the client needs one of an authority in {flags}-client-ca")
        }
        Some(Error::NoCertificatesPresented) => {
            format!("give the client a certificate of an authority in {flags}-client-ca")
        }
        Some(Error::AlertReceived(
            AlertDescription::UnknownCA | AlertDescription::BadCertificate | AlertDescription::CertificateUnknown,
        )) => format!("the client does not accept the certificate of {flags}-cert: it must trust who has signed it"),
        Some(Error::PeerIncompatible(_)) => "TLS 1.2 and 1.3 are spoken".to_owned(),
        Some(Error::NoApplicationProtocol) => "the client must offer the protocol h2 (ALPN)".to_owned(),
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

//! Whom we trust, and how we show who we are.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::pem::{PairFault, PemFile, pair};

/// How TLS is spoken with the servers. The files are in the PEM format.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// Authorities, of which one must have signed a server's certificate. `None`: those that the machine trusts.
    pub authorities: Option<PathBuf>,
    /// Our certificate with those above it, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that servers' certificates must be for, in place of that in the URL.
    pub server_name: Option<ServerName<'static>>,
}

impl TlsSettings {
    /// Reads the files. `Err` is a text for people.
    pub(super) fn config(&self) -> Result<ClientConfig, String> {
        let authorities = match &self.authorities {
            Some(file) => {
                let file = PemFile::read(file);
                file.and_then(|file| file.authorities(|_| true)).map_err(|error| format!("--redis-tls-ca: {error}"))?
            }
            None => authorities_of_machine()?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(authorities);
        let Some((certificate, key)) = &self.identity else { return Ok(config.with_no_client_auth()) };
        let of_certificate = |fault: String| format!("--redis-tls-cert: {fault}");
        let of_key = |fault: String| format!("--redis-tls-key: {fault}");
        let certificate = PemFile::read(certificate).map_err(of_certificate)?;
        let key = PemFile::read(key).map_err(of_key)?;
        let certified = pair(&certificate, &key, &provider).map_err(|fault| match fault {
            PairFault::Certificate(fault) => of_certificate(fault),
            PairFault::Key(fault) => of_key(fault),
        })?;
        Ok(config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))))
    }
}

fn authorities_of_machine() -> Result<RootCertStore, String> {
    let mut authorities = RootCertStore::empty();
    let (trusted, _) = authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if trusted == 0 {
        return Err(
            "this machine trusts no authority: install ca-certificates, or name a file in --redis-tls-ca".into()
        );
    }
    Ok(authorities)
}

/// What went wrong between us and a server, and what to do about it.
pub(super) fn explain(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let advice = match tls {
        Some(rustls::Error::InvalidCertificate(fault)) => match fault {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the server needs a new one",
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "name the authority that has signed it in --redis-tls-ca"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "name one of those that it is for in --redis-tls-server-name"
            }
            _ => return error.to_string(),
        },
        Some(rustls::Error::AlertReceived(alert)) => match alert {
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure => {
                "the server wants a certificate from us: give --redis-tls-cert and --redis-tls-key"
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError => {
                "the server does not accept our certificate: see --redis-tls-cert and --redis-tls-key"
            }
            _ => return error.to_string(),
        },
        Some(rustls::Error::InvalidMessage(_)) => "the server may not speak TLS: take redis in place of rediss then",
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

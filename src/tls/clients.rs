//! Which clients are served, by the names in their certificates.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError};
use rustls::{RootCertStore, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Version};

use crate::pem::PemFile;
use crate::policy::Visible;

/// A name in a certificate (a subject alternative name of RFC 5280): a DNS name, or a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectName {
    /// In lower case.
    Dns(String),
    Uri(String),
}

impl SubjectName {
    /// Reads a name: what has `://` in it is a URI.
    ///
    /// # Errors
    ///
    /// A text for people, when it can be neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        const ADVICE: &str = "give a DNS name, such as envoy.example, or a URI, such as \
                              spiffe://cluster.local/ns/edge/sa/envoy";
        if text.contains('*') {
            return Err(format!("names are compared as they are written, and a * stands for nothing else: {ADVICE}"));
        }
        if text.contains("://") && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(Self::Uri(text.to_owned()));
        }
        if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
            return Err(format!("an IP address is no name that is compared: {ADVICE}"));
        }
        let is_in_names = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if text.is_empty() || !text.bytes().all(is_in_names) {
            return Err(ADVICE.to_owned());
        }
        Ok(Self::Dns(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Dns(name) | Self::Uri(name)) = self;
        // One that was read from a certificate may have anything in it.
        Visible(name).fmt(f)
    }
}

/// Serves clients whose certificate is good and has one of these names.
#[derive(Debug)]
pub(super) struct NamedClients {
    good: Arc<dyn ClientCertVerifier>,
    names: Vec<SubjectName>,
    flags: &'static str,
}

/// Why a client is not served.
#[derive(Debug, thiserror::Error)]
#[error("the certificate is for {has}, and none of that is in {flags}-client-san")]
struct Stranger {
    has: String,
    flags: &'static str,
}

impl NamedClients {
    /// `good` says which certificates are good.
    pub(super) fn new(good: Arc<dyn ClientCertVerifier>, names: Vec<SubjectName>, flags: &'static str) -> Self {
        Self { good, names, flags }
    }
}

/// The names of a certificate that can be compared.
pub(super) fn names_of(certificate: &CertificateDer<'_>) -> Result<Vec<SubjectName>, Error> {
    let malformed = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| malformed(error.to_string()))?;
    let names = certificate.subject_alternative_name().map_err(|error| malformed(error.to_string()))?;
    let names = names.iter().flat_map(|extension| &extension.value.general_names);
    Ok(names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(SubjectName::Dns(name.to_ascii_lowercase())),
            GeneralName::URI(name) => Some(SubjectName::Uri((*name).to_owned())),
            _ => None,
        })
        .collect())
}

/// The authorities in a file. Other certificates in it are left out: who has the key of one could sign for clients else.
pub(super) fn authorities_of(file: &PemFile) -> Result<RootCertStore, String> {
    file.authorities(|certificate| {
        // The first version of certificates does not say whose they are; and what is damaged may be anybody's.
        X509Certificate::from_der(certificate)
            .map_or(true, |(_, certificate)| certificate.is_ca() || certificate.version() == X509Version::V1)
    })
}

impl ClientCertVerifier for NamedClients {
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.good.verify_client_cert(end_entity, intermediates, now)?;
        let has = names_of(end_entity)?;
        if has.iter().any(|name| self.names.contains(name)) {
            return Ok(verified);
        }
        let has: Vec<_> = has.iter().map(ToString::to_string).collect();
        let has = if has.is_empty() { "no DNS name and no URI".to_owned() } else { has.join(", ") };
        let stranger = Stranger { has, flags: self.flags };
        Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(stranger)))))
    }

    fn offer_client_auth(&self) -> bool {
        self.good.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.good.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.good.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.good.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.good.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.good.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_certificate_cannot_command_a_terminal() {
        let name = rcgen::string::Ia5String::try_from("evil\u{1b}[2J").unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.subject_alt_names = vec![rcgen::SanType::DnsName(name)];
        let certificate = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        assert_eq!(names_of(certificate.der()).unwrap()[0].to_string(), "evil\\u{1b}[2j");
    }

    #[test]
    fn a_name_is_a_dns_name_or_a_uri() {
        assert_eq!(SubjectName::parse("Envoy.Example"), Ok(SubjectName::Dns("envoy.example".to_owned())));
        let uri = "spiffe://cluster.local/ns/Edge/sa/envoy";
        assert_eq!(SubjectName::parse(uri), Ok(SubjectName::Uri(uri.to_owned())));
        for text in ["", "two words", "ünïcode", "tab\t", "spiffe://two words", "urn:one"] {
            assert!(SubjectName::parse(text).unwrap_err().starts_with("give a DNS name"), "{text:?}");
        }
        // They look as if they stood for more than what is written.
        for (text, why) in [
            ("10.0.0.1", "an IP address is no name"),
            ("::1", "an IP address is no name"),
            ("[::1]", "an IP address is no name"),
            ("*.envoy.example", "a * stands for nothing"),
            ("spiffe://cluster.local/*", "a * stands for nothing"),
        ] {
            assert!(SubjectName::parse(text).unwrap_err().contains(why), "{text:?}");
        }
    }
}

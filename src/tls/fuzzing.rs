#![expect(clippy::missing_panics_doc, reason = "a finding is a panic")]

use std::path::PathBuf;

use rustls::pki_types::CertificateDer;

use super::clients::{SubjectName, names_of};
use super::validity::Validity;
use super::{Contents, TlsFiles};
use crate::fuzzing::assert_printable;
use crate::pem::PemFile;

/// Takes a certificate, a key and the authorities of clients, between which a byte stands that is in no PEM file; and the
/// same bytes as a certificate in DER, and as the name of a client.
pub fn tls_files(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let mut file = |name: &str| parts.next().map(|bytes| PemFile::new(name.into(), bytes.to_owned()));
    let (certificate, key, client_authorities) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
    if let (Some(certificate), Some(key)) = (certificate, key) {
        let files = TlsFiles {
            flags: "--grpc-tls",
            certificate: PathBuf::from("cert.pem"),
            key: PathBuf::from("key.pem"),
            client_authorities: client_authorities.is_some().then(|| "ca.pem".into()),
            client_names: Vec::new(),
            lets_strangers_in: false,
            protocols: &[b"h2"],
        };
        if let Err(error) = files.serve(Contents { certificate, key, client_authorities }) {
            assert!(error.starts_with("--grpc-tls-") && error.contains(".pem"), "this names no file: {error}");
            assert_printable(&error);
        }
    }

    let certificate = CertificateDer::from(bytes);
    if let Err(error) = Validity::of(&certificate) {
        assert_printable(&error);
    }
    for name in names_of(&certificate).into_iter().flatten() {
        assert_printable(&name.to_string());
    }
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok(name) = SubjectName::parse(text)
    {
        assert_printable(&name.to_string());
        assert_eq!(SubjectName::parse(&name.to_string()), Ok(name));
    }
}

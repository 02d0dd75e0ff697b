//! Certificates and keys in files of the PEM format. Every `Err` is a text for people that names the file.

mod pair;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use memchr::memmem;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) use self::pair::{PairFault, pair};
use crate::small_file;

/// A file as it was when it was read.
#[derive(PartialEq, Eq)]
pub(crate) struct PemFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl PemFile {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let bytes = small_file::read(path).map_err(|error| about(path, error))?;
        Ok(Self::new(path.to_owned(), bytes))
    }

    pub(crate) const fn new(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self { path, bytes }
    }

    /// The certificates in it, at least one.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match certificates {
            Ok(certificates) if certificates.is_empty() => Err(self.lacks(&pem::Error::NoItemsFound, "certificate")),
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(self.lacks(&error, "certificate")),
        }
    }

    /// The authorities in it, at least one: those of its certificates that may be one.
    pub(crate) fn authorities(&self, may_be: impl Fn(&CertificateDer<'_>) -> bool) -> Result<RootCertStore, String> {
        let mut authorities = RootCertStore::empty();
        for certificate in self.certificates()? {
            if may_be(&certificate) {
                authorities.add(certificate).map_err(|error| about(&self.path, damaged(&error)))?;
            }
        }
        if authorities.is_empty() {
            return Err(about(
                &self.path,
                "it holds certificates, and none of an authority (CA:TRUE): give that of who signs, not what was signed",
            ));
        }
        Ok(authorities)
    }

    /// The private key in it.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|error| {
            if ENCRYPTED.iter().any(|mark| memmem::find(&self.bytes, mark).is_some()) {
                let advice =
                    "its key is encrypted: give one without a passphrase, as `openssl pkey -in THIS -out OTHER` writes it";
                return about(&self.path, advice);
            }
            self.lacks(&error, "private key")
        })
    }

    fn lacks(&self, error: &pem::Error, wanted: &str) -> String {
        let path = &self.path;
        match error {
            pem::Error::NoItemsFound => about(path, format_args!("it holds no {wanted} in the PEM format")),
            pem::Error::MissingSectionEnd { end_marker } => {
                let name = end_marker.escape_ascii();
                about(path, format_args!("it is cut off before the line -----END {name}-----: write the whole of it"))
            }
            // The line may hold the key itself, and is not shown.
            pem::Error::IllegalSectionStart { .. } => about(
                path,
                "a line of it that begins with -----BEGIN does not end with -----: each such line stands alone",
            ),
            pem::Error::Base64Decode(_) => {
                about(path, format_args!("what is between its lines BEGIN and END is no {wanted}: write it anew"))
            }
            other => about(path, other),
        }
    }
}

/// How keys begin that cannot be read without a passphrase: of PKCS #8, and of older formats.
const ENCRYPTED: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];

fn damaged(error: &rustls::Error) -> String {
    format!("a certificate in it is damaged ({error}): write it anew")
}

/// What is wrong with a file.
pub(crate) fn about(file: &Path, cause: impl Display) -> String {
    format!("{}: {cause}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> PemFile {
        PemFile::new("FILE".into(), text.into())
    }

    #[test]
    fn what_makes_no_sense_is_told_in_words_and_with_what_to_do() {
        const WHOLE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (text, fault) in [
            (&WHOLE[..40], "FILE: it is cut off before the line -----END CERTIFICATE-----: write the whole of it"),
            (
                &WHOLE.replace("AAAA", "AA*A"),
                "FILE: what is between its lines BEGIN and END is no certificate: write it anew",
            ),
            (
                "-----BEGIN PRIVATE KEY-----secret\n",
                "FILE: a line of it that begins with -----BEGIN does not end with -----: each such line stands alone",
            ),
            ("nothing", "FILE: it holds no certificate in the PEM format"),
        ] {
            assert_eq!(file(text).certificates().unwrap_err(), fault, "{text:?}");
        }
        let damaged = file(WHOLE).authorities(|_| true).unwrap_err();
        assert!(damaged.starts_with("FILE: a certificate in it is damaged"), "{damaged}");
    }

    #[test]
    fn a_key_with_a_passphrase_is_told() {
        for text in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        ] {
            let fault = file(text).key().unwrap_err();
            assert!(fault.starts_with("FILE: its key is encrypted: give one without a passphrase"), "{fault}");
        }
    }
}

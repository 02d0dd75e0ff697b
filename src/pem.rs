//! Certificates and keys in files of the PEM format. Every `Err` is a text for people that names the file.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

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

    /// The authorities in it, at least one.
    pub(crate) fn authorities(&self) -> Result<RootCertStore, String> {
        let mut authorities = RootCertStore::empty();
        for certificate in self.certificates()? {
            authorities.add(certificate).map_err(|error| about(&self.path, error))?;
        }
        Ok(authorities)
    }

    /// The private key in it.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|error| self.lacks(&error, "private key"))
    }

    fn lacks(&self, error: &pem::Error, wanted: &str) -> String {
        match error {
            pem::Error::NoItemsFound => about(&self.path, format_args!("it holds no {wanted} in the PEM format")),
            other => about(&self.path, other),
        }
    }
}

/// What is wrong with a file.
pub(crate) fn about(file: &Path, cause: impl Display) -> String {
    format!("{}: {cause}", file.display())
}

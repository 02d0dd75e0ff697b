//! An authority that signs certificates.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use tempfile::TempDir;

/// Signs certificates, and has one of its own. All are files in the PEM format, which go with it.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
    issued: AtomicU32,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        static FOUNDED: AtomicU32 = AtomicU32::new(0);
        let mut params = CertificateParams::default();
        // Two of one name would be taken for one.
        let number = FOUNDED.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder, issued: AtomicU32::new(0) }
    }

    /// The file of its own certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// A certificate for a host name or an IP address.
    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.sign(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// A certificate for a URI, as SPIFFE has it.
    pub(crate) fn issue_for_uri(&self, uri: &str) -> Identity {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        self.sign(&params)
    }

    /// One that was good until some years ago.
    pub(crate) fn issue_expired(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let file = |ending: &str| self.folder.path().join(format!("{number}.{ending}"));
        let identity = Identity { certificate: file("crt"), key: file("key") };
        fs::write(&identity.certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&identity.key, key.serialize_pem()).unwrap();
        identity
    }
}

use std::fmt::Display;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{Error, InconsistentKeys};

use super::{PemFile, about, damaged};

/// What is wrong with a certificate and its key, for people; which of the two files it is in.
#[derive(Debug)]
pub(crate) enum PairFault {
    Certificate(String),
    Key(String),
}

/// The certificate in one file, with those above it, and its key in another.
pub(crate) fn pair(certificate: &PemFile, key: &PemFile, provider: &CryptoProvider) -> Result<CertifiedKey, PairFault> {
    let chain = certificate.certificates().map_err(PairFault::Certificate)?;
    let private = key.key().map_err(PairFault::Key)?;
    let private = provider.key_provider.load_private_key(private).map_err(|error| {
        let cause = format_args!("its key is none that can be used ({error}): take RSA, ECDSA or Ed25519");
        PairFault::Key(about(&key.path, cause))
    })?;
    let at_certificate = |cause: &dyn Display| PairFault::Certificate(about(&certificate.path, cause));
    let is_own = |one| is_key_of(one, &private);
    let (own, above) = chain.split_first().ok_or_else(|| at_certificate(&"it holds no certificate"))?;
    if is_own(own).map_err(|error| at_certificate(&damaged(&error)))? {
        return Ok(CertifiedKey::new(chain, private));
    }
    if above.iter().any(|one| is_own(one).unwrap_or(false)) {
        return Err(at_certificate(
            &"its certificates are in the wrong order: put that of the server first, then who has signed it, and so on up",
        ));
    }
    let shown = certificate.path.display();
    let cause = format_args!("it is not the key of {shown}: give the two that were made together");
    Err(PairFault::Key(about(&key.path, cause)))
}

/// Whether it is the key of this certificate. Where that cannot be told, it may be.
fn is_key_of(certificate: &CertificateDer<'static>, key: &Arc<dyn SigningKey>) -> Result<bool, Error> {
    match CertifiedKey::new(vec![certificate.clone()], Arc::clone(key)).keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(true),
        Err(Error::InconsistentKeys(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

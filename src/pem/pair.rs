use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SigningKey};

use super::{PemFile, about};

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
    let place = chain.iter().position(|one| are_pair(one, &private));
    match place {
        Some(0) => Ok(CertifiedKey::new(chain, private)),
        Some(_) => Err(PairFault::Certificate(about(
            &certificate.path,
            "its certificates are in the wrong order: put that of the server first, then who has signed it, and so on up",
        ))),
        None => {
            let cause = format_args!(
                "it is not the key of {}: give the two that were made together",
                certificate.path.display()
            );
            Err(PairFault::Key(about(&key.path, cause)))
        }
    }
}

/// Whether it is the key of this certificate. Where that cannot be told, it may be.
fn are_pair(certificate: &CertificateDer<'static>, key: &Arc<dyn SigningKey>) -> bool {
    use rustls::{Error, InconsistentKeys};
    let matched = CertifiedKey::new(vec![certificate.clone()], Arc::clone(key)).keys_match();
    matches!(matched, Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)))
}

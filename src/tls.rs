//! TLS on our own ports: who we are to clients, and which clients we serve. Files that change are taken anew for the
//! connections that come after; those that are there go on.

mod clients;
mod explain;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, crypto};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use self::clients::NamedClients;
pub use self::clients::SubjectName;
use crate::measure::Count;
use crate::pem::{PemFile, about};

/// How often the files are read to see whether they have changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The files of one port, in the PEM format.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// What the flags begin with, such as `--grpc-tls`.
    pub flags: &'static str,
    /// Our certificate with those above it.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities of which one must have signed the certificate of a client. `None`: clients need none.
    pub client_authorities: Option<PathBuf>,
    /// Names of which the certificate of a client must have one; none: any will do.
    pub client_names: Vec<SubjectName>,
    /// Whether a client without a certificate is let in; what it may do is for others to say.
    pub lets_strangers_in: bool,
    /// What is spoken inside, in ALPN's words.
    pub protocols: &'static [&'static [u8]],
}

/// TLS of one port.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    served: ArcSwap<Served>,
    /// Why what is in the files now is not served; `None` if it is.
    fault: Mutex<Option<String>>,
    pub loads: Loads,
}

/// How often files have been taken, and how often they had a fault.
#[derive(Debug, Default)]
pub struct Loads {
    pub good: Count,
    pub bad: Count,
}

#[derive(Debug)]
struct Served {
    contents: Contents,
    config: Arc<ServerConfig>,
    /// The end of our certificate, in seconds since the Unix epoch.
    expires: i64,
}

/// What the files hold.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: PemFile,
    key: PemFile,
    client_authorities: Option<PemFile>,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // There is a private key in it.
        f.write_str("Contents")
    }
}

impl TlsFiles {
    fn read(&self) -> Result<Contents, String> {
        let read = |flag: &str, file: &Path| PemFile::read(file).map_err(|error| self.about(flag, &error));
        Ok(Contents {
            certificate: read("cert", &self.certificate)?,
            key: read("key", &self.key)?,
            client_authorities: self.client_authorities.as_deref().map(|file| read("client-ca", file)).transpose()?,
        })
    }

    fn serve(&self, contents: Contents) -> Result<Served, String> {
        let provider = Arc::new(crypto::ring::default_provider());
        let chain = contents.certificate.certificates().map_err(|error| self.about("cert", &error))?;
        let key = contents.key.key().map_err(|error| self.about("key", &error))?;
        let expires = end_of(&chain[0]).map_err(|error| self.about("cert", &about(&self.certificate, error)))?;
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match &contents.client_authorities {
            None => config.with_no_client_auth(),
            Some(authorities) => config.with_client_cert_verifier(self.clients(authorities, provider)?),
        };
        let mut config = config.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let cause = format!("it is not the key of {}", self.certificate.display());
                self.about("key", &about(&self.key, cause))
            }
            other => self.about("cert", &about(&self.certificate, other)),
        })?;
        if contents.client_authorities.is_some() {
            // A session that is resumed shows no certificate: one that has ended would be good for ever.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Served { contents, config: Arc::new(config), expires })
    }

    /// Who is let in.
    fn clients(
        &self,
        authorities: &PemFile,
        provider: Arc<crypto::CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let of_file = |error: String| self.about("client-ca", &error);
        let authorities = Arc::new(authorities.authorities().map_err(of_file)?);
        let mut verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider);
        if self.lets_strangers_in {
            verifier = verifier.allow_unauthenticated();
        }
        let verifier = verifier.build().map_err(|error| of_file(error.to_string()))?;
        if self.client_names.is_empty() {
            return Ok(verifier);
        }
        Ok(Arc::new(NamedClients::new(verifier, self.client_names.clone(), self.flags)))
    }

    fn about(&self, flag: &str, cause: &str) -> String {
        format!("{}-{flag}: {cause}", self.flags)
    }
}

/// When a certificate ends, in seconds since the Unix epoch.
fn end_of(certificate: &CertificateDer<'_>) -> Result<i64, String> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    Ok(certificate.validity().not_after.timestamp())
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// A text for people, which names the flag and the file, when one is missing, is no certificate or no key, or does
    /// not belong to the others.
    pub fn load(files: TlsFiles) -> Result<Self, String> {
        let served = files.serve(files.read()?)?;
        let tls =
            Self { files, served: ArcSwap::from_pointee(served), fault: Mutex::new(None), loads: Loads::default() };
        tls.loads.good.increment();
        Ok(tls)
    }

    /// What the next connection is spoken to with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.served.load().config)
    }

    /// Why a client and we did not agree, for people.
    #[must_use]
    pub fn explain(&self, error: &io::Error) -> String {
        explain::explain(error, self.files.flags)
    }

    /// The end of our certificate, in seconds since the Unix epoch.
    #[must_use]
    pub fn expires(&self) -> i64 {
        self.served.load().expires
    }

    /// Takes files anew when they change, for ever.
    pub async fn follow_files(self: Arc<Self>) {
        let mut pause = interval(LOOK_EVERY);
        pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pause.tick().await;
            let tls = Arc::clone(&self);
            if let Err(error) = spawn_blocking(move || tls.look()).await {
                error!("cannot look at the files of {}: {error}", self.files.flags);
            }
        }
    }

    /// Takes files that have changed. Those that make no sense are told once, and what is served stays: they may be half
    /// written, and are looked at again.
    fn look(&self) {
        let taken = self.files.read().and_then(|contents| {
            if contents == self.served.load().contents {
                return Ok(None);
            }
            self.files.serve(contents).map(Some)
        });
        let mut known = self.fault.lock();
        match taken {
            Ok(None) => {
                if known.take().is_some() {
                    info!("the files of {} are those that are served again", self.files.flags);
                }
            }
            Ok(Some(served)) => {
                self.served.store(Arc::new(served));
                self.loads.good.increment();
                *known = None;
                info!("the files of {} have changed, and count for new connections", self.files.flags);
            }
            Err(fault) if known.as_ref() == Some(&fault) => {}
            Err(fault) => {
                self.loads.bad.increment();
                error!("what was served before stays until this is mended: {fault}");
                *known = Some(fault);
            }
        }
    }
}

#[cfg(test)]
mod tests;

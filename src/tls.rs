//! TLS on our own ports: who we are to clients, and which clients we serve. Files that change are taken anew for the
//! connections that come after; those that are there go on.

mod clients;
mod explain;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod validity;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, crypto};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};

pub use self::clients::SubjectName;
use self::clients::{NamedClients, authorities_of};
use self::validity::{Condition, Validity};
use crate::clock::Clock;
use crate::measure::Count;
use crate::pem::{PairFault, PemFile, about, pair};

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
    /// What has been told of the certificate that is served.
    told: Mutex<Condition>,
    pub loads: Loads,
    clock: Arc<Clock>,
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
    validity: Validity,
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

    /// Whether they could be served.
    ///
    /// # Errors
    ///
    /// As [`ServerTls::load`] has it.
    pub fn check(&self) -> Result<(), String> {
        self.serve(self.read()?).map(drop)
    }

    fn serve(&self, contents: Contents) -> Result<Served, String> {
        let provider = Arc::new(crypto::ring::default_provider());
        let certified = pair(&contents.certificate, &contents.key, &provider).map_err(|fault| match fault {
            PairFault::Certificate(fault) => self.about("cert", &fault),
            PairFault::Key(fault) => self.about("key", &fault),
        })?;
        let own = certified.end_entity_cert().map_err(|error| error.to_string());
        let validity =
            own.and_then(Validity::of).map_err(|error| self.about("cert", &about(&self.certificate, error)))?;
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match &contents.client_authorities {
            None => config.with_no_client_auth(),
            Some(authorities) => config.with_client_cert_verifier(self.clients(authorities, provider)?),
        };
        let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        if contents.client_authorities.is_some() {
            // A session that is resumed shows no certificate: one that has ended would be good for ever.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Served { contents, config: Arc::new(config), validity })
    }

    /// Who is let in.
    fn clients(
        &self,
        authorities: &PemFile,
        provider: Arc<crypto::CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let of_file = |error: String| self.about("client-ca", &error);
        let authorities = authorities_of(authorities).map_err(of_file)?;
        let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
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

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// A text for people, which names the flag and the file, when one is missing, is no certificate or no key, or does
    /// not belong to the others.
    pub fn load(files: TlsFiles, clock: Arc<Clock>) -> Result<Self, String> {
        let served = files.serve(files.read()?)?;
        let tls = Self {
            files,
            served: ArcSwap::from_pointee(served),
            fault: Mutex::new(None),
            told: Mutex::new(Condition::Good),
            loads: Loads::default(),
            clock,
        };
        tls.loads.good.increment();
        tls.look_at_the_time();
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
        self.served.load().validity.end()
    }

    /// Takes files anew when they change, for ever.
    pub async fn follow_files(self: Arc<Self>) {
        let mut pause = interval(LOOK_EVERY);
        pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pause.tick().await;
            let tls = Arc::clone(&self);
            let look = move || {
                tls.look();
                tls.look_at_the_time();
            };
            if let Err(error) = spawn_blocking(look).await {
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
                *self.told.lock() = Condition::Good;
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

    /// Tells once when the certificate that is served is not good yet, or not for long, or no more.
    fn look_at_the_time(&self) {
        let validity = self.served.load().validity;
        let now = i64::try_from(self.clock.now().utc.0 / 1_000_000).unwrap_or(i64::MAX);
        let condition = validity.condition(now);
        let before = std::mem::replace(&mut *self.told.lock(), condition);
        if let Some(advice) = validity.advice(condition).filter(|_| condition != before) {
            warn!("{}", self.files.about("cert", &about(&self.files.certificate, advice)));
        }
    }
}

#[cfg(test)]
mod tests;

//! The way to a Redis: TCP, TLS over it, or a unix socket.

use std::io;
use std::sync::Arc;

use redis::ConnectionAddr;
use redis::aio::AsyncStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_rustls::TlsConnector;

/// An open way to a Redis.
pub(super) type Stream = Box<dyn AsyncStream + Send + Unpin>;

/// Opens one. It takes as long as it takes: the caller bounds it.
pub(super) async fn open(address: &ConnectionAddr) -> io::Result<Stream> {
    match address {
        ConnectionAddr::Tcp(host, port) => Ok(Box::new(open_tcp(host, *port).await?)),
        ConnectionAddr::TcpTls { host, port, .. } => {
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let connector = TlsConnector::from(Arc::new(tls_config().await?));
            Ok(Box::new(connector.connect(name, open_tcp(host, *port).await?).await?))
        }
        ConnectionAddr::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        other => Err(io::Error::other(format!("there is no way to {other}"))),
    }
}

/// Connects to whichever address of a host answers first. One that is dead, an IPv6 address perhaps, must not use up the
/// time of the others.
async fn open_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut attempts: JoinSet<io::Result<TcpStream>> =
        lookup_host((host, port)).await?.map(TcpStream::connect).collect();
    let mut failure = io::Error::other("the name has no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt.map_err(io::Error::other).flatten() {
            Ok(stream) => {
                // A command is small, and must not wait for the next one.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// TLS with the authorities that this machine trusts. They are read for each connection, so that new ones count without
/// a restart.
async fn tls_config() -> io::Result<ClientConfig> {
    let found = spawn_blocking(rustls_native_certs::load_native_certs).await?;
    let mut authorities = RootCertStore::empty();
    let (trusted, _) = authorities.add_parsable_certificates(found.certs);
    if trusted == 0 {
        return Err(io::Error::other(
            "this machine trusts no authority: install ca-certificates, or name a file of them in SSL_CERT_FILE",
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(authorities)
        .with_no_client_auth();
    Ok(config)
}

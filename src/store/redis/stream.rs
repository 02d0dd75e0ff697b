//! The way to a server: TCP, TLS over it, or a unix socket.

use std::io;
use std::sync::Arc;

use redis::aio::AsyncStream;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_rustls::TlsConnector;

use super::address::Server;
use super::tls::TlsSettings;

/// An open way to a server.
pub(super) type Stream = Box<dyn AsyncStream + Send + Unpin>;

/// Opens one. It takes as long as it takes: the caller bounds it.
pub(super) async fn open(server: &Server, tls: &TlsSettings) -> io::Result<Stream> {
    match server {
        Server::Tcp { host, port, is_tls: false } => Ok(Box::new(open_tcp(host, *port).await?)),
        Server::Tcp { host, port, is_tls: true } => {
            let stream = open_tcp(host, *port).await?;
            // The files are read for each connection, so that new ones count without a restart.
            let settings = tls.clone();
            let config = spawn_blocking(move || settings.config()).await?.map_err(io::Error::other)?;
            let name = match &tls.server_name {
                Some(name) => name.clone(),
                None => ServerName::try_from(host.clone()).map_err(io::Error::other)?,
            };
            let connector = TlsConnector::from(Arc::new(config));
            Ok(Box::new(connector.connect(name, stream).await?))
        }
        Server::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
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

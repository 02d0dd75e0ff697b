//! The beginning of a conversation in HTTP: it is read before anything is spent on the connection, and read again by whom the
//! connection is for.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::super::sniff::{Beginning, Mistake, Spoken, TELLING};
use super::stream::Opened;
use crate::tls::ServerTls;

/// Why HTTP has not begun.
#[derive(Debug)]
pub(super) enum Unopened {
    /// The client has gone.
    Gone,
    Mistaken(Mistake),
    /// No agreement on TLS.
    Tls(io::Error),
}

/// Reads until it is clear what is spoken, and that it is what the port is for.
pub(super) async fn open<S: AsyncRead + Unpin>(mut stream: S, spoken: Spoken) -> Result<Opened<S>, Unopened> {
    let mut first = [0; TELLING];
    let mut read = 0;
    loop {
        match spoken.look_at_http(&first[..read]) {
            Beginning::Right => return Ok(Opened::new(stream, first, read)),
            Beginning::Wrong(mistake) => return Err(Unopened::Mistaken(mistake)),
            Beginning::Unclear => match stream.read(&mut first[read..]).await {
                Ok(0) | Err(_) => return Err(Unopened::Gone),
                Ok(more) => read += more,
            },
        }
    }
}

/// The same within TLS.
pub(super) async fn open_tls(
    stream: TcpStream,
    tls: &ServerTls,
    spoken: Spoken,
) -> Result<Opened<TlsStream<TcpStream>>, Unopened> {
    let mut first = [0; TELLING];
    let there = stream.peek(&mut first).await.map_err(|_| Unopened::Gone)?;
    match Spoken::look_at_tls(&first[..there]) {
        Beginning::Right => {}
        Beginning::Unclear => return Err(Unopened::Gone),
        Beginning::Wrong(mistake) => return Err(Unopened::Mistaken(mistake)),
    }
    let stream = TlsAcceptor::from(tls.config()).accept(stream).await.map_err(Unopened::Tls)?;
    open(stream, spoken).await
}

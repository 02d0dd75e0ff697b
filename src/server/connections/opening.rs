//! The beginning of a conversation in HTTP: it is read before anything is spent on the connection, and read again by whom the
//! connection is for.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::super::sniff::{Beginning, Mistake, Spoken, TELLING};
use super::traffic::Traffic;
use crate::tls::ServerTls;

/// A connection on which HTTP has begun.
#[derive(Debug)]
pub(super) struct Opened<S> {
    stream: S,
    first: [u8; TELLING],
    /// So many first bytes have been read from the stream, and so many of them have been given on.
    read: usize,
    given: usize,
    pub(super) traffic: Arc<Traffic>,
}

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
            Beginning::Right => return Ok(Opened { stream, first, read, given: 0, traffic: Arc::default() }),
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

impl<S> Opened<S> {
    pub(super) const fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opened<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.given == this.read {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        let count = buffer.remaining().min(this.read - this.given);
        buffer.put_slice(&this.first[this.given..this.given + count]);
        this.given += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opened<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.note(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S> Opened<S> {
    fn note(&self, written: &Poll<io::Result<usize>>) {
        if written.is_ready() {
            self.traffic.writes.increment();
        }
    }
}

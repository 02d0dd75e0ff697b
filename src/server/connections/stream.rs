use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::sniff::TELLING;
use super::traffic::Traffic;

/// The stream of a connection on which HTTP has begun: what was read of it is read again, and what is sent is noted.
#[derive(Debug)]
pub(super) struct Opened<S> {
    stream: S,
    first: [u8; TELLING],
    /// So many first bytes have been read from the stream, and so many of them have been given on.
    read: usize,
    given: usize,
    pub(super) traffic: Arc<Traffic>,
}

impl<S> Opened<S> {
    /// A stream of which the first bytes, so many, have been read.
    pub(super) fn new(stream: S, first: [u8; TELLING], read: usize) -> Self {
        Self { stream, first, read, given: 0, traffic: Arc::default() }
    }

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
        this.traffic.note(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.traffic.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.traffic.note_flush(&flushed);
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

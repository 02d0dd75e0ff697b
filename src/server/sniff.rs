//! Tells of clients that speak something else than HTTP/2 to the gRPC port.
//!
//! Without it such a connection just ends, and the two usual mistakes, TLS in Envoy's cluster and a cluster that was not
//! set to HTTP/2, look like a network that does not work.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::{Connected, TcpConnectInfo};
use tracing::warn;

use super::App;
use crate::limit::Micros;
use crate::throttle::Throttle;

/// The same mistake is told once in this time.
const PAUSE: Micros = Micros::from_seconds(60);

/// The connections of the gRPC port, each looked at when its first bytes arrive.
pub(super) fn sniff(
    connections: impl Stream<Item = io::Result<TcpStream>>,
    app: Arc<App>,
) -> impl Stream<Item = io::Result<Sniffed>> {
    let mistakes = Arc::new(MistakeLog::new(app));
    connections.map(move |stream| stream.map(|stream| Sniffed { stream, mistakes: Some(Arc::clone(&mistakes)) }))
}

struct MistakeLog {
    app: Arc<App>,
    // One each, so that a flood of one mistake does not hide another.
    tls: Throttle,
    http_1: Throttle,
    unknown: Throttle,
}

/// A connection whose first bytes may not have come yet.
pub(super) struct Sniffed {
    stream: TcpStream,
    /// Until the first bytes are there.
    mistakes: Option<Arc<MistakeLog>>,
}

/// What a client speaks that is not HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    Tls,
    Http1,
    Unknown,
}

impl Mistake {
    /// What the first bytes of a connection say that it is, if that is not HTTP/2.
    fn of(first: &[u8]) -> Option<Self> {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0";
        let compared = first.len().min(PREFACE.len());
        match first {
            _ if first[..compared] == PREFACE[..compared] => None,
            // A TLS record of the type handshake.
            [0x16, 0x03, ..] | [0x16] => Some(Self::Tls),
            _ if first[0].is_ascii_uppercase() => Some(Self::Http1),
            _ => Some(Self::Unknown),
        }
    }

    /// What has happened, and what to do about it.
    const fn advice(self) -> &'static str {
        match self {
            Self::Tls => {
                "a client speaks TLS to the gRPC port, which is plaintext: remove transport_socket from Envoy's cluster"
            }
            Self::Http1 => {
                "a client speaks HTTP/1 to the gRPC port: set http2_protocol_options in Envoy's cluster, or send JSON \
                 to the port of --http-addr"
            }
            Self::Unknown => {
                "a client speaks neither HTTP/2 nor anything known to the gRPC port: only gRPC is answered there"
            }
        }
    }
}

impl MistakeLog {
    fn new(app: Arc<App>) -> Self {
        Self { app, tls: Throttle::new(PAUSE), http_1: Throttle::new(PAUSE), unknown: Throttle::new(PAUSE) }
    }

    fn note(&self, first: &[u8], peer: io::Result<SocketAddr>) {
        let Some(mistake) = Mistake::of(first) else { return };
        let warnings = match mistake {
            Mistake::Tls => &self.tls,
            Mistake::Http1 => &self.http_1,
            Mistake::Unknown => &self.unknown,
        };
        if let Some(passed_over) = warnings.admit(self.app.clock().now()) {
            let peer = peer.map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string());
            warn!(peer, passed_over, "{}", mistake.advice());
        }
    }
}

impl AsyncRead for Sniffed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let first = &buf.filled()[before..];
        if !first.is_empty()
            && let Some(mistakes) = self.mistakes.take()
        {
            mistakes.note(first, self.stream.peer_addr());
        }
        read
    }
}

impl AsyncWrite for Sniffed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connected for Sniffed {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_mistakes_are_told_apart() {
        for (first, mistake) in [
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), None),
            (b"PRI", None),
            // Too little to say.
            (b"P", None),
            (b"POST / HTTP/1.1\r\n", Some(Mistake::Http1)),
            (&[0x16, 0x03, 0x01], Some(Mistake::Tls)),
            (b"\0\0", Some(Mistake::Unknown)),
        ] {
            assert_eq!(Mistake::of(first), mistake, "{first:?}");
        }
    }
}

//! Tells of clients that speak something else than HTTP/2 to the gRPC port.
//!
//! Without it such a connection just ends, and the two usual mistakes, TLS in Envoy's cluster and a cluster that was not
//! set to HTTP/2, look like a network that does not work.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::{Connected, TcpConnectInfo, TcpIncoming};
use tracing::warn;

use super::App;
use crate::limit::Micros;
use crate::telemetry::log::Seldom;

/// The same mistake is told once in this time.
const PAUSE: Micros = Micros::from_seconds(60);

/// How long to wait before accepting again when the process is out of file descriptors.
const RETRY_ACCEPT: Duration = Duration::from_millis(50);

/// The connections of the gRPC port, each looked at when its first bytes arrive.
pub(super) fn sniff(incoming: TcpIncoming, app: Arc<App>) -> impl Stream<Item = io::Result<Sniffed>> {
    let failures = Seldom::new(PAUSE);
    let told = Arc::new(Told { app, warnings: Seldom::new(PAUSE) });
    incoming.then(move |stream| {
        let connection = stream.map(|stream| Sniffed { stream, told: Some(Arc::clone(&told)) });
        let wait = connection.as_ref().is_err_and(is_lasting);
        if let Err(error) = &connection
            && wait
            && let Some(passed_over) = failures.admit(told.app.clock.now())
        {
            warn!(passed_over, "cannot accept connections on the gRPC port: {error}; raise the limit of open files");
        }
        async move {
            if wait {
                tokio::time::sleep(RETRY_ACCEPT).await;
            }
            connection
        }
    })
}

/// Whether accepting fails again at once, as when there are no more file descriptors. What concerns one connection
/// only, such as a client that has gone, is passed over.
fn is_lasting(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

struct Told {
    app: Arc<App>,
    warnings: Seldom,
}

/// A connection whose first bytes may not have come yet.
pub(super) struct Sniffed {
    stream: TcpStream,
    /// Until the first bytes are there.
    told: Option<Arc<Told>>,
}

/// What the first bytes of a connection say that it is, if that is not HTTP/2.
fn mistake(first: &[u8]) -> Option<&'static str> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0";
    let compared = first.len().min(PREFACE.len());
    match first {
        _ if first[..compared] == PREFACE[..compared] => None,
        // A TLS record of the type handshake.
        [0x16, 0x03, ..] | [0x16] => Some(
            "a client speaks TLS to the gRPC port, which is plaintext: remove transport_socket from Envoy's cluster",
        ),
        _ if first[0].is_ascii_uppercase() => Some(
            "a client speaks HTTP/1 to the gRPC port: set http2_protocol_options in Envoy's cluster, or send JSON to the \
             port of --http-addr",
        ),
        _ => Some("a client speaks neither HTTP/2 nor anything known to the gRPC port: only gRPC is answered there"),
    }
}

impl Told {
    fn look(&self, first: &[u8], peer: io::Result<SocketAddr>) {
        let Some(mistake) = mistake(first) else { return };
        if let Some(passed_over) = self.warnings.admit(self.app.clock.now()) {
            let peer = peer.map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string());
            warn!(peer, passed_over, "{mistake}");
        }
    }
}

impl AsyncRead for Sniffed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let first = &buf.filled()[before..];
        if !first.is_empty()
            && let Some(told) = self.told.take()
        {
            told.look(first, self.stream.peer_addr());
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
        assert_eq!(mistake(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), None);
        assert_eq!(mistake(b"PRI"), None);
        assert!(mistake(b"POST / HTTP/1.1\r\n").unwrap().contains("HTTP/1"));
        assert!(mistake(b"P").is_none(), "too little to say");
        assert!(mistake(&[0x16, 0x03, 0x01]).unwrap().contains("TLS"));
        assert!(mistake(b"\0\0").unwrap().contains("neither"));
    }
}

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::sleep;

use super::*;
use crate::server::sniff::TELLING;
use crate::settings::ConnectionSettings;

fn settings() -> ConnectionSettings {
    ConnectionSettings {
        max_connection_age: Duration::ZERO,
        max_connection_age_grace: Duration::ZERO,
        idle_timeout: Duration::ZERO,
        keepalive_interval: Duration::ZERO,
        keepalive_timeout: Duration::ZERO,
        max_connections: 1,
        max_concurrent_streams: 1,
        max_requests: 1,
        max_request_bytes: 1,
    }
}

/// Serves one connection of a port on which HTTP/1 is spoken, and returns the client's end of it.
fn serve() -> tokio::io::DuplexStream {
    let port = Port::new("HTTP", true, &settings(), &PortCounts::new("http", None), &Arc::new(Clock::start()));
    let (client, server) = duplex(1024);
    tokio::spawn(async move {
        let opened = open(server, port.spoken).await.unwrap();
        let answer = |_, _| async { Response::new(Full::new(Bytes::from_static(b"well"))) };
        let (_stop, stop) = watch::channel(false);
        converse(&port, opened, Client { is_known: false }, answer, stop).await;
    });
    client
}

#[tokio::test]
async fn what_was_read_to_see_what_is_spoken_is_not_lost() {
    let mut client = serve();
    for byte in b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" {
        client.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("well"), "{answer:?}");
}

/// A head has a minute from its first byte, however often something comes.
#[tokio::test(start_paused = true)]
async fn a_head_that_drips_does_not_keep_a_connection() {
    let mut client = serve();
    let begin = Instant::now();
    client.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    while client.write_all(b"x").await.is_ok() {
        sleep(Duration::from_secs(1)).await;
        assert!(begin.elapsed() < 2 * HTTP_1_HEAD, "it is kept");
    }
    assert!(begin.elapsed() >= HTTP_1_HEAD, "it had {:?}", begin.elapsed());
}

/// Takes all that is written and sends nothing, as TLS does whose client does not read.
struct HoldsBack;

impl AsyncWrite for HoldsBack {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn what_tls_holds_back_is_under_way() {
    let mut stream = Opened::new(HoldsBack, [0; TELLING], 0);
    stream.write_all(b"an answer").await.unwrap();
    assert!(!stream.traffic.seen().is_under_way());
    let flushed = poll_fn(|context| Poll::Ready(Pin::new(&mut stream).poll_flush(context))).await;
    assert!(flushed.is_pending() && stream.traffic.seen().is_under_way());
}

//! The connections of a port: how they are accepted, and how many there may be.

mod attention;
mod in_place;
mod lifetime;
mod opening;
mod stream;
mod traffic;

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use self::in_place::{Begun, InPlace};
use self::lifetime::{Due, Lifetime};
use self::opening::{Unopened, open, open_tls};
use self::stream::Opened;
use super::held::Held;
use super::listen::is_lasting;
use super::sniff::{Mistake, Spoken};
use super::{BoxError, until_set};
use crate::clock::Clock;
use crate::limit::Micros;
use crate::settings::ConnectionSettings;
use crate::telemetry::metrics::{ConnectionRefusal, PortCounts};
use crate::throttle::Throttle;

/// How long a client may take to agree on TLS and to begin to speak HTTP.
const GREETING: Duration = Duration::from_secs(10);

/// How long an HTTP/1 client may take to send the head of a request, and how long its connection is kept for the next.
const HTTP_1_HEAD: Duration = Duration::from_secs(60);

/// How much of a request a client may send before we have read any of it, in bytes. It is what HTTP/2 begins with.
const STREAM_WINDOW: u32 = 65_535;

/// The same for a connection, for each request that may be under way on it. h2 takes a client for a hostile one that sends
/// many small parts of requests before they are read: 256 bytes are counted for each, and half of the window is how many may
/// be (its `DataFrameBudget`). A burst of honest requests must not look like that.
const CONNECTION_WINDOW_FOR_EACH: u32 = 512;

/// The largest window of HTTP/2: RFC 9113, section 6.9.1.
const LARGEST_WINDOW: u32 = (1 << 31) - 1;

/// The longest head of an HTTP/1 request, in bytes.
const HTTP_1_BUFFER: usize = 64 << 10;

/// How long to wait when no connection can be accepted, before it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The same is told once in this time.
const TOLD_EVERY: Micros = Micros::from_seconds(60);

/// A port, and what is spoken on it.
pub(super) struct Port {
    /// For people, such as `gRPC`.
    pub(super) name: &'static str,
    spoken: Spoken,
    settings: ConnectionSettings,
    counts: Arc<PortCounts>,
    clock: Arc<Clock>,
    told: Told,
}

/// What has been told of lately. One each, so that a flood of one thing does not hide another.
struct Told {
    mistakes: [Throttle; Mistake::ALL.len()],
    tls: Throttle,
    crowd: Throttle,
    accepting: Throttle,
}

/// What is known of the client of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// It has shown a certificate that we trust.
    pub(super) is_known: bool,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Port {
    /// A port on which HTTP/2 is spoken, and HTTP/1 if `has_http_1`; within TLS if the counts know of it.
    pub(super) fn new(
        name: &'static str,
        has_http_1: bool,
        settings: &ConnectionSettings,
        counts: &Arc<PortCounts>,
        clock: &Arc<Clock>,
    ) -> Self {
        Self {
            name,
            spoken: Spoken { has_tls: counts.tls.is_some(), has_http_1 },
            settings: settings.clone(),
            counts: Arc::clone(counts),
            clock: Arc::clone(clock),
            told: Told::new(),
        }
    }

    /// How HTTP is spoken on one connection.
    fn http(&self, executor: Begun) -> Builder<Begun> {
        let mut builder = Builder::new(executor);
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HTTP_1_HEAD).max_buf_size(HTTP_1_BUFFER);
        let ping = Some(self.settings.keepalive_interval).filter(|interval| !interval.is_zero());
        let streams = self.settings.max_concurrent_streams;
        let connection_window = streams.saturating_mul(CONNECTION_WINDOW_FOR_EACH).clamp(STREAM_WINDOW, LARGEST_WINDOW);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(ping)
            .keep_alive_timeout(self.settings.keepalive_timeout)
            .max_concurrent_streams(streams)
            // Clients give up what takes too long. When we were held up, all that is under way may have been given up before
            // it is read; by default h2 takes more than 20 of those for an attack, and ends the connection for all the others.
            .max_pending_accept_reset_streams(usize::try_from(streams).unwrap_or(usize::MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(connection_window);
        if self.spoken.has_http_1 {
            return builder;
        }
        // gRPC knows no date.
        builder.http2().auto_date_header(false);
        builder.http2_only()
    }

    /// Serves connections until `stop` is set, and then until the last of them has ended: no more are accepted then, and
    /// those that are there are told to go.
    pub(super) async fn serve<A, F, B>(self, listener: TcpListener, answer: A, stop: watch::Receiver<bool>)
    where
        A: Fn(Request<Incoming>, Client) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let port = Arc::new(self);
        let mut connections = JoinSet::new();
        {
            let mut stopping = pin!(until_set(stop.clone()));
            loop {
                tokio::select! {
                    biased;
                    () = &mut stopping => break,
                    Some(_) = connections.join_next() => {}
                    accepted = listener.accept() => match accepted {
                        Ok((stream, peer)) => {
                            if let Some(admitted) = Admitted::take(&port, peer) {
                                let attending = attend(Arc::clone(&port), stream, peer, answer.clone(), stop.clone());
                                connections.spawn(async move {
                                    attending.await;
                                    drop(admitted);
                                });
                            }
                        }
                        Err(error) => port.rest_after(&error).await,
                    },
                }
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// When the process is out of file descriptors it waits before it tries again, and says so: else it would try without
    /// a pause, and in silence.
    async fn rest_after(&self, error: &io::Error) {
        if !is_lasting(error) {
            return;
        }
        if let Some(passed_over) = self.told.accepting.admit(self.clock.now()) {
            let name = self.name;
            warn!(passed_over, "cannot accept connections on the {name} port: {error}; raise the limit of open files");
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    /// Waits until HTTP has begun, for as long as that may take. Else it tells of what has begun instead.
    async fn greet<T>(
        &self,
        opening: impl Future<Output = Result<T, Unopened>>,
        peer: SocketAddr,
        stop: &watch::Receiver<bool>,
    ) -> Option<T> {
        let greeted = tokio::select! {
            biased;
            greeted = timeout(GREETING, opening) => greeted,
            // Whoever has not begun yet can begin with somebody else.
            () = until_set(stop.clone()) => return None,
        };
        match greeted {
            Ok(Ok(opened)) => return Some(opened),
            Ok(Err(Unopened::Gone)) => {}
            Ok(Err(Unopened::Mistaken(mistake))) => self.note_mistake(mistake, peer),
            Ok(Err(Unopened::Tls(error))) => {
                let why = self.counts.tls.as_ref().map_or_else(|| error.to_string(), |tls| tls.explain(&error));
                self.note_tls(&why, peer);
            }
            Err(_) => self.counts.refuse_connection(ConnectionRefusal::Silent),
        }
        None
    }

    fn note_mistake(&self, mistake: Mistake, peer: SocketAddr) {
        self.counts.refuse_connection(ConnectionRefusal::Protocol);
        if let Some(passed_over) = self.told.mistakes[mistake as usize].admit(self.clock.now()) {
            warn!(peer = peer.to_string(), passed_over, "{}", mistake.advice(self.name));
        }
    }

    fn note_tls(&self, why: &str, peer: SocketAddr) {
        self.counts.refuse_connection(ConnectionRefusal::Tls);
        if let Some(passed_over) = self.told.tls.admit(self.clock.now()) {
            warn!(
                peer = peer.to_string(),
                passed_over, "a client and the {} port do not agree on TLS: {why}", self.name
            );
        }
    }
}

impl Told {
    fn new() -> Self {
        let once = || Throttle::new(TOLD_EVERY);
        Self { mistakes: Mistake::ALL.map(|_| once()), tls: once(), crowd: once(), accepting: once() }
    }
}

/// A connection that is counted among those of its port, until this is dropped.
struct Admitted(Arc<PortCounts>);

impl Admitted {
    fn take(port: &Port, peer: SocketAddr) -> Option<Self> {
        let admitted = Self(Arc::clone(&port.counts));
        let most = port.settings.max_connections;
        if port.counts.connections.raise(1) <= u64::from(most) {
            port.counts.connections_accepted.increment();
            return Some(admitted);
        }
        port.counts.refuse_connection(ConnectionRefusal::Crowded);
        if let Some(passed_over) = port.told.crowd.admit(port.clock.now()) {
            let name = port.name;
            warn!(
                peer = peer.to_string(),
                passed_over, "the {name} port has {most} connections, and no more are taken: see --max-connections"
            );
        }
        None
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.connections.lower(1);
    }
}

/// One connection, from its first byte to its end.
async fn attend<A, F, B>(port: Arc<Port>, stream: TcpStream, peer: SocketAddr, answer: A, stop: watch::Receiver<bool>)
where
    A: Fn(Request<Incoming>, Client) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    // Small answers must not wait for the acknowledgement of those before; a connection that has no such option works.
    let _ = stream.set_nodelay(true);
    if let Some(tls) = &port.counts.tls {
        if let Some(opened) = port.greet(open_tls(stream, tls, port.spoken), peer, &stop).await {
            let is_known = opened.stream().get_ref().1.peer_certificates().is_some();
            converse(&port, opened, Client { is_known }, answer, stop).await;
        }
    } else if let Some(opened) = port.greet(open(stream, port.spoken), peer, &stop).await {
        converse(&port, opened, Client { is_known: false }, answer, stop).await;
    }
}

/// Answers the requests of a connection until it ends: by itself, of age, because nothing is asked any more, or because the
/// process stops.
async fn converse<A, F, B>(
    port: &Port,
    stream: Opened<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
    client: Client,
    answer: A,
    stop: watch::Receiver<bool>,
) where
    A: Fn(Request<Incoming>, Client) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    let traffic = Arc::clone(&stream.traffic);
    let service = {
        let traffic = Arc::clone(&traffic);
        service_fn(move |request| {
            let exchange = traffic.begin();
            let answering = answer(request, client);
            async move { Ok::<_, Infallible>(answering.await.map(|body| Held::new(body, exchange))) }
        })
    };
    let in_place = InPlace::new();
    let http = port.http(in_place.executor());
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut lifetime = Lifetime::new(&port.settings, Instant::now());
    let mut timer = pin!(sleep_until(lifetime.next_look()));
    let mut stopping = pin!(until_set(stop));
    let mut is_stopping = false;
    loop {
        // Whoever asks without a pause must not keep the time from being looked at, so that comes first.
        tokio::select! {
            biased;
            () = &mut timer => {
                match lifetime.look(traffic.seen(), Instant::now()) {
                    Due::Nothing => {}
                    Due::GoAway => connection.as_mut().graceful_shutdown(),
                    Due::Cut => return,
                }
                timer.as_mut().reset(lifetime.next_look());
            }
            () = &mut stopping, if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
                lifetime.stop(Instant::now());
                timer.as_mut().reset(lifetime.next_look());
            }
            // How it has ended is the client's affair.
            _ = poll_fn(|context| in_place.poll(connection.as_mut(), context)) => return,
        }
    }
}

#[cfg(test)]
mod tests;

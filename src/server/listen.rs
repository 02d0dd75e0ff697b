use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::TcpIncoming;
use tracing::warn;

use super::BoxError;
use crate::clock::Clock;
use crate::limit::Micros;
use crate::settings::ServeSettings;
use crate::throttle::Throttle;

/// The open ports, before anything is served on them.
#[derive(Debug)]
pub struct Listeners {
    pub grpc: TcpListener,
    pub http: TcpListener,
    pub admin: TcpListener,
}

impl Listeners {
    /// Opens the ports that the settings name. Needs a Tokio runtime.
    ///
    /// # Errors
    ///
    /// When a port cannot be opened; the message names its flag.
    pub fn bind(settings: &ServeSettings) -> Result<Self, BoxError> {
        Ok(Self {
            grpc: bind("--grpc-addr", settings.grpc_addr)?,
            http: bind("--http-addr", settings.http.http_addr)?,
            admin: bind("--admin-addr", settings.admin_addr)?,
        })
    }
}

impl fmt::Display for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |listener: &TcpListener| listener.local_addr().map_or_else(|_| "?".into(), |a| a.to_string());
        let (grpc, http, admin) = (address(&self.grpc), address(&self.http), address(&self.admin));
        write!(f, "gRPC on {grpc}, HTTP on {http}, admin on {admin}")
    }
}

fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, BoxError> {
    let mut listener = StdListener::bind(address);
    // Every address in IPv6 and IPv4; but a machine may have no IPv6.
    if address.ip() == Ipv6Addr::UNSPECIFIED && listener.as_ref().is_err_and(|error| !is_in_use(error)) {
        listener = StdListener::bind((Ipv4Addr::UNSPECIFIED, address.port()));
    }
    let listener = listener.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "stop what uses it, or choose another port",
            io::ErrorKind::PermissionDenied => "choose a port above 1023, or allow this process to open it",
            _ => "choose an address of this machine",
        };
        format!("cannot listen on {address} ({flag}): {error}; {advice}")
    })?;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

fn is_in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

/// The connections of the gRPC port. When the process is out of file descriptors it waits before it tries again, and says
/// so: else it would try without a pause, and in silence.
pub(super) fn grpc_connections(listener: TcpListener, clock: Arc<Clock>) -> impl Stream<Item = io::Result<TcpStream>> {
    const PAUSE: Duration = Duration::from_millis(50);
    let failures = Throttle::new(Micros::from_seconds(60));
    TcpIncoming::from(listener).with_nodelay(Some(true)).then(move |connection| {
        let must_wait = connection.as_ref().is_err_and(is_lasting);
        if let Err(error) = &connection
            && must_wait
            && let Some(passed_over) = failures.admit(clock.now())
        {
            warn!(passed_over, "cannot accept connections on the gRPC port: {error}; raise the limit of open files");
        }
        async move {
            if must_wait {
                tokio::time::sleep(PAUSE).await;
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

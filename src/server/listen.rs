use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};

use tokio::net::TcpListener;

use super::BoxError;
use crate::settings::ServeSettings;

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
            http: bind("--http-addr", settings.http.address.http_addr)?,
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

/// Whether accepting fails again at once, as when there are no more file descriptors. What concerns one connection
/// only, such as a client that has gone, is passed over.
pub(super) fn is_lasting(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

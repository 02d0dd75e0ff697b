use std::fmt;
use std::sync::Arc;

use super::family::Families;
use crate::measure::{Count, Level};
use crate::tls::ServerTls;

/// What happens on one port.
#[derive(Debug)]
pub struct PortCounts {
    /// `grpc`, `http` or `admin`.
    pub name: &'static str,
    /// Connections at the moment.
    pub connections: Level,
    pub connections_accepted: Count,
    connections_refused: [Count; ConnectionRefusal::ALL.len()],
    /// Requests under way.
    pub requests: Level,
    /// Bytes that these requests have brought.
    pub request_bytes: Level,
    requests_refused: [Count; RequestRefusal::ALL.len()],
    /// `None` if plaintext is spoken.
    pub tls: Option<Arc<ServerTls>>,
}

/// Why a connection was closed before anything was answered on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// There were as many as there may be.
    Crowded,
    /// Nothing was said on it.
    Silent,
    /// Something was spoken that is not for this port.
    Protocol,
    /// No agreement on TLS was found.
    Tls,
}

/// Why a request was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRefusal {
    /// As many requests were under way as there may be.
    Crowded,
    /// As many bytes of requests were there as there may be.
    Bytes,
    /// It was larger than any may be.
    Size,
    /// It did not arrive in time.
    Slow,
}

impl ConnectionRefusal {
    pub const ALL: [Self; 4] = [Self::Crowded, Self::Silent, Self::Protocol, Self::Tls];

    const fn name(self) -> &'static str {
        match self {
            Self::Crowded => "crowded",
            Self::Silent => "silent",
            Self::Protocol => "protocol",
            Self::Tls => "tls",
        }
    }
}

impl RequestRefusal {
    pub const ALL: [Self; 4] = [Self::Crowded, Self::Bytes, Self::Size, Self::Slow];

    const fn name(self) -> &'static str {
        match self {
            Self::Crowded => "crowded",
            Self::Bytes => "bytes",
            Self::Size => "size",
            Self::Slow => "slow",
        }
    }
}

impl PortCounts {
    #[must_use]
    pub fn new(name: &'static str, tls: Option<Arc<ServerTls>>) -> Arc<Self> {
        Arc::new(Self {
            name,
            connections: Level::default(),
            connections_accepted: Count::default(),
            connections_refused: Default::default(),
            requests: Level::default(),
            request_bytes: Level::default(),
            requests_refused: Default::default(),
            tls,
        })
    }

    pub fn refuse_connection(&self, why: ConnectionRefusal) {
        self.connections_refused[why as usize].increment();
    }

    pub fn refuse_request(&self, why: RequestRefusal) {
        self.requests_refused[why as usize].increment();
    }
}

pub(super) fn encode(ports: &[Arc<PortCounts>], families: &mut Families<'_, '_>) -> fmt::Result {
    let mut connections = families.gauge("connections", "Connections of clients, by port")?;
    for port in ports {
        connections.of(&[("port", port.name)], port.connections.get())?;
    }
    let mut accepted = families.counter("connections_accepted", "Connections that clients have opened, by port")?;
    for port in ports {
        accepted.of(&[("port", port.name)], port.connections_accepted.get())?;
    }
    let help = "Connections closed before anything was answered on them, by port and reason";
    let mut refused = families.counter("connections_refused", help)?;
    for port in ports {
        for (reason, count) in ConnectionRefusal::ALL.iter().zip(&port.connections_refused) {
            refused.of(&[("port", port.name), ("reason", reason.name())], count.get())?;
        }
    }
    let mut under_way = families.gauge("requests_under_way", "Requests that are being answered, by port")?;
    for port in ports {
        under_way.of(&[("port", port.name)], port.requests.get())?;
    }
    let mut bytes = families.gauge("request_bytes", "Bytes that requests under way have brought, by port")?;
    for port in ports {
        bytes.of(&[("port", port.name)], port.request_bytes.get())?;
    }
    let help = "Requests that were not read, by port and the bound that refused them";
    let mut refused = families.counter("requests_refused", help)?;
    for port in ports {
        for (reason, count) in RequestRefusal::ALL.iter().zip(&port.requests_refused) {
            refused.of(&[("port", port.name), ("reason", reason.name())], count.get())?;
        }
    }
    let mut loads = families.counter("tls_loads", "Times that a port's certificate was read anew, by outcome")?;
    for (port, tls) in with_tls(ports) {
        for (outcome, count) in [("ok", &tls.loads.good), ("error", &tls.loads.bad)] {
            loads.of(&[("port", port), ("outcome", outcome)], count.get())?;
        }
    }
    let help = "When a port's certificate ends, in seconds since 1970";
    let mut ends = families.gauge("tls_certificate_expiry_timestamp_seconds", help)?;
    for (port, tls) in with_tls(ports) {
        ends.of(&[("port", port)], u64::try_from(tls.expires()).unwrap_or(0))?;
    }
    Ok(())
}

fn with_tls(ports: &[Arc<PortCounts>]) -> impl Iterator<Item = (&'static str, &ServerTls)> {
    ports.iter().filter_map(|port| Some((port.name, port.tls.as_deref()?)))
}

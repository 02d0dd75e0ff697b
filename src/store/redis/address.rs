//! Where a Redis is: what `--redis-url` says.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::login::{Credentials, Login};
use crate::percent;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where a Redis is, and who we are to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisAddress {
    pub(super) topology: Topology,
    /// The number of the database; a new connection has 0.
    pub(super) database: u32,
    login: Option<Login>,
}

/// How its servers belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisKind {
    /// One server, or one address behind which there is always the primary.
    Single,
    /// A primary with replicas, and Sentinels that say which one is the primary.
    Sentinel,
    /// Several primaries, each with a part of the keys.
    Cluster,
}

/// The servers that we are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    Single(Server),
    Sentinel {
        sentinels: Vec<Server>,
        /// The name that the Sentinels have for a primary and its replicas.
        service: String,
    },
    /// Any of its servers; they know the others.
    Cluster(Vec<Server>),
}

impl Topology {
    /// Of servers, each as `HOST` or `HOST:PORT`.
    fn of(kind: RedisKind, items: &[&str], service: &str, is_tls: bool) -> Result<Self, AddressError> {
        let servers = |port| items.iter().map(|item| server(item, port, is_tls)).collect::<Result<Vec<_>, _>>();
        Ok(match (kind, items) {
            (RedisKind::Single, [item]) => Self::Single(server(item, REDIS_PORT, is_tls)?),
            (RedisKind::Single, _) => return Err(AddressError::Several),
            (RedisKind::Sentinel, _) => {
                Self::Sentinel { sentinels: servers(SENTINEL_PORT)?, service: service_name(service)? }
            }
            (RedisKind::Cluster, _) => Self::Cluster(servers(REDIS_PORT)?),
        })
    }
}

/// A server that can be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Tcp { host: String, port: u16, is_tls: bool },
    Socket(PathBuf),
}

impl Server {
    /// Another one, which a server has named, and which is spoken to as this one is. `None` if that is no place.
    pub(super) fn elsewhere(&self, host: &str, port: u16) -> Option<Self> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'%');
        let is_place = (1..=255).contains(&host.len()) && host.bytes().all(is_part) && port != 0;
        is_place.then(|| Self::Tcp { host: host.to_owned(), port, is_tls: self.is_tls() })
    }

    pub(super) fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Socket(_) => "",
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tcp { is_tls: true, .. })
    }
}

/// Why a text is not the address of a Redis. The text is not repeated, because a password may be anywhere in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "this is no URL of a Redis: give redis://HOST:PORT, rediss://HOST:PORT for TLS, unix:///PATH, \
         redis-sentinel://HOST:PORT,HOST:PORT/SERVICE or redis-cluster://HOST:PORT,HOST:PORT"
    )]
    Scheme,
    #[error(
        "it cannot be read: give SCHEME://USER:PASSWORD@HOST:PORT/DATABASE, with all special characters of user and \
         password as in %40 for @"
    )]
    Unreadable,
    #[error("it has a # in it: write %23 for one that belongs to the password, and take others away")]
    Fragment,
    #[error("after the ? only db, user and pass of a unix socket may stand: write %3F for one of the password")]
    Query,
    #[error("a user stands without a password: write USER:PASSWORD@HOST, or :PASSWORD@HOST for the default user")]
    UserWithoutPassword,
    #[error("0.0.0.0 and [::] are no address to connect to: give that of the Redis, such as 127.0.0.1")]
    Wildcard,
    #[error("its database is no number: give /0 to /15 or what your Redis has, or nothing")]
    Database,
    #[error(
        "it names several servers: give redis-sentinel://HOST:PORT,HOST:PORT/SERVICE for Sentinels, or \
         redis-cluster://HOST:PORT,HOST:PORT for a Cluster; or --redis-type with a list that has no scheme"
    )]
    Several,
    #[error(
        "the Sentinels' name for the primary is missing, or has other characters than letters, digits, . - and _: \
         give redis-sentinel://HOST:PORT,HOST:PORT/SERVICE, or SERVICE,HOST:PORT,HOST:PORT with --redis-type sentinel"
    )]
    Service,
    #[error("a list cannot be read: give HOST:PORT,HOST:PORT; a login belongs in --redis-auth-file")]
    List,
    #[error("its scheme says something else than --redis-type: give one of them")]
    Kind,
}

/// What was written, before it is known what kind of list it is.
#[derive(Clone, Debug)]
pub enum RedisUrl {
    Complete(RedisAddress),
    /// With commas between, as in the settings of envoyproxy/ratelimit.
    List(Vec<String>),
}

impl RedisUrl {
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.contains("://") {
            return Ok(Self::Complete(RedisAddress::parse(text)?));
        }
        let items: Vec<String> = text.split(',').map(|item| item.trim().to_owned()).collect();
        if text.is_empty() || text.starts_with('/') {
            return Err(AddressError::Scheme);
        }
        if items.iter().any(|item| item.is_empty() || item.ends_with(':') || item.contains(['@', '/', '?', '#'])) {
            return Err(AddressError::List);
        }
        Ok(Self::List(items))
    }

    /// Takes a list for one of this kind. Of a URL the scheme says the kind, and whether it is TLS.
    pub fn address(self, kind: Option<RedisKind>, is_tls: bool) -> Result<RedisAddress, AddressError> {
        let items = match self {
            Self::Complete(address) if kind.is_none_or(|kind| kind == address.kind()) => return Ok(address),
            Self::Complete(_) => return Err(AddressError::Kind),
            Self::List(items) => items,
        };
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let kind = kind.unwrap_or(RedisKind::Single);
        let (service, items) = match (kind, &items[..]) {
            (RedisKind::Sentinel, [service, items @ ..]) if !items.is_empty() => (*service, items),
            (_, items) => ("", items),
        };
        Ok(RedisAddress { topology: Topology::of(kind, items, service, is_tls)?, database: 0, login: None })
    }
}

impl RedisAddress {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let (kind, is_tls) = match &*scheme.to_ascii_lowercase() {
            "unix" | "redis+unix" => return Self::of_socket(text),
            "redis" => (RedisKind::Single, false),
            "rediss" => (RedisKind::Single, true),
            "redis-sentinel" => (RedisKind::Sentinel, false),
            "rediss-sentinel" => (RedisKind::Sentinel, true),
            "redis-cluster" => (RedisKind::Cluster, false),
            "rediss-cluster" => (RedisKind::Cluster, true),
            _ => return Err(AddressError::Scheme),
        };
        // A password that is not escaped may have these, and then all that follows means something else.
        if rest.contains('#') {
            return Err(AddressError::Fragment);
        }
        if rest.contains('?') {
            return Err(AddressError::Query);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(AddressError::Unreadable);
        }
        let (user_info, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let login = login(user_info)?;
        let items: Vec<&str> = hosts.split(',').collect();
        let (service, database) = match kind {
            RedisKind::Sentinel => path.split_once('/').unwrap_or((path, "")),
            RedisKind::Single | RedisKind::Cluster => ("", path),
        };
        let topology = Topology::of(kind, &items, service, is_tls)?;
        Ok(Self { topology, database: database_number(database)?, login })
    }

    fn of_socket(text: &str) -> Result<Self, AddressError> {
        let url = redis::parse_redis_url(text).ok_or(AddressError::Unreadable)?;
        if url.fragment().is_some() {
            return Err(AddressError::Fragment);
        }
        if url.query_pairs().any(|(name, _)| !matches!(&*name, "db" | "user" | "pass")) {
            return Err(AddressError::Query);
        }
        let info = url.into_connection_info().map_err(|_| AddressError::Unreadable)?;
        let ConnectionAddr::Unix(path) = info.addr() else { return Err(AddressError::Unreadable) };
        let settings = info.redis_settings();
        let login = match (settings.username(), settings.password()) {
            (None, None) => None,
            (Some(_), None) => return Err(AddressError::UserWithoutPassword),
            (user, Some(password)) => Some(Login { user: user.map(str::to_owned), password: password.to_owned() }),
        };
        let database = u32::try_from(settings.db()).map_err(|_| AddressError::Database)?;
        Ok(Self { topology: Topology::Single(Server::Socket(path.clone())), database, login })
    }

    #[must_use]
    pub fn kind(&self) -> RedisKind {
        match self.topology {
            Topology::Single(_) => RedisKind::Single,
            Topology::Sentinel { .. } => RedisKind::Sentinel,
            Topology::Cluster(_) => RedisKind::Cluster,
        }
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        match &self.topology {
            Topology::Single(server) => server.is_tls(),
            Topology::Sentinel { sentinels: servers, .. } | Topology::Cluster(servers) => {
                servers.iter().any(Server::is_tls)
            }
        }
    }

    /// Whether the URL has a login.
    #[must_use]
    pub fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// The user and the password that the URL has.
    pub(super) fn credentials(&self) -> Credentials {
        self.login.clone().map_or(Credentials::None, |login| Credentials::Given { login, setting: "--redis-url" })
    }
}

/// Reads the user and the password of a URL.
fn login(user_info: &str) -> Result<Option<Login>, AddressError> {
    let decoded = |text: &str| {
        let bytes = percent::decode(text).map_err(|_| AddressError::Unreadable)?;
        String::from_utf8(bytes).map_err(|_| AddressError::Unreadable)
    };
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    match (decoded(user)?, decoded(password)?) {
        (user, password) if password.is_empty() && user.is_empty() => Ok(None),
        (_, password) if password.is_empty() => Err(AddressError::UserWithoutPassword),
        (user, password) => Ok(Some(Login { user: (!user.is_empty()).then_some(user), password })),
    }
}

/// Reads `HOST` or `HOST:PORT`.
fn server(text: &str, default_port: u16, is_tls: bool) -> Result<Server, AddressError> {
    let url = redis::parse_redis_url(&format!("redis://{text}")).ok_or(AddressError::Unreadable)?;
    let host = url.host_str().filter(|host| !host.contains('%')).ok_or(AddressError::Unreadable)?;
    if matches!(host, "0.0.0.0" | "[::]") {
        return Err(AddressError::Wildcard);
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    match url.port().unwrap_or(default_port) {
        0 => Err(AddressError::Unreadable),
        port => Ok(Server::Tcp { host, port, is_tls }),
    }
}

/// A name that Sentinels can have for a primary.
fn service_name(text: &str) -> Result<String, AddressError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_name = !text.is_empty() && text.bytes().all(is_allowed);
    if is_name { Ok(text.to_owned()) } else { Err(AddressError::Service) }
}

fn database_number(text: &str) -> Result<u32, AddressError> {
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| AddressError::Database) }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        match self {
            // An IPv6 address has brackets in a URL.
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "{scheme}://[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{scheme}://{host}:{port}"),
            Self::Socket(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests;

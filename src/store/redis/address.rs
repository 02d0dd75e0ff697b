use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// Where a Redis is, and who we are to it. Neither `Display` nor `Debug` shows the password.
#[derive(Clone)]
pub struct RedisAddress {
    info: ConnectionInfo,
    database: i64,
}

/// Why a text is not the URL of a Redis. The text is not repeated, because a password may be anywhere in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("this is no URL of a Redis: give redis://HOST:PORT, rediss://HOST:PORT for TLS, or unix:///PATH")]
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
}

impl RedisAddress {
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_socket = match scheme {
            "redis" | "rediss" => false,
            "unix" | "redis+unix" => true,
            _ => return Err(AddressError::Scheme),
        };
        let url = redis::parse_redis_url(text).ok_or(AddressError::Unreadable)?;
        if url.fragment().is_some() {
            return Err(AddressError::Fragment);
        }
        let is_known = |name: &str| is_socket && matches!(name, "db" | "user" | "pass");
        if url.query_pairs().any(|(name, _)| !is_known(&name)) {
            return Err(AddressError::Query);
        }
        if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
            return Err(AddressError::Wildcard);
        }
        let info = url.into_connection_info().map_err(|_| AddressError::Unreadable)?;
        let identity = info.redis_settings();
        // The client would not log in at all.
        if identity.username().is_some() && identity.password().is_none() {
            return Err(AddressError::UserWithoutPassword);
        }
        let database = identity.db();
        // The client forgets why a database was not selected, so we select it ourselves.
        let identity = identity.clone().set_db(0).set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        Ok(Self { info: info.set_redis_settings(identity), database })
    }

    pub(super) fn server(&self) -> &ConnectionAddr {
        self.info.addr()
    }

    /// The number of the database; a new connection has 0.
    pub(super) fn database(&self) -> i64 {
        self.database
    }

    /// User, password, and what we call ourselves.
    pub(super) fn identity(&self) -> &redis::RedisConnectionInfo {
        self.info.redis_settings()
    }

    /// Whether a text tells the password.
    pub(super) fn password_is_in(&self, text: &str) -> bool {
        self.identity().password().is_some_and(|password| !password.is_empty() && text.contains(password))
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.server() {
            ConnectionAddr::Tcp(host, port) => write!(f, "redis://{}:{port}", in_url(host))?,
            ConnectionAddr::TcpTls { host, port, .. } => write!(f, "rediss://{}:{port}", in_url(host))?,
            other => write!(f, "unix://{other}")?,
        }
        match self.database {
            0 => Ok(()),
            database => write!(f, " database {database}"),
        }
    }
}

/// An IPv6 address has brackets in a URL.
fn in_url(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, AddressError> {
        RedisAddress::parse(text).map(|address| address.to_string())
    }

    #[test]
    fn an_address_is_shown_without_user_and_password() {
        for (text, shown) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://10.0.0.1:7000/3", "redis://10.0.0.1:7000 database 3"),
            ("redis://:secret@redis:7000", "redis://redis:7000"),
            ("redis://user:se%40cret@[::1]:7000/", "redis://[::1]:7000"),
            ("rediss://user:secret@redis.example", "rediss://redis.example:6379"),
            ("unix:///run/redis/socket", "unix:///run/redis/socket"),
            ("redis+unix:///run/redis?db=2&user=me&pass=secret", "unix:///run/redis database 2"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
            let debug = format!("{:?}", RedisAddress::parse(text).unwrap());
            assert!(!debug.contains("cret"), "{debug}");
        }
    }

    #[test]
    fn user_password_and_database_are_those_of_the_url() {
        let address = RedisAddress::parse("redis://me:se%40cret@redis/5").unwrap();
        let identity = address.identity();
        assert_eq!((identity.username(), identity.password(), address.database()), (Some("me"), Some("se@cret"), 5));
        assert!(address.password_is_in("it is se@cret") && !address.password_is_in("it is not"));
    }

    #[test]
    fn a_wrong_url_is_told_what_to_write() {
        use AddressError::{Fragment, Query, Scheme, Unreadable, UserWithoutPassword, Wildcard};
        for (text, fault) in [
            ("", Scheme),
            ("localhost:6379", Scheme),
            ("http://localhost", Scheme),
            ("valkey://localhost", Scheme),
            ("redis:", Unreadable),
            ("redis://", Unreadable),
            ("redis://localhost:99999", Unreadable),
            ("redis://localhost/first", Unreadable),
            ("redis://:pass/word@localhost", Unreadable),
            ("redis://:pass#word@localhost", Unreadable),
            ("redis://user:1#2@localhost", Fragment),
            ("rediss://localhost/#insecure", Fragment),
            ("redis://user:1?2@localhost", Query),
            ("redis://localhost?protocol=resp3", Query),
            ("unix:///socket?password=x", Query),
            ("redis://secret@localhost", UserWithoutPassword),
            ("redis://0.0.0.0", Wildcard),
            ("redis://[::]:6379", Wildcard),
            ("unix://socket", Unreadable),
        ] {
            assert_eq!(read(text), Err(fault), "{text}");
        }
    }
}

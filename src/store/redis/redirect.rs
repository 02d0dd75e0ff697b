use redis::ServerError;

use super::fault;

/// What a server of a Cluster says about a call that is not its own. Nothing ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot belongs to this server.
    Moved(Place),
    /// The slot is on its way to this server, and the key has arrived there, or does not exist yet.
    Ask(Place),
    /// The key is on its way.
    Again,
}

/// A server, as another one names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// `None` if it is the host of the one that names it.
    pub(super) host: Option<String>,
    pub(super) port: u16,
}

impl Redirect {
    pub(super) fn of(error: &ServerError) -> Option<Self> {
        let place = || Place::read(error.details()?.split(' ').nth(1)?);
        match fault::code(error) {
            "MOVED" => place().map(Self::Moved),
            "ASK" => place().map(Self::Ask),
            "TRYAGAIN" => Some(Self::Again),
            _ => None,
        }
    }
}

impl Place {
    /// Reads `HOST:PORT`; an IPv6 address has no brackets there.
    fn read(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Self { host: (!host.is_empty()).then(|| host.to_owned()), port: port.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::fault::tests::server_error;

    #[test]
    fn a_redirect_names_a_server() {
        let place = |host: &str, port| Place { host: (!host.is_empty()).then(|| host.to_owned()), port };
        for (line, redirect) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirect::Moved(place("127.0.0.1", 6381)))),
            ("MOVED 3999 redis.example:6381", Some(Redirect::Moved(place("redis.example", 6381)))),
            ("MOVED 3999 ::1:6381", Some(Redirect::Moved(place("::1", 6381)))),
            ("MOVED 3999 :6381", Some(Redirect::Moved(place("", 6381)))),
            ("ASK 3999 127.0.0.1:6381", Some(Redirect::Ask(place("127.0.0.1", 6381)))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirect::Again)),
            ("CLUSTERDOWN The cluster is down", None),
            ("MOVED", None),
            ("MOVED 3999", None),
            ("MOVED 3999 127.0.0.1", None),
            ("MOVED 3999 127.0.0.1:99999", None),
            ("ERR MOVED 3999 127.0.0.1:6381", None),
        ] {
            assert_eq!(Redirect::of(&server_error(line)), redirect, "{line}");
        }
    }
}

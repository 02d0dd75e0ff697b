#![expect(clippy::missing_panics_doc, reason = "a finding is a panic")]

use redis::Value;

use super::address::{RedisAddress, RedisKind, RedisUrl, Server, Topology};
use super::cluster::fuzzing::cluster;
use super::connect::is_replica;
use super::eviction::policy_that_evicts;
use super::keys::KeyPrefix;
use super::login::Login;
use super::redirect::{Place, Redirect};
use super::{fault, heartbeat, sentinel};
use crate::fuzzing::assert_printable;
use crate::store::scripts;

/// Reads an answer of a server, whatever the question was.
pub fn redis_reply(bytes: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(bytes) else { return };
    let asked = Server::Tcp { host: "asked".to_owned(), port: 6379, is_tls: false };

    if let Err(error) = scripts::reply(&answer, u64::MAX) {
        assert_printable(&error.to_string());
    }
    assert!(heartbeat::read(&answer).is_none_or(|report| report.replicas >= 1));
    cluster(&answer, &asked).into_iter().for_each(check_place);
    sentinel::primary(&answer, &asked).into_iter().for_each(check_place);
    let _ = (sentinel::config_epoch(&answer), is_replica(&answer), policy_that_evicts(&answer));

    if let Value::ServerError(error) = &answer {
        assert_printable(&fault::in_words(error));
        assert_printable(&fault::answered(error).to_string());
        if let Some(Redirect::Moved(place) | Redirect::Ask(place)) = Redirect::of(error) {
            let Place { host, port } = place;
            asked.elsewhere(host.as_deref().unwrap_or("asked"), port).into_iter().for_each(check_place);
        }
    }
}

/// A server that another one names can be shown.
#[expect(clippy::needless_pass_by_value, reason = "it is one of many")]
fn check_place(server: Server) {
    assert_printable(&server.to_string());
}

/// Reads what stands in settings that say where a Redis is, and who we are to it.
pub fn redis_url(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(prefix) = KeyPrefix::new(text) {
        let key = prefix.bucket("{api|tenant=acme}:minute");
        assert_eq!(key.split_once('{').map(|(before, _)| before), Some(text));
    }
    if let Ok(login) = Login::parse(text) {
        assert!(!login.password.is_empty() && login.user.is_none_or(|user| !user.is_empty()));
    }
    let Ok(url) = RedisUrl::parse(text) else { return };
    for kind in [None, Some(RedisKind::Single), Some(RedisKind::Sentinel), Some(RedisKind::Cluster)] {
        for is_tls in [false, true] {
            let Ok(address) = url.clone().address(kind, is_tls) else { continue };
            assert!(kind.is_none_or(|kind| kind == address.kind()));
            check_address(&address);
        }
    }
}

/// A server is shown as a URL that means the same.
fn check_address(address: &RedisAddress) {
    let servers = match &address.topology {
        Topology::Single(server) => std::slice::from_ref(server),
        Topology::Sentinel { sentinels: servers, .. } | Topology::Cluster(servers) => servers,
    };
    assert!(!servers.is_empty());
    for server in servers.iter().filter(|server| matches!(server, Server::Tcp { .. })) {
        let again = RedisAddress::parse(&server.to_string()).map(|address| address.topology);
        assert_eq!(again, Ok(Topology::Single(server.clone())));
    }
}

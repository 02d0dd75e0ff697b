use super::*;

fn read(text: &str) -> Result<String, AddressError> {
    RedisAddress::parse(text).map(|address| shown(&address))
}

/// An address in one line, with all that follows from its text but the login.
fn shown(address: &RedisAddress) -> String {
    let list = |servers: &[Server]| servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let servers = match &address.topology {
        Topology::Single(server) => server.to_string(),
        Topology::Sentinel { sentinels, service } => format!("{service} of {}", list(sentinels)),
        Topology::Cluster(seeds) => format!("cluster of {}", list(seeds)),
    };
    match address.database {
        0 => servers,
        database => format!("{servers} database {database}"),
    }
}

#[test]
fn an_address_has_its_defaults_and_is_shown_without_a_login() {
    for (text, shown) in [
        ("redis://localhost", "redis://localhost:6379"),
        ("REDIS://localhost", "redis://localhost:6379"),
        ("Unix:///run/redis/socket", "unix:///run/redis/socket"),
        ("redis://10.0.0.1:7000/3", "redis://10.0.0.1:7000 database 3"),
        ("redis://:secret@redis:7000", "redis://redis:7000"),
        ("redis://user:se%40cret@[::1]:7000/", "redis://[::1]:7000"),
        ("rediss://user:secret@redis.example", "rediss://redis.example:6379"),
        ("unix:///run/redis/socket", "unix:///run/redis/socket"),
        ("redis+unix:///run/redis?db=2&user=me&pass=secret", "unix:///run/redis database 2"),
        ("redis-sentinel://a,b:1/main", "main of redis://a:26379,redis://b:1"),
        (
            "rediss-sentinel://me:secret@[::1]:7,b/my.main-1_/2",
            "my.main-1_ of rediss://[::1]:7,rediss://b:26379 database 2",
        ),
        ("redis-cluster://:secret@a:7000,b", "cluster of redis://a:7000,redis://b:6379"),
        ("rediss-cluster://a/", "cluster of rediss://a:6379"),
        ("redis-cluster://a/3", "cluster of redis://a:6379 database 3"),
    ] {
        assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
        let debug = format!("{:?} {:?}", RedisAddress::parse(text).unwrap(), RedisUrl::parse(text).unwrap());
        assert!(!debug.contains("cret") && !debug.contains("me:"), "{debug}");
    }
}

#[test]
fn user_password_and_database_are_those_of_the_url() {
    for (text, user, password, database) in [
        ("redis://me:se%40%2f%3acret@redis/5", Some("me"), "se@/:cret", 5),
        ("redis://m%65:x%C3%A4@redis", Some("me"), "xä", 0),
        ("redis://me:se@cr:et@redis", Some("me"), "se@cr:et", 0),
        ("redis-cluster://:secret@redis", None, "secret", 0),
        ("rediss-sentinel://me:secret@redis/main/7", Some("me"), "secret", 7),
        ("unix:///socket?user=me&pass=se%40cret&db=5", Some("me"), "se@cret", 5),
        ("unix:///socket?pass=secret", None, "secret", 0),
    ] {
        let address = RedisAddress::parse(text).unwrap();
        let login = address.login.as_ref().unwrap();
        assert_eq!((login.user.as_deref(), &*login.password, address.database), (user, password, database), "{text}");
    }
    for text in ["redis://redis", "redis://@redis", "redis://:@redis", "unix:///socket"] {
        assert_eq!(RedisAddress::parse(text).unwrap().login, None, "{text}");
    }
}

#[test]
fn a_wrong_url_is_told_what_to_write() {
    use AddressError::{
        Database, Fragment, Query, Scheme, Service, Several, Unreadable, UserWithoutPassword, Wildcard,
    };
    for (text, fault) in [
        ("://localhost", Scheme),
        ("http://localhost", Scheme),
        ("valkey://localhost", Scheme),
        ("redis://", Unreadable),
        ("redis://localhost:99999", Unreadable),
        ("redis://localhost:0", Unreadable),
        ("redis://local%20host", Unreadable),
        ("redis://local host", Unreadable),
        ("redis://me:100%@localhost", Unreadable),
        ("redis://me:%ff@localhost", Unreadable),
        ("redis://:pass/word@localhost", Unreadable),
        ("redis://localhost/first", Database),
        ("redis://localhost/-1", Database),
        ("redis://localhost/1/2", Database),
        ("redis-sentinel://localhost/main/x", Database),
        ("redis-cluster://localhost/main", Database),
        ("unix:///socket?db=-1", Database),
        ("redis://:pass#word@localhost", Fragment),
        ("redis://user:1#2@localhost", Fragment),
        ("rediss://localhost/#insecure", Fragment),
        ("redis://user:1?2@localhost", Query),
        ("redis://localhost?protocol=resp3", Query),
        ("unix:///socket?password=x", Query),
        ("redis://secret@localhost", UserWithoutPassword),
        ("redis-cluster://secret:@localhost", UserWithoutPassword),
        ("unix:///socket?user=me", UserWithoutPassword),
        ("redis://0.0.0.0", Wildcard),
        ("redis-cluster://a,[::]:6379", Wildcard),
        ("unix://socket", Unreadable),
        ("redis://a,b", Several),
        ("redis-sentinel://a,b", Service),
        ("redis-sentinel://a,b/", Service),
        ("redis-sentinel://a,b/my%20main", Service),
        ("redis-sentinel://a,,b/main", Unreadable),
        ("redis-cluster://a,", Unreadable),
    ] {
        assert_eq!(read(text), Err(fault), "{text}");
    }
}

#[test]
fn lists_are_read_as_envoyproxy_ratelimit_writes_them() {
    let read = |text: &str, kind, is_tls| {
        RedisUrl::parse(text).and_then(|url| url.address(kind, is_tls)).map(|address| shown(&address))
    };
    let (single, sentinel, cluster) = (RedisKind::Single, RedisKind::Sentinel, RedisKind::Cluster);
    for (text, kind, is_tls, shown) in [
        ("redis:6379", None, false, "redis://redis:6379"),
        ("redis", Some(single), true, "rediss://redis:6379"),
        ("[::1]:7000", Some(single), false, "redis://[::1]:7000"),
        ("main,a:1,b", Some(sentinel), false, "main of redis://a:1,redis://b:26379"),
        ("main, a:1", Some(sentinel), true, "main of rediss://a:1"),
        ("a:1,b:2 ,c", Some(cluster), true, "cluster of rediss://a:1,rediss://b:2,rediss://c:6379"),
        ("a", Some(cluster), false, "cluster of redis://a:6379"),
        ("redis-cluster://a", Some(cluster), false, "cluster of redis://a:6379"),
        ("redis://a", None, false, "redis://a:6379"),
    ] {
        assert_eq!(read(text, kind, is_tls).as_deref(), Ok(shown), "{text}");
    }
    for (text, kind, fault) in [
        ("", None, AddressError::Scheme),
        ("/run/redis", None, AddressError::Scheme),
        ("a:1,b:1", None, AddressError::Several),
        ("a:1,b:1", Some(single), AddressError::Several),
        ("main", Some(sentinel), AddressError::Service),
        ("a:1,b:2", Some(sentinel), AddressError::Service),
        ("a,,b", Some(cluster), AddressError::List),
        (":secret@a:1", None, AddressError::List),
        ("redis:", None, AddressError::List),
        ("a:x", Some(cluster), AddressError::Unreadable),
        ("redis://a", Some(cluster), AddressError::Kind),
        ("redis-sentinel://a/main", Some(single), AddressError::Kind),
    ] {
        assert_eq!(read(text, kind, false), Err(fault), "{text}");
    }
}

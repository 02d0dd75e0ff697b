//! Where a fault takes place, and what it does there.

use redis::Connection;

use super::super::fleet::Fleet;
use super::mode::policy_of_all;
use super::row::{Row, TIMEOUT};
use super::{REPLICAS, Redis};
use crate::harness::{Proxy, RedisSetup};

/// A Redis, and replicas that share it.
pub(super) struct Scene {
    pub(super) redis: Redis,
    /// A connection from before the fault, past all networks.
    pub(super) console: Connection,
    /// One between each replica and Redis, if the row has them.
    pub(super) networks: Vec<Proxy>,
    pub(super) fleet: Fleet,
}

impl Scene {
    pub(super) fn start(redis: RedisSetup, row: &Row) -> Self {
        let mut redis = redis.start();
        let console = redis.connect();
        if row.starts_without_redis {
            redis.kill();
        }
        let networks: Vec<_> =
            (0..REPLICAS).filter(|_| row.has_networks).map(|_| Proxy::start(redis.address())).collect();
        let address = |replica: u16| networks.get(usize::from(replica)).map_or(redis.address(), |proxy| proxy.address);
        let flags = |replica| {
            let url = format!("--redis-url=redis://{}", address(replica));
            vec![url, format!("--redis-timeout={}ms", TIMEOUT.as_millis()), format!("--replicas={REPLICAS}")]
        };
        let fleet = Fleet::of_each(policy_of_all(), (0..REPLICAS).map(flags));
        Self { redis, console, networks, fleet }
    }

    /// Does a command at the console.
    pub(super) fn command(&mut self, words: &[&str]) {
        redis::cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut self.console).unwrap();
    }
}

type Deed<'a> = Box<dyn Fn(&mut Scene) + 'a>;

/// How a fault begins and ends.
pub(super) struct Fault<'a> {
    /// The only replica that it is a fault for.
    pub(super) of: Option<u16>,
    pub(super) begin: Deed<'a>,
    pub(super) end: Deed<'a>,
}

impl<'a> Fault<'a> {
    pub(super) fn of_all(begin: impl Fn(&mut Scene) + 'a, end: impl Fn(&mut Scene) + 'a) -> Self {
        Self { of: None, begin: Box::new(begin), end: Box::new(end) }
    }

    pub(super) fn only_of(self, replica: u16) -> Self {
        Self { of: Some(replica), ..self }
    }
}

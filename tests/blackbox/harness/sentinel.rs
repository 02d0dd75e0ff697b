//! Sentinels, which see to it that there is always a primary.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Flavour, Redis, RedisSetup, Replicated, wait_for};

/// What the Sentinels call the primary and its replicas.
pub(crate) const SERVICE: &str = "limits";

/// Servers besides the primary.
const REPLICAS: usize = 2;

/// Of three, two must agree.
const SENTINELS: usize = 3;

/// A Sentinel asks for the first sign of life a second after it was told of a primary. If it took a primary for dead
/// before that, each failover would lead to the next.
const DOWN_AFTER_MS: u32 = 1500;

/// Everything that it takes to start three Sentinels and what they watch.
#[derive(Debug)]
pub(crate) struct SentinelSetup {
    servers: Vec<RedisSetup>,
    sentinels: Vec<RedisSetup>,
    /// Of the servers.
    password: Option<String>,
    /// Of the Sentinels.
    sentinel_password: Option<String>,
}

impl SentinelSetup {
    /// On addresses of their own, which nothing listens on yet.
    pub(crate) fn new(flavour: Flavour) -> Self {
        let setups = |count| (0..count).map(|_| RedisSetup::new().flavour(flavour)).collect();
        let (servers, sentinels) = (setups(1 + REPLICAS), setups(SENTINELS));
        Self { servers, sentinels, password: None, sentinel_password: None }
    }

    /// The servers are open only to those who give this password, of letters and digits.
    pub(crate) fn password(mut self, password: &str) -> Self {
        self.servers = self.servers.into_iter().map(|setup| setup.password(password)).collect();
        self.password = Some(password.to_owned());
        self
    }

    /// The Sentinels are open only to those who give this password, of letters and digits.
    pub(crate) fn sentinel_password(mut self, password: &str) -> Self {
        self.sentinels = self.sentinels.into_iter().map(|setup| setup.password(password)).collect();
        self.sentinel_password = Some(password.to_owned());
        self
    }

    /// Where the Sentinels listen.
    pub(crate) fn sentinel_addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(RedisSetup::address).collect()
    }

    /// How Comporta finds the primary, whether anything runs or not.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--redis-url".to_owned(), self.url(&self.sentinel_addresses(), SERVICE)];
        if let Some(password) = &self.sentinel_password {
            flags.extend(["--redis-sentinel-auth".to_owned(), password.clone()]);
        }
        flags
    }

    /// The same of other Sentinels, or of a service of another name.
    pub(crate) fn url(&self, sentinels: &[SocketAddr], service: &str) -> String {
        let user = self.password.as_ref().map_or_else(String::new, |password| format!(":{password}@"));
        let sentinels: Vec<_> = sentinels.iter().map(SocketAddr::to_string).collect();
        format!("redis-sentinel://{user}{}/{service}", sentinels.join(","))
    }

    /// Starts the servers, and then the Sentinels. Waits until the replicas are in sync and every Sentinel knows all.
    pub(crate) fn start(self) -> Sentinels {
        let flags = self.flags();
        let configurations: Vec<_> = self.sentinels.iter().map(|setup| self.configuration(setup)).collect();
        let servers = Replicated::start(self.servers);
        let watchers = self.sentinels.into_iter().zip(configurations);
        let watchers = watchers.map(|(setup, configuration)| setup.sentinel(&configuration).start()).collect();
        let sentinels = Sentinels { servers, watchers, flags };
        sentinels.wait_until_all_are_known();
        sentinels
    }

    fn configuration(&self, sentinel: &RedisSetup) -> String {
        let primary = self.servers[0].address();
        let mut lines = vec![
            format!("announce-ip {}", sentinel.address().ip()),
            format!("monitor {SERVICE} {} {} 2", primary.ip(), primary.port()),
            format!("down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}"),
            format!("failover-timeout {SERVICE} 3000"),
        ];
        lines.extend(self.password.iter().map(|password| format!("auth-pass {SERVICE} {password}")));
        lines.extend(self.sentinel_password.iter().map(|password| format!("sentinel-pass {password}")));
        lines.iter().flat_map(|line| ["sentinel ", line, "\n"]).collect()
    }
}

/// Three Sentinels and what they watch. Dropped, all are killed and reaped.
#[derive(Debug)]
pub(crate) struct Sentinels {
    pub(crate) servers: Replicated,
    watchers: Vec<Redis>,
    flags: Vec<String>,
}

impl Sentinels {
    /// How Comporta finds the primary.
    pub(crate) fn flags(&self) -> Vec<String> {
        self.flags.clone()
    }

    /// One of the three Sentinels.
    pub(crate) fn watcher(&mut self, place: usize) -> &mut Redis {
        &mut self.watchers[place]
    }

    /// Has a replica become the primary although nothing is wrong with the one that is. The Sentinels make that one a
    /// replica too, some seconds later.
    pub(crate) fn fail_over(&self) {
        // There is no good replica until its last sign of life has been heard.
        wait_for("a failover to begin", || {
            let answer = self.watchers[0].try_command::<String>(&["SENTINEL", "FAILOVER", SERVICE]);
            answer.ok().filter(|answer| answer == "OK")
        });
    }

    /// Whether a Sentinel tells of the primary that there is.
    pub(crate) fn is_up_to_date(&self, place: usize) -> bool {
        let told: [String; 2] = self.watchers[place].command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        let primary = self.servers.primary().address();
        told == [primary.ip().to_string(), primary.port().to_string()]
    }

    /// Waits until all Sentinels of these places are up to date.
    pub(crate) fn wait_until_told(&self, places: impl IntoIterator<Item = usize>) {
        for place in places {
            wait_for("a Sentinel to know the primary", || self.is_up_to_date(place).then_some(()));
        }
    }

    fn wait_until_all_are_known(&self) {
        let others = SENTINELS - 1;
        for watcher in &self.watchers {
            wait_for("a Sentinel to know all", || {
                let known: BTreeMap<String, String> = watcher.command(&["SENTINEL", "MASTER", SERVICE]);
                let counts = ["num-slaves", "num-other-sentinels"].map(|name| known[name].parse().ok());
                (counts == [Some(REPLICAS), Some(others)]).then_some(())
            });
        }
    }
}

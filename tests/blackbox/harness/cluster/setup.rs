//! What a Cluster is to be.

use std::net::{SocketAddr, TcpListener};

use super::Cluster;
use crate::harness::free_address;
use crate::harness::redis::{Flavour, RedisSetup};

/// A node listens for the others so far above its own port. Redis 6.2 cannot be told another.
const BUS_OFFSET: u16 = 10_000;

/// Everything that it takes to start three primaries, each of which is to have a third of the slots.
#[derive(Debug)]
pub(crate) struct ClusterSetup {
    flavour: Flavour,
    pub(super) has_replicas: bool,
    password: Option<&'static str>,
    flags: Vec<&'static str>,
    addresses: Vec<SocketAddr>,
}

impl ClusterSetup {
    pub(crate) const SHARDS: usize = 3;

    /// On addresses that nothing listens on yet.
    pub(crate) fn new(flavour: Flavour) -> Self {
        let addresses = (0..Self::SHARDS).map(|_| free_node_address()).collect();
        Self { flavour, has_replicas: false, password: None, flags: Vec::new(), addresses }
    }

    /// Each primary has a replica: that of node 0 is node 3, and so on.
    pub(crate) fn with_replicas(mut self) -> Self {
        self.has_replicas = true;
        self.addresses.extend((0..Self::SHARDS).map(|_| free_node_address()));
        self
    }

    /// Node 3 is a primary that has no slot yet.
    pub(crate) fn with_spare(mut self) -> Self {
        self.addresses.push(free_node_address());
        self
    }

    /// A node that does not answer is taken for dead after a second, and not only after 15 as by default. The nodes also
    /// tell each other more often what is new.
    pub(crate) fn soon_missed(mut self) -> Self {
        self.flags.extend(["--cluster-node-timeout", "1000"]);
        self
    }

    /// While a shard is away, the others go on. By default they do not.
    pub(crate) fn with_partial_coverage(mut self) -> Self {
        self.flags.extend(["--cluster-require-full-coverage", "no"]);
        self
    }

    /// The nodes tell clients the ports of each other, and of their hosts nothing. Redis 6.2 cannot.
    pub(crate) fn without_hosts(mut self) -> Self {
        self.flags.extend(["--cluster-preferred-endpoint-type", "unknown-endpoint"]);
        self
    }

    /// Open only to those who give this password, of letters and digits.
    pub(crate) fn password(mut self, password: &'static str) -> Self {
        self.password = Some(password);
        self
    }

    /// Where the primaries listen, with commas between them.
    pub(crate) fn seeds(&self) -> String {
        let seeds: Vec<_> = self.addresses[..Self::SHARDS].iter().map(SocketAddr::to_string).collect();
        seeds.join(",")
    }

    /// How Comporta finds it, whether it runs or not.
    pub(crate) fn url(&self) -> String {
        let user = self.password.map_or_else(String::new, |password| format!(":{password}@"));
        format!("redis-cluster://{user}{}", self.seeds())
    }

    /// Starts it and waits until it serves all slots.
    pub(crate) fn start(self) -> Cluster {
        let cluster = self.launch();
        cluster.form();
        cluster
    }

    /// Starts servers that do not know of each other and serve no slot. [`Cluster::form`] makes a Cluster of them.
    pub(crate) fn launch(self) -> Cluster {
        let nodes = self.addresses.iter().map(|&address| self.node(address).start()).collect();
        Cluster { setup: self, nodes }
    }

    fn node(&self, address: SocketAddr) -> RedisSetup {
        let mut node = RedisSetup::at(address).flavour(self.flavour);
        if let Some(password) = self.password {
            node = node.password(password);
        }
        node = node.replicating().flags(["--cluster-enabled", "yes"]);
        // A node is known by the address that it connects from, unless it says where it listens.
        node = node.flags(["--cluster-announce-ip", &address.ip().to_string()]);
        // A replica takes over however long ago it has heard of its primary.
        node = node.flags(["--cluster-replica-validity-factor", "0"]);
        node.flags(self.flags.iter().copied())
    }
}

/// An address that is free for a node, and for what the nodes say to each other.
fn free_node_address() -> SocketAddr {
    loop {
        let address = free_address();
        if TcpListener::bind((address.ip(), address.port() + BUS_OFFSET)).is_ok() {
            return address;
        }
    }
}

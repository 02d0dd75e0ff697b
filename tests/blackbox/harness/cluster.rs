//! A real Cluster.

mod members;
mod migration;
mod setup;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

pub(crate) use self::migration::Migration;
pub(crate) use self::setup::ClusterSetup;

use self::members::{id, is_thought_dead, members, order};
use super::redis::{Flavour, Redis};
use super::wait_for;

const SLOTS: u16 = 16_384;

/// Servers that form a Cluster. Dropped, they are killed and reaped.
#[derive(Debug)]
pub(crate) struct Cluster {
    setup: ClusterSetup,
    nodes: Vec<Redis>,
}

impl Cluster {
    pub(crate) fn start(flavour: Flavour) -> Self {
        ClusterSetup::new(flavour).start()
    }

    pub(crate) fn url(&self) -> String {
        self.setup.url()
    }

    /// What it was started with.
    pub(crate) fn setup(&self) -> &ClusterSetup {
        &self.setup
    }

    /// All nodes, primaries first.
    pub(crate) fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    pub(crate) fn node(&self, node: usize) -> &Redis {
        &self.nodes[node]
    }

    /// Kills a node as the kernel would. The others notice it in their time.
    pub(crate) fn kill_node(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts a node again. It has forgotten all keys, but not its place in the Cluster.
    pub(crate) fn restart_node(&mut self, node: usize) {
        self.nodes[node].restart();
    }

    /// Gives the primaries their slots, makes all nodes known to each other and waits until they have agreed.
    pub(crate) fn form(&self) {
        let (primaries, others) = self.nodes.split_at(ClusterSetup::SHARDS);
        for (primary, slots) in primaries.iter().zip(slots_of_shards()) {
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let words: Vec<_> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            primary.command::<()>(&words);
        }
        for (epoch, node) in (1_u16..).zip(&self.nodes) {
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()]);
        }
        for (place, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[..place] {
                let address = other.address();
                node.command::<()>(&["CLUSTER", "MEET", &address.ip().to_string(), &address.port().to_string()]);
            }
        }
        wait_for("the nodes to know each other", || {
            self.nodes.iter().all(|node| members(node).len() == self.nodes.len()).then_some(())
        });
        if self.setup.has_replicas {
            for (replica, primary) in others.iter().zip(primaries) {
                replica.command::<()>(&["CLUSTER", "REPLICATE", &id(primary)]);
            }
        }
        self.wait_until_whole();
    }

    /// Waits until all nodes agree on who serves which slots and has which replicas, and every slot is served and every
    /// replica has what its primary has.
    pub(crate) fn wait_until_whole(&self) {
        let is_whole = |node: &Redis| {
            let cluster: String = node.command(&["CLUSTER", "INFO"]);
            let replication: String = node.command(&["INFO", "replication"]);
            let serves_all =
                cluster.contains("cluster_state:ok") && cluster.contains(&format!("cluster_slots_ok:{SLOTS}\r\n"));
            serves_all && (replication.contains("role:master") || replication.contains("master_link_status:up"))
        };
        wait_for("the Cluster to be whole", || {
            let first = order(&self.nodes[0]);
            let agrees = |node: &Redis| order(node) == first;
            (first.len() == self.nodes.len() && self.nodes.iter().all(|node| agrees(node) && is_whole(node)))
                .then_some(())
        });
    }

    /// Waits until another node takes this one for dead.
    pub(crate) fn wait_until_missed(&self, node: usize) {
        let (node, observer) = (&self.nodes[node], &self.nodes[(node + 1) % ClusterSetup::SHARDS]);
        wait_for("a dead node to be missed", || is_thought_dead(observer, node).then_some(()));
    }

    /// Waits until this node is a primary.
    pub(crate) fn wait_until_primary(&self, node: usize) {
        wait_for("a replica to become a primary", || self.is_primary(node).then_some(()));
    }

    /// Whether it is one, in its own opinion.
    pub(crate) fn is_primary(&self, node: usize) -> bool {
        self.nodes[node].command::<String>(&["INFO", "replication"]).contains("role:master")
    }

    /// Has a replica change places with its primary, as before maintenance, and waits until all know.
    pub(crate) fn failover(&self, replica: usize) {
        self.nodes[replica].command::<()>(&["CLUSTER", "FAILOVER"]);
        self.wait_until_primary(replica);
        self.wait_until_whole();
    }

    /// The slot of each of these keys.
    pub(crate) fn slots(&self, keys: &[impl AsRef<str>]) -> Vec<u16> {
        let mut questions = ::redis::pipe();
        for key in keys {
            questions.cmd("CLUSTER").arg("KEYSLOT").arg(key.as_ref());
        }
        questions.query(&mut self.nodes[0].connect()).unwrap()
    }

    /// The node that serves a key. All nodes run, and the key's slot is not being moved.
    pub(crate) fn owner(&self, key: &str) -> usize {
        let serves = |node: &Redis| node.try_command::<bool>(&["EXISTS", key]).is_ok();
        self.nodes.iter().position(serves).unwrap_or_else(|| panic!("no node serves {key}"))
    }

    /// The move of a key's slot to another node. Nothing has been done yet.
    pub(crate) fn migration(&self, key: &str, to: usize) -> Migration<'_> {
        Migration::new(self, self.slots(&[key])[0], self.owner(key), to)
    }

    /// The keys of each node, in order.
    pub(crate) fn keys(&self) -> Vec<Vec<String>> {
        self.nodes.iter().map(Redis::keys).collect()
    }

    /// How often each kind of error was answered since the start, by all nodes together.
    pub(crate) fn error_counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (error, count) in self.nodes.iter().flat_map(Redis::error_counts) {
            *counts.entry(error).or_default() += count;
        }
        counts
    }
}

/// Which slots are whose at the beginning.
fn slots_of_shards() -> [RangeInclusive<u16>; ClusterSetup::SHARDS] {
    [0..=5_460, 5_461..=10_922, 10_923..=SLOTS - 1]
}

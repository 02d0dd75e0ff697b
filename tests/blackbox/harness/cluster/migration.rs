//! A slot that moves from one shard of a Cluster to another.

use super::{Cluster, id};
use crate::harness::redis::Redis;

/// The steps that `redis-cli --cluster reshard` takes, one after the other, so that a test can stop between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: &'a Redis,
    to: &'a Redis,
}

impl<'a> Migration<'a> {
    pub(super) fn new(cluster: &'a Cluster, slot: u16, from: usize, to: usize) -> Self {
        Self { cluster, slot, from: cluster.node(from), to: cluster.node(to) }
    }

    pub(crate) fn slot(self) -> u16 {
        self.slot
    }

    /// From now on the old owner serves only the keys that it has, and sends those who want another to the new one.
    pub(crate) fn begin(self) {
        self.set_slot(self.to, &["IMPORTING", &id(self.from)]);
        self.set_slot(self.from, &["MIGRATING", &id(self.to)]);
    }

    /// Moves all keys of the slot.
    pub(crate) fn move_keys(self) {
        let (address, slot) = (self.to.address(), self.slot.to_string());
        loop {
            let keys: Vec<String> = self.from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
            if keys.is_empty() {
                return;
            }
            let (host, port) = (address.ip().to_string(), address.port().to_string());
            let mut words = vec!["MIGRATE", &host, &port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            self.from.command::<()>(&words);
        }
    }

    /// Makes the new owner known to all. The old one must have no key of the slot any more.
    pub(crate) fn finish(self) {
        let new_owner = id(self.to);
        self.set_slot(self.to, &["NODE", &new_owner]);
        self.set_slot(self.from, &["NODE", &new_owner]);
        let others = self.cluster.nodes().iter();
        for other in others.filter(|node| ![self.from.address(), self.to.address()].contains(&node.address())) {
            self.set_slot(other, &["NODE", &new_owner]);
        }
    }

    fn set_slot(self, node: &Redis, state: &[&str]) {
        let slot = self.slot.to_string();
        node.command::<()>(&[&["CLUSTER", "SETSLOT", &slot], state].concat());
    }
}

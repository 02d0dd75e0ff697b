use std::sync::Arc;

use redis::{Cmd, ToRedisArgs, Value};

use super::address::{RedisAddress, Server, Topology};
use super::cluster::Cluster;
use super::connect::{Connector, Target};
use super::door::Door;
use super::link::Link;
use super::node::{Common, Node};
use super::script::Invocation;
use super::sentinel::Sentinels;
use crate::store::{ServerReport, StoreError};

/// The way from a key to its server.
#[derive(Debug)]
pub(super) enum Route {
    /// One server has all keys.
    One(Node),
    Cluster(Cluster),
}

impl Route {
    /// Begins to connect.
    pub(super) fn start(address: &RedisAddress, door: Door, sentinel_door: &Door, common: Arc<Common>) -> Self {
        let target = match &address.topology {
            Topology::Cluster(seeds) => {
                return Self::Cluster(Cluster::start(seeds, door, common));
            }
            Topology::Single(server) => Target::Primary(server.clone()),
            Topology::Sentinel { sentinels, service } => {
                Target::Elected(Sentinels::new(sentinels, service, sentinel_door))
            }
        };
        Self::One(Node::start(Connector { target, door, common }))
    }

    /// Runs a script. If there is a connection, the first poll puts it on its way.
    pub(super) async fn run(&self, invocation: &Invocation<'_, impl ToRedisArgs>) -> Result<Value, StoreError> {
        match self {
            Self::One(node) => node.link.run(invocation, false, || {}).await.map_err(|failure| failure.error),
            Self::Cluster(cluster) => cluster.run(invocation).await,
        }
    }

    /// Does a command on a key.
    pub(super) async fn command(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        match self {
            Self::One(node) => node.link.command(command).await.map_err(|failure| failure.error),
            Self::Cluster(cluster) => cluster.command(key, command).await,
        }
    }

    /// The server of a key, as far as is known.
    pub(super) fn server(&self, key: &str) -> Option<Server> {
        match self {
            Self::One(node) => node.link.server(),
            Self::Cluster(cluster) => cluster.server(key),
        }
    }

    /// Waits for a connection to the server of a key, however long it takes. False if there will never be one again.
    pub(super) async fn wait_until_up(&self, key: &str) -> bool {
        match self {
            Self::One(node) => node.link.wait_until_up().await,
            Self::Cluster(cluster) => cluster.wait_until_up(key).await,
        }
    }

    /// The link to the server of a key, if it is known which that is.
    pub(super) fn link(&self, key: &str) -> Option<Arc<Link>> {
        match self {
            Self::One(node) => Some(Arc::clone(&node.link)),
            Self::Cluster(cluster) => cluster.link(key),
        }
    }

    pub(super) fn servers(&self) -> Vec<ServerReport> {
        match self {
            Self::One(node) => vec![node.link.report()],
            Self::Cluster(cluster) => cluster.servers(),
        }
    }

    /// Whether all servers are asked.
    pub(super) fn is_asked(&self) -> bool {
        match self {
            Self::One(node) => node.link.is_asked(),
            Self::Cluster(cluster) => cluster.is_asked(),
        }
    }

    /// The same, in words for people.
    pub(super) fn condition(&self) -> String {
        match self {
            Self::One(node) => node.link.trouble().unwrap_or_else(|| "asked".to_owned()),
            Self::Cluster(cluster) => cluster.condition(),
        }
    }

    /// Waits until the first attempt to connect has ended, whether or not it has succeeded.
    pub(super) async fn tried(&self) {
        match self {
            Self::One(node) => node.link.tried().await,
            Self::Cluster(cluster) => cluster.tried().await,
        }
    }
}

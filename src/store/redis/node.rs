use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::background::BackgroundTask;
use super::connect::Connector;
use super::keeper::Keeper;
use super::link::{Link, LinkState};
use super::script::{Invocation, PreparedScript};
use super::traffic::Traffic;
use crate::breaker::Breaker;
use crate::store::StoreError;
use crate::store::scripts::Arguments;

/// A server, or whichever is the primary, with a connection that is kept and a breaker. Dropped, it closes the connection.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) link: Arc<Link>,
    _keeper: BackgroundTask,
    _breaker: BackgroundTask,
}

/// What all connections have in common.
#[derive(Debug)]
pub(super) struct Common {
    /// The number of the database; a new connection has 0.
    pub(super) database: u32,
    pub(super) scripts: Vec<Arc<PreparedScript>>,
    pub(super) probe: Probe,
    /// How long a call waits for a connection when there is none. An answer that takes longer is late.
    pub(super) patience: Duration,
    /// How long an answer is waited for.
    pub(super) longest_call: Duration,
}

/// What a server is asked to find out whether it answers again: the script of a bucket, on a key of no bucket.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) script: Arc<PreparedScript>,
    pub(super) key: String,
    pub(super) arguments: Arguments,
}

impl Node {
    /// Begins to connect.
    pub(super) fn start(connector: Connector) -> Self {
        let (common, name) = (Arc::clone(&connector.common), connector.target.to_string());
        let not_yet = StoreError::Unreachable(format!("{name}: not connected yet"));
        let (state, link_state) = watch::channel(LinkState::Down(not_yet));
        let keeper = Keeper { connector, call_bound: common.longest_call, state };
        let link = Arc::new(Link {
            name,
            state: link_state,
            patience: common.patience,
            breaker: Breaker::default(),
            traffic: Traffic::default(),
        });
        let breaker = {
            let link = Arc::clone(&link);
            async move {
                let Probe { script, key, arguments } = &common.probe;
                let probe = Invocation { script, key, arguments };
                tokio::join!(
                    link.breaker.run(&link.name, || link.comes_up(), || link.possible(), || link.answers(&probe)),
                    link.count_failed_attempts()
                );
            }
        };
        Self { link, _keeper: BackgroundTask::spawn(keeper.run()), _breaker: BackgroundTask::spawn(breaker) }
    }
}

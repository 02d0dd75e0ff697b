use std::time::Duration;

use tokio::sync::watch;

use super::background::BackgroundTask;
use super::connect::Connector;
use super::keeper::Keeper;
use super::link::{Link, LinkState};
use crate::store::StoreError;

/// A server, or whichever is the primary, with a connection that is kept. Dropped, it closes the connection.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) link: Link,
    _keeper: BackgroundTask,
}

/// How long calls wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For a connection when there is none. An answer that takes longer is late.
    pub(super) connection: Duration,
    /// For an answer.
    pub(super) answer: Duration,
}

impl Node {
    /// Begins to connect.
    pub(super) fn start(connector: Connector, patience: Patience) -> Self {
        let not_yet = StoreError::Unreachable(format!("{}: not connected yet", connector.target));
        let (state, link_state) = watch::channel(LinkState::Down(not_yet));
        let keeper = Keeper { connector, call_bound: patience.answer, state };
        let link = Link { state: link_state, patience: patience.connection };
        Self { link, _keeper: BackgroundTask::spawn(keeper.run()) }
    }
}

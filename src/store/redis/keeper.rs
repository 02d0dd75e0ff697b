use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::select;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::backoff::Backoff;
use super::connect::{Connector, Opened};
use super::link::{Connection, LinkState};
use crate::store::StoreError;

/// A connection that has lived for so long was a good one: after it, the next attempt follows at once.
const LASTING: Duration = Duration::from_millis(100);

/// Sees to it that there is a connection: opens one, waits until it breaks, and opens the next.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) connector: Connector,
    /// The longest that a call is waited for.
    pub(super) call_bound: Duration,
    pub(super) state: watch::Sender<LinkState>,
}

impl Keeper {
    pub(super) async fn run(mut self) {
        let mut down_since: Option<Instant> = None;
        let mut has_told_of_eviction = false;
        let mut backoff = Backoff::default();
        loop {
            let mut opened = self.connect(&mut backoff).await;
            let server = opened.server.clone();
            match down_since {
                None => info!("connected to {server}"),
                Some(since) => info!("connected to {server} again, after {:.1} s", since.elapsed().as_secs_f64()),
            }
            if let Some(policy) = opened.eviction.take()
                && !mem::replace(&mut has_told_of_eviction, true)
            {
                warn!(
                    "{server} may forget limits when its memory is full (maxmemory-policy {policy}), and lets up to a \
                     burst more through for each; set maxmemory-policy to noeviction"
                );
            }

            let up_since = Instant::now();
            let cause = self.serve(opened).await;
            warn!("lost the connection to {server}: {cause}");
            self.state.send_replace(LinkState::Down(StoreError::Unreachable(format!("{server}: {cause}"))));
            down_since = Some(Instant::now());
            // One that breaks at once is no better than one that cannot be opened.
            if up_since.elapsed() >= LASTING {
                backoff = Backoff::default();
            }
        }
    }

    /// Tries until there is a connection. What hinders it is told once, and again if it is of another kind.
    async fn connect(&mut self, backoff: &mut Backoff) -> Opened {
        let mut told = None;
        loop {
            sleep(backoff.next()).await;
            let error = match self.connector.open().await {
                Ok(opened) => return opened,
                Err(error) => error,
            };
            if told.replace(mem::discriminant(&error)) == Some(mem::discriminant(&error)) {
                debug!("{error}");
            } else {
                warn!("{error}; trying again until it is there");
            }
            self.state.send_replace(LinkState::Down(error));
        }
    }

    /// Lets calls have a connection until it breaks or another one is wanted, and says why.
    async fn serve(&mut self, opened: Opened) -> String {
        let Opened { server, connection: client, mut driver, .. } = opened;
        let (connection, cause_to_give_up) = Connection::new(client.clone(), self.call_bound);
        let connection = Arc::new(connection);
        self.state.send_replace(LinkState::Up(Arc::clone(&connection)));
        let cause = select! {
            cause = cause_to_give_up => return cause.unwrap_or_default(),
            _ = driver.join_next() => "the server has closed it".to_owned(),
            cause = self.connector.outlive(&server, client) => cause,
        };
        connection.give_up(&cause);
        cause
    }
}

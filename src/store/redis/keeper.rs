use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::select;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::backoff::Backoff;
use super::connect::{Connector, Opened};
use super::door::Entered;
use super::link::{Connection, Ending, LinkState};
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
            let ending = self.serve(opened).await;
            warn!("lost the connection to {server}: {ending}");
            self.state.send_replace(LinkState::Down(StoreError::Unreachable(format!("{server}: {ending}"))));
            down_since = Some(Instant::now());
            // One that breaks at once is no better than one that cannot be opened; and a replica that does not say that it
            // is one may be met again and again.
            let lasting = if matches!(ending, Ending::ReadOnly) { 100 * LASTING } else { LASTING };
            if up_since.elapsed() >= lasting {
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
    async fn serve(&mut self, opened: Opened) -> Ending {
        let Opened { server, entered: Entered { connection: client, mut driver }, .. } = opened;
        let (connection, given_up) = Connection::new(server.clone(), client.clone(), self.call_bound);
        let connection = Arc::new(connection);
        self.state.send_replace(LinkState::Up(Arc::clone(&connection)));
        let closed = || Ending::Broken("the server has closed it".to_owned());
        let ending = select! {
            ending = given_up => ending.unwrap_or_else(|_| closed()),
            _ = driver.join_next() => closed(),
            ending = self.connector.outlive(&server, client) => ending,
        };
        connection.give_up(ending.clone());
        if !matches!(ending, Ending::Broken(_)) {
            // Who waits for an answer still gets it.
            let bound = self.call_bound;
            tokio::spawn(async move { timeout(bound, driver.join_next()).await });
        }
        ending
    }
}

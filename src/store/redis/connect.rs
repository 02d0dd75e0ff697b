use std::future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ServerError, Value};
use tokio::select;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::address::Server;
use super::door::{Door, Entered};
use super::link::Ending;
use super::node::Common;
use super::sentinel::Sentinels;
use super::{eviction, fault};
use crate::store::StoreError;

/// A new login that a server has refused is shown to it again after so long: perhaps it is told of it only then.
const LOGIN_AGAIN: Duration = Duration::from_secs(5);

/// Opens connections that calls are made on.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) target: Target,
    pub(super) door: Door,
    pub(super) common: Arc<Common>,
}

/// The server to connect to.
#[derive(Debug)]
pub(super) enum Target {
    /// One that must be a primary.
    Primary(Server),
    /// The one that the Sentinels say is the primary.
    Elected(Sentinels),
    /// One of a Cluster. It says itself which keys are not its own.
    Member(Server),
}

/// A connection that is ready for calls.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) server: Server,
    pub(super) entered: Entered,
    /// How the server evicts our keys, if it may.
    pub(super) eviction: Option<String>,
}

impl Connector {
    /// Nothing that this sends matters if it is lost.
    pub(super) async fn open(&mut self) -> Result<Opened, StoreError> {
        let bound = self.door.timeout;
        if let Ok(opened) = timeout(bound, self.open_unbounded()).await {
            return opened;
        }
        let cause = format!("{}: no connection within {bound:?}; {}", self.target, self.target.suspicion());
        Err(StoreError::Unreachable(cause))
    }

    /// Keeps a connection to a server what it was when it was opened: one to the primary, under the login that counts.
    /// Returns why it can no longer be used.
    pub(super) async fn outlive(&mut self, server: &Server, mut connection: MultiplexedConnection) -> Ending {
        let Self { target, door, .. } = self;
        let mut moved = pin!(async {
            match target {
                Target::Elected(sentinels) => sentinels.moved_from(server).await,
                Target::Primary(_) | Target::Member(_) => future::pending().await,
            }
        });
        let mut is_refused = false;
        loop {
            select! {
                primary = &mut moved => return Ending::Moved(primary),
                () = door.login.changed() => {}
                () = sleep(LOGIN_AGAIN), if is_refused => {}
            }
            let refusal = door.log_in_anew(server, &mut connection).await.err();
            if let Some(error) = &refusal
                && !is_refused
            {
                warn!("the new login is not taken, and the old one is kept: {error}");
            }
            is_refused = refusal.is_some();
        }
    }

    async fn open_unbounded(&mut self) -> Result<Opened, StoreError> {
        let server = match &mut self.target {
            Target::Primary(server) | Target::Member(server) => server.clone(),
            Target::Elected(sentinels) => sentinels.primary().await?,
        };
        let mut entered = self.door.enter(&server).await?;
        let connection = &mut entered.connection;
        if self.common.database != 0 {
            let selected = connection.send_packed_command(redis::cmd("SELECT").arg(self.common.database)).await;
            if let Value::ServerError(error) = selected.map_err(|error| self.door.unreachable(&server, &error))? {
                return Err(self.not_selected(&server, &error));
            }
        }
        let mut setup = redis::pipe();
        setup.cmd("ROLE");
        for script in &self.common.scripts {
            setup.add_command(script.load());
        }
        setup.cmd("CONFIG").arg("GET").arg("maxmemory*");
        let replies = connection
            .send_packed_commands(&setup, 0, setup.len())
            .await
            .map_err(|error| self.door.unreachable(&server, &error))?;
        for reply in &replies {
            match reply {
                Value::ServerError(error) if error.code() == "NOAUTH" => return Err(self.door.refused(&server, error)),
                // Managed services forbid some of it, and a server that is loading does nothing yet; scripts also go with
                // the calls.
                Value::ServerError(error) => debug!("{server} does not prepare for calls: {}", fault::in_words(error)),
                _ => {}
            }
        }
        if !matches!(self.target, Target::Member(_)) && replies.first().is_some_and(is_replica) {
            let cause = "it is a read-only replica, and the primary is wanted";
            return Err(self.door.error(&server, StoreError::Misrouted, cause));
        }
        let eviction = replies.last().and_then(eviction::policy_that_evicts);
        Ok(Opened { server, entered, eviction })
    }

    fn not_selected(&self, server: &Server, error: &ServerError) -> StoreError {
        if error.code() == "NOAUTH" {
            return self.door.refused(server, error);
        }
        let cause = format!("{}; the database is the number at the end of --redis-url", fault::in_words(error));
        self.door.error(server, StoreError::Refused, &cause)
    }
}

impl Target {
    /// What may be wrong with a server that says nothing. One that is spoken to in the wrong way waits for more.
    fn suspicion(&self) -> &'static str {
        match self {
            Self::Primary(server) | Self::Member(server) if server.is_tls() => {
                "it is far or busy, or does not speak TLS, as rediss wants it"
            }
            Self::Primary(_) | Self::Member(_) => "it is far or busy, or wants TLS: give rediss in place of redis then",
            Self::Elected(_) => "the Sentinels or the primary are far or busy, or TLS is spoken on one side only",
        }
    }
}

/// Whether the answer to `ROLE` is a replica's.
pub(super) fn is_replica(role: &Value) -> bool {
    match role {
        Value::Array(parts) => matches!(parts.first(), Some(Value::BulkString(name)) if name == b"slave"),
        _ => false,
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Primary(server) | Self::Member(server) => server.fmt(f),
            Self::Elected(sentinels) => sentinels.fmt(f),
        }
    }
}

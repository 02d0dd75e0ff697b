use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, ServerError, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use super::address::RedisAddress;
use super::script::PreparedScript;
use super::{eviction, fault, stream};
use crate::store::StoreError;

/// So many commands can be waiting to be written before the next one has to wait for a place. They take their places in
/// order, so this only bounds memory.
const MOST_WAITING: usize = 16_384;

/// Opens connections to one Redis.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) address: RedisAddress,
    /// For everything from the name of the host to the scripts.
    pub(super) timeout: Duration,
    pub(super) scripts: Vec<Arc<PreparedScript>>,
}

/// A connection that is ready for calls.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: MultiplexedConnection,
    /// Moves the bytes. It ends when the connection does; dropped, it ends the connection.
    pub(super) driver: JoinSet<()>,
    /// How the server evicts our keys, if it may.
    pub(super) eviction: Option<String>,
}

impl Connector {
    /// Nothing that this sends matters if it is lost.
    pub(super) async fn open(&self) -> Result<Opened, StoreError> {
        match timeout(self.timeout, self.open_unbounded()).await {
            Ok(opened) => opened,
            Err(_) => Err(self.unreachable(&format!("no connection within {:?}", self.timeout))),
        }
    }

    async fn open_unbounded(&self) -> Result<Opened, StoreError> {
        let stream = stream::open(self.address.server()).await.map_err(|error| self.unreachable(&error))?;
        // Who calls bounds each call, and must know when the bound was reached.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(MOST_WAITING);
        let identity = self.address.identity();
        let (mut connection, bytes_mover) = MultiplexedConnection::new_with_config(identity, stream, config)
            .await
            .map_err(|error| self.not_let_in(&error))?;
        let mut driver = JoinSet::new();
        driver.spawn(bytes_mover);

        if self.address.database() != 0 {
            let selected = connection.send_packed_command(redis::cmd("SELECT").arg(self.address.database())).await;
            if let Value::ServerError(error) = selected.map_err(|error| self.unreachable(&error))? {
                return Err(self.not_selected(&error));
            }
        }
        let mut setup = redis::pipe();
        for script in &self.scripts {
            setup.add_command(script.load());
        }
        setup.cmd("CONFIG").arg("GET").arg("maxmemory*");
        let replies =
            connection.send_packed_commands(&setup, 0, setup.len()).await.map_err(|error| self.unreachable(&error))?;
        for reply in &replies {
            if let Value::ServerError(error) = reply {
                self.check(error)?;
            }
        }
        let eviction = replies.last().and_then(eviction::policy_that_evicts);
        Ok(Opened { connection, driver, eviction })
    }

    /// Whether we can go on although the server does not keep a script, or does not tell its settings. Managed services
    /// forbid both, and a server that is loading does neither yet; scripts also go with the calls.
    fn check(&self, error: &ServerError) -> Result<(), StoreError> {
        let is_full = error.details().is_some_and(|details| details.starts_with("max number of clients"));
        if is_full || error.code() == "NOAUTH" {
            return Err(self.refused(&fault::in_words(error)));
        }
        debug!("{} does not prepare for calls: {}", self.address, fault::in_words(error));
        Ok(())
    }

    fn not_selected(&self, error: &ServerError) -> StoreError {
        let words = fault::in_words(error);
        match error.code() {
            "NOAUTH" => self.refused(&words),
            _ => self.refused(&format!("{words}; the database is the number at the end of --redis-url")),
        }
    }

    fn not_let_in(&self, error: &RedisError) -> StoreError {
        match error.kind() {
            ErrorKind::AuthenticationFailed => {
                self.refused("the user or the password is wrong; correct them in --redis-url")
            }
            _ => self.unreachable(error),
        }
    }

    fn unreachable(&self, cause: &impl ToString) -> StoreError {
        StoreError::Unreachable(self.named(&cause.to_string()))
    }

    fn refused(&self, cause: &str) -> StoreError {
        StoreError::Refused(self.named(cause))
    }

    /// A cause with the server's address. Some servers repeat what they were sent, and that may have been the password.
    fn named(&self, cause: &str) -> String {
        if self.address.password_is_in(cause) {
            return format!("{}: the server's answer has the password in it, and is not shown", self.address);
        }
        format!("{}: {}", self.address, fault::one_line(cause))
    }
}

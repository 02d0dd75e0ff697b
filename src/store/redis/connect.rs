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
            Err(_) => Err(self.unreachable(format!("no connection within {:?}", self.timeout))),
        }
    }

    async fn open_unbounded(&self) -> Result<Opened, StoreError> {
        let stream = stream::open(self.address.server()).await.map_err(|error| self.unreachable(error.to_string()))?;
        // Who calls bounds each call, and must know when the bound was reached.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(MOST_WAITING);
        let identity = self.address.identity();
        let (mut connection, bytes_mover) = MultiplexedConnection::new_with_config(identity, stream, config)
            .await
            .map_err(|error| self.not_let_in(&error))?;
        let mut driver = JoinSet::new();
        driver.spawn(bytes_mover);

        let mut setup = redis::pipe();
        for script in &self.scripts {
            setup.add_command(script.load());
        }
        setup.cmd("CONFIG").arg("GET").arg("maxmemory*");
        let replies = connection
            .send_packed_commands(&setup, 0, setup.len())
            .await
            .map_err(|error| self.unreachable(error.to_string()))?;
        self.check_setup(&replies)?;
        let eviction = replies.last().and_then(eviction::policy_that_evicts);
        Ok(Opened { connection, driver, eviction })
    }

    /// Whether the server lets us in. That it does not keep scripts, or tell its settings, is no hindrance: managed
    /// services forbid both, a server that is loading does neither yet, and scripts also go with the calls.
    fn check_setup(&self, replies: &[Value]) -> Result<(), StoreError> {
        for reply in replies {
            let Value::ServerError(error) = reply else { continue };
            if shuts_us_out(error) {
                return Err(match fault::answered(error) {
                    StoreError::Refused(text) => self.refused(&text),
                    other => self.refused(&other.to_string()),
                });
            }
            debug!("{} does not prepare for calls: {}", self.address, fault::in_words(error));
        }
        Ok(())
    }

    fn not_let_in(&self, error: &RedisError) -> StoreError {
        match error.kind() {
            ErrorKind::AuthenticationFailed => {
                self.refused("the user or the password is wrong; correct them in --redis-url")
            }
            // The answer to SELECT.
            ErrorKind::Server(_) => self.refused(&format!("{error}; the database is the number after the /")),
            _ => self.unreachable(error.to_string()),
        }
    }

    fn unreachable(&self, cause: String) -> StoreError {
        StoreError::Unreachable(self.named(&cause))
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

fn shuts_us_out(error: &ServerError) -> bool {
    error.code() == "NOAUTH" || error.details().is_some_and(|details| details.starts_with("max number of clients"))
}

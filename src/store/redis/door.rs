use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, ServerError, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::address::Server;
use super::login::{CurrentLogin, Login};
use super::tls::{self, TlsSettings};
use super::{fault, stream};
use crate::store::StoreError;

/// So many commands can be waiting to be written before the next one has to wait for a place. They take their places in
/// order, so this only bounds memory.
const MOST_WAITING: usize = 16_384;

/// How we get in to servers of one kind.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) tls: TlsSettings,
    pub(super) login: CurrentLogin,
    /// For everything from the name of the host until a connection can be used. Who enters bounds it.
    pub(super) timeout: Duration,
}

/// We are in.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) connection: MultiplexedConnection,
    /// Moves the bytes. It ends when the connection does; dropped, it ends the connection.
    pub(super) driver: JoinSet<()>,
}

impl Door {
    /// Connects and logs in. It takes as long as it takes.
    pub(super) async fn enter(&mut self, server: &Server) -> Result<Entered, StoreError> {
        let login = self.login.get();
        let stream = stream::open(server, &self.tls)
            .await
            .map_err(|error| self.told(server, StoreError::Unreachable, &tls::explain(&error)))?;
        // Who calls bounds each call, and must know when the bound was reached.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(MOST_WAITING);
        let entered = MultiplexedConnection::new_with_config(&identity(login.as_deref()), stream, config).await;
        let (connection, bytes_mover) = entered.map_err(|error| self.not_let_in(server, &error))?;
        let mut driver = JoinSet::new();
        driver.spawn(bytes_mover);
        Ok(Entered { connection, driver })
    }

    /// Logs in anew on a connection that is open.
    pub(super) async fn show_login(&mut self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let Some(login) = self.login.get() else { return Ok(()) };
        let mut command = redis::cmd("AUTH");
        if let Some(user) = &login.user {
            command.arg(user);
        }
        command.arg(&login.password);
        match timeout(self.timeout, connection.send_packed_command(&command)).await {
            Ok(Ok(Value::ServerError(error))) => Err(self.withheld(&fault::in_words(&error))),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.withheld(&error.to_string())),
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }

    /// A server that does not do what it must before it is used.
    pub(super) fn refused(&self, server: &Server, error: &ServerError) -> StoreError {
        let mut cause = fault::in_words(error);
        if error.code() == "NOAUTH" {
            cause = format!("{cause}: give one in {}", self.login.setting);
        }
        self.told(server, StoreError::Refused, &cause)
    }

    /// A connection that broke before it was used.
    pub(super) fn unreachable(&self, server: &Server, error: &RedisError) -> StoreError {
        self.told(server, StoreError::Unreachable, &explain(error))
    }

    fn not_let_in(&self, server: &Server, error: &RedisError) -> StoreError {
        match error.kind() {
            ErrorKind::AuthenticationFailed => {
                let cause = format!("the user or the password is wrong; correct them in {}", self.login.setting);
                self.told(server, StoreError::Refused, &cause)
            }
            _ if error.is_connection_dropped() && !server.is_tls() => {
                let cause = format!("{error}; a server that wants TLS does so: give rediss in place of redis then");
                self.told(server, StoreError::Unreachable, &cause)
            }
            _ => self.unreachable(server, error),
        }
    }

    /// A cause with the server's address.
    pub(super) fn told(&self, server: &Server, kind: fn(String) -> StoreError, cause: &str) -> StoreError {
        kind(format!("{server}: {}", self.withheld(cause)))
    }

    /// A cause that is fit for the log. Some servers repeat what they were sent, and that may have been the password.
    fn withheld(&self, cause: &str) -> String {
        if self.login.password_is_in(cause) {
            return "the server's answer has the password in it, and is not shown".to_owned();
        }
        fault::one_line(cause)
    }
}

fn identity(login: Option<&Login>) -> RedisConnectionInfo {
    let nobody = RedisConnectionInfo::default().set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    match login {
        None => nobody,
        Some(Login { user: None, password }) => nobody.set_password(password),
        Some(Login { user: Some(user), password }) => nobody.set_username(user).set_password(password),
    }
}

/// What the client says went wrong. It wraps what the way to the server says, twice.
fn explain(error: &RedisError) -> String {
    let wrapped = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let of_way = wrapped.and_then(|wrapped| wrapped.downcast_ref::<io::Error>());
    of_way.map_or_else(|| error.to_string(), tls::explain)
}

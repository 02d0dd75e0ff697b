use std::io;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, ServerError, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::info;

use super::address::Server;
use super::login::CurrentLogin;
use super::tls::{self, TlsSettings};
use super::{fault, greeting, stream};
use crate::store::StoreError;

/// So many commands can be waiting to be written before the next one has to wait for a place. They take their places in
/// order, so this only bounds memory.
const MOST_WAITING: usize = 16_384;

/// How we get in to servers of one kind.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) tls: TlsSettings,
    pub(super) login: CurrentLogin,
    /// For everything from the name of the host until a connection can be used.
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
    /// Connects and logs in. The timeout is for the caller to apply.
    pub(super) async fn enter(&mut self, server: &Server) -> Result<Entered, StoreError> {
        let mut stream = stream::open(server, &self.tls).await.map_err(|error| self.no_way(server, &error))?;
        let greeting = greeting::exchange(&mut stream).await.map_err(|error| self.no_way(server, &error))?;
        if let Some(refusal) = greeting.refusal() {
            return Err(self.error(server, StoreError::Refused, refusal));
        }
        // Who calls bounds each call, and must know when the bound was reached. The client forgets what a server says to a
        // login, so we log in ourselves.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(MOST_WAITING);
        let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (mut connection, bytes_mover) = MultiplexedConnection::new_with_config(&nobody, stream, config)
            .await
            .map_err(|error| self.unreachable(server, &error))?;
        let mut driver = JoinSet::new();
        driver.spawn(bytes_mover);
        self.introduce(server, &mut connection).await?;
        Ok(Entered { connection, driver })
    }

    /// Logs in anew on a connection that is open. If the server does not let us, the connection remains as it was.
    pub(super) async fn log_in_anew(
        &mut self,
        server: &Server,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        let bound = self.timeout;
        let introduced = timeout(bound, self.introduce(server, connection)).await;
        introduced.unwrap_or_else(|_| Err(StoreError::Lost(format!("{server}: no answer within {bound:?}"))))?;
        info!("logged in to {server} anew");
        Ok(())
    }

    /// Logs in, if there is a login, and says what we are, for those who list clients.
    async fn introduce(&mut self, server: &Server, connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
        let login = self.login.get();
        let mut introduction = redis::pipe();
        if let Some(login) = &login {
            introduction.cmd("AUTH").arg(login.user.as_deref()).arg(&login.password);
        }
        for (field, value) in [("LIB-NAME", env!("CARGO_PKG_NAME")), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
            introduction.cmd("CLIENT").arg("SETINFO").arg(field).arg(value);
        }
        let replies = connection
            .send_packed_commands(&introduction, 0, introduction.len())
            .await
            .map_err(|error| self.unreachable(server, &error))?;
        match replies.first() {
            Some(Value::ServerError(error)) if login.is_some() => Err(self.refused(server, error)),
            // Servers before 7.2 do not know of this, and users may not be allowed to; nothing depends on it.
            _ => Ok(()),
        }
    }

    /// A server that does not do what it must before it is used.
    pub(super) fn refused(&self, server: &Server, error: &ServerError) -> StoreError {
        let setting = self.login.setting;
        let cause = match error.code() {
            "WRONGPASS" => format!("the user or the password is wrong; correct them in {setting}"),
            "NOAUTH" => format!("{}: give one in {setting}", fault::in_words(error)),
            _ => fault::in_words(error),
        };
        self.error(server, StoreError::Refused, &cause)
    }

    /// A connection that broke before it was used.
    pub(super) fn unreachable(&self, server: &Server, error: &RedisError) -> StoreError {
        self.error(server, StoreError::Unreachable, &error.to_string())
    }

    fn no_way(&self, server: &Server, error: &io::Error) -> StoreError {
        let mut cause = tls::explain(error);
        let is_cut_off = matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof);
        if is_cut_off && matches!(server, Server::Tcp { is_tls: false, .. }) {
            cause.push_str("; a server that wants TLS does so: give rediss in place of redis then");
        }
        self.error(server, StoreError::Unreachable, &cause)
    }

    /// An error with the server's address, fit for the log. Some servers repeat what they were sent, and that may have been
    /// the password.
    pub(super) fn error(&self, server: &Server, kind: fn(String) -> StoreError, cause: &str) -> StoreError {
        if self.login.password_is_in(cause) {
            return kind(format!("{server}: the server's answer has the password in it, and is not shown"));
        }
        kind(format!("{server}: {}", fault::one_line(cause)))
    }
}

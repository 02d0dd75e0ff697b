use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, ServerErrorKind, ToRedisArgs, Value};
use tokio::sync::{oneshot, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};

use super::address::Server;
use super::fault;
use super::redirect::Redirect;
use super::script::Invocation;
use super::traffic::Traffic;
use crate::breaker::Breaker;
use crate::store::{Outcome, ServerReport, StoreError};

/// The connection that all calls share, whichever it is at the moment.
///
/// **A call whose fate is unknown is never sent again.** It is sent on the one connection that it has been given, by a
/// client that does not repeat anything: [`MultiplexedConnection`] answers each command with what came back for it, or
/// with an error once its connection has ended; it is the client's `ConnectionManager` and its client for a Cluster that
/// try again, and neither is used here. The only commands that follow another are the script's text after `NOSCRIPT`,
/// which says that nothing ran; and in a Cluster the same to another server, when this one says that it is the other's.
#[derive(Debug)]
pub(super) struct Link {
    /// The server's, for people.
    pub(super) name: String,
    pub(super) state: watch::Receiver<LinkState>,
    /// How long a call waits for a connection when there is none. An answer that takes longer is late, and a failure for the
    /// breaker; but it is still waited for, because it may bring hits for others.
    pub(super) patience: Duration,
    pub(super) breaker: Breaker,
    pub(super) traffic: Traffic,
}

const NO_CONNECTION: &str = "there is no connection";

/// Why a call has no result.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    /// Where in a Cluster it may have one. Nothing ran then.
    pub(super) redirect: Option<Redirect>,
}

impl Failure {
    /// Nothing came from the server.
    fn is_silence(&self) -> bool {
        matches!(self.error, StoreError::Unreachable(_) | StoreError::Lost(_))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self { error, redirect: None }
    }
}

#[derive(Clone, Debug)]
pub(super) enum LinkState {
    Up(Arc<Connection>),
    /// There is none, for this reason.
    Down(StoreError),
}

impl Link {
    /// Runs a script. If there is a connection, the first poll puts it on its way. `is_asking` tells the server that the
    /// one that has the key's slot has named it: in a Cluster whose slots move. `is_late` is told when the answer is.
    pub(super) async fn run(
        &self,
        invocation: &Invocation<'_, impl ToRedisArgs>,
        is_asking: bool,
        is_late: impl FnOnce(),
    ) -> Result<Value, Failure> {
        let Some(permit) = self.breaker.permit() else {
            let is_back = || "it has just come back, and is asked little by little".to_owned();
            return Err(StoreError::Unreachable(self.trouble().unwrap_or_else(is_back)).into());
        };
        let late = Instant::now() + self.patience;
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(error) => {
                // Who keeps the connection tells why there is none.
                permit.failed(NO_CONNECTION);
                return Err(error.into());
            }
        };
        let mut answer = pin!(async {
            let sent = Instant::now();
            let answer = connection.run(invocation, is_asking).await;
            let outcome = if answer.is_ok() { Outcome::Ok } else { Outcome::Error };
            self.traffic.note(invocation.script.name, outcome, sent.elapsed());
            answer
        });
        let mut in_time = timeout_at(late, &mut answer).await;
        if in_time.is_err() {
            // It may have come, and it is we who were held up.
            yield_now().await;
            in_time = timeout(Duration::ZERO, &mut answer).await;
        }
        match in_time {
            Ok(Err(failure)) if failure.is_silence() => {
                permit.failed(&failure.error.to_string());
                Err(failure)
            }
            // A server that answers is well, whatever it answers.
            Ok(answer) => {
                permit.succeeded();
                answer
            }
            Err(_) => {
                permit.failed(&self.no_answer());
                is_late();
                answer.await
            }
        }
    }

    pub(super) fn report(&self) -> ServerReport {
        ServerReport {
            name: self.name.clone(),
            breaker: self.breaker.report(),
            calls: self.traffic.calls(),
            times: self.traffic.times.snapshot(),
        }
    }

    /// A request has waited in vain for an answer to what another had asked.
    pub(super) fn count_failure(&self) {
        self.breaker.count_failure(&self.no_answer());
    }

    fn no_answer(&self) -> String {
        format!("no answer within {:?}", self.patience)
    }

    /// Counts attempts to connect that have failed, so that no request has to find out.
    pub(super) async fn count_failed_attempts(&self) {
        let mut state = self.state.clone();
        while state.changed().await.is_ok() {
            if let LinkState::Down(_) = &*state.borrow_and_update() {
                // Who keeps the connection tells why there is none.
                self.breaker.count_failure(NO_CONNECTION);
            }
        }
    }

    /// Waits until there is a connection to try.
    pub(super) async fn possible(&self) {
        if !self.wait_until_up().await {
            pending::<()>().await;
        }
    }

    /// Whether the server does in time what it should. A refusal is an answer, too.
    pub(super) async fn answers(&self, invocation: &Invocation<'_, impl ToRedisArgs>) -> bool {
        let Ok(connection) = self.connection().await else { return false };
        let mut answer = pin!(connection.run(invocation, false));
        if let Ok(answer) = timeout(self.patience, &mut answer).await {
            return !answer.is_err_and(|failure| failure.is_silence());
        }
        // A connection on which nothing comes at all is given up in the end, and another one made.
        drop(answer.await);
        false
    }

    /// Waits until there is another connection than now.
    pub(super) async fn comes_up(&self) {
        let mut state = self.state.clone();
        state.mark_unchanged();
        while state.changed().await.is_ok() {
            if state.borrow_and_update().usable().is_some() {
                return;
            }
        }
        pending::<()>().await;
    }

    /// Does a command.
    pub(super) async fn command(&self, command: &Cmd) -> Result<Value, Failure> {
        let connection = self.connection().await?;
        connection.bounded(connection.send(command)).await
    }

    /// Answers a question about the server itself, if there is a connection and it answers in time.
    pub(super) async fn ask(&self, questions: &Pipeline, patience: Duration) -> Option<Vec<Value>> {
        let connection = Arc::clone(self.state.borrow().usable()?);
        connection.ask(questions, patience).await
    }

    /// Waits until the first attempt to connect has ended, whether or not it has succeeded.
    pub(super) async fn tried(&self) {
        // An error means that nothing will be tried any more.
        drop(self.state.clone().changed().await);
    }

    /// Why the server is not asked, if it is not.
    pub(super) fn trouble(&self) -> Option<String> {
        let state = self.state.borrow();
        match state.usable() {
            None => Some(format!("not asked: {}", state.cause().cause())),
            Some(_) if !self.breaker.is_closed() => Some(format!("not asked: {}", self.breaker.cause())),
            Some(_) => None,
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.breaker.is_closed() && self.is_up()
    }

    /// The server that it is connected to, if it is.
    pub(super) fn server(&self) -> Option<Server> {
        self.state.borrow().usable().map(|connection| connection.server.clone())
    }

    pub(super) fn is_up(&self) -> bool {
        self.state.borrow().usable().is_some()
    }

    /// Waits for a connection, however long it takes. False if there will never be one again.
    pub(super) async fn wait_until_up(&self) -> bool {
        self.state.clone().wait_for(|state| state.usable().is_some()).await.is_ok()
    }

    async fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        if let Some(connection) = self.state.borrow().usable() {
            return Ok(Arc::clone(connection));
        }
        let mut state = self.state.clone();
        match timeout(self.patience, state.wait_for(|state| state.usable().is_some())).await {
            Ok(Ok(up)) => up.usable().map(Arc::clone).ok_or_else(|| up.cause()),
            Ok(Err(_)) => Err(StoreError::Unreachable("the store has been closed".to_owned())),
            Err(_) => Err(self.state.borrow().cause()),
        }
    }
}

impl LinkState {
    fn usable(&self) -> Option<&Arc<Connection>> {
        match self {
            Self::Up(connection) if !connection.is_given_up() => Some(connection),
            _ => None,
        }
    }

    /// Why there is no connection.
    fn cause(&self) -> StoreError {
        match self {
            Self::Down(cause) => cause.clone(),
            Self::Up(_) => StoreError::Unreachable("the connection has just broken".to_owned()),
        }
    }
}

/// One connection, from when it is ready for calls until somebody finds that it is broken.
#[derive(Debug)]
pub(super) struct Connection {
    server: Server,
    client: MultiplexedConnection,
    /// The longest that a call is waited for. Longer than the caller can use its answer for a request, because an answer
    /// brings hits that others can have.
    bound: Duration,
    /// Answers so far. Redis answers in the order of the commands.
    answers: AtomicU64,
    /// Takes how it ended; none is left when it has.
    give_up: Mutex<Option<oneshot::Sender<Ending>>>,
}

/// Why a connection is used no longer.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    /// What was sent and is not answered never will be.
    Broken(String),
    /// The server has become a replica. It still answers what it was sent.
    ReadOnly,
    /// Another is the primary. This one still answers what it was sent.
    Moved(Server),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(cause) => f.write_str(cause),
            Self::ReadOnly => f.write_str("the server is a read-only replica"),
            Self::Moved(primary) => write!(f, "the Sentinels have made {primary} the primary"),
        }
    }
}

impl Connection {
    /// Also returns what tells how it ended.
    pub(super) fn new(
        server: Server,
        client: MultiplexedConnection,
        bound: Duration,
    ) -> (Self, oneshot::Receiver<Ending>) {
        let (give_up, ending) = oneshot::channel();
        let answers = AtomicU64::new(0);
        (Self { server, client, bound, answers, give_up: Mutex::new(Some(give_up)) }, ending)
    }

    /// Lets no further call have it, and has it replaced.
    pub(super) fn give_up(&self, ending: Ending) {
        if let Some(give_up) = self.give_up.lock().take() {
            // Nobody listens when it is being replaced already.
            let _ = give_up.send(ending);
        }
    }

    fn is_given_up(&self) -> bool {
        self.give_up.lock().is_none()
    }

    async fn ask(&self, questions: &Pipeline, patience: Duration) -> Option<Vec<Value>> {
        let answers_before = self.answers.load(Ordering::Relaxed);
        let mut client = self.client.clone();
        let answers = timeout(patience, client.send_packed_commands(questions, 0, questions.len())).await;
        if answers.is_err() && self.answers.load(Ordering::Relaxed) == answers_before {
            self.give_up(Ending::Broken(format!("no answer within {patience:?}")));
        }
        answers.ok()?.ok()
    }

    async fn run(&self, invocation: &Invocation<'_, impl ToRedisArgs>, is_asking: bool) -> Result<Value, Failure> {
        self.bounded(async {
            match self.invoke(&invocation.by_hash(), is_asking).await? {
                Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
                    self.invoke(&invocation.by_text(), is_asking).await
                }
                reply => Ok(reply),
            }
        })
        .await
    }

    async fn invoke(&self, command: &Cmd, is_asking: bool) -> RedisResult<Value> {
        if !is_asking {
            return self.send(command).await;
        }
        // It counts for the next command on the connection, and nobody else's may come between.
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").add_command(command.clone());
        let replies = self.client.clone().send_packed_commands(&pipeline, 0, 2).await?;
        self.answers.fetch_add(1, Ordering::Relaxed);
        // If it may not be asked for, it is no wonder that the server redirects the command.
        let is_error = |reply: &Value| matches!(reply, Value::ServerError(_));
        let position = replies.iter().position(is_error).unwrap_or(1);
        Ok(replies.into_iter().nth(position).unwrap_or(Value::Nil))
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let reply = self.client.clone().send_packed_command(command).await?;
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(reply)
    }

    async fn bounded(&self, exchange: impl Future<Output = RedisResult<Value>>) -> Result<Value, Failure> {
        let answers_before = self.answers.load(Ordering::Relaxed);
        match timeout(self.bound, exchange).await {
            Ok(Ok(Value::ServerError(error))) => {
                if fault::is_read_only(&error) {
                    // The primary is elsewhere, and may be found under the same name.
                    self.give_up(Ending::ReadOnly);
                }
                Err(Failure { error: fault::answered(&error), redirect: Redirect::of(&error) })
            }
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                let cause = fault::one_line(&error.to_string());
                self.give_up(Ending::Broken(cause.clone()));
                Err(StoreError::Lost(cause).into())
            }
            Err(_) => {
                let cause = format!("no answer within {:?}", self.bound);
                if self.answers.load(Ordering::Relaxed) == answers_before {
                    self.give_up(Ending::Broken(cause.clone()));
                }
                Err(StoreError::Lost(cause).into())
            }
        }
    }
}

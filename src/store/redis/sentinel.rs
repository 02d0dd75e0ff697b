use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use redis::{Value, from_redis_value_ref};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::address::Server;
use super::door::{Door, Entered};
use super::gather::newest_of_most;
use crate::random;
use crate::store::StoreError;

/// The Sentinels are asked so often whether the primary is another one. Each time is up to a fifth earlier or later.
const INTERVAL: Duration = Duration::from_secs(1);

/// Finds the primary of a service.
///
/// All Sentinels are asked at once, and the answer from the newest configuration counts: one that was cut off from the
/// others may not know yet that they have chosen another primary. A choice needs most of them, so when most have answered,
/// the others are not waited for.
#[derive(Debug)]
pub(super) struct Sentinels {
    service: Arc<str>,
    asked: Vec<Arc<Sentinel>>,
    /// For all answers together.
    patience: Duration,
    /// Of the configuration by which the primary was last found.
    epoch: Option<u64>,
}

impl Sentinels {
    pub(super) fn new(servers: &[Server], service: &str, door: &Door) -> Self {
        let sentinel = |server: &Server| {
            let way = Mutex::new(Way { door: door.clone(), entered: None });
            Arc::new(Sentinel { server: server.clone(), way })
        };
        // The rest of the time is for the primary itself.
        Self {
            service: service.into(),
            asked: servers.iter().map(sentinel).collect(),
            patience: door.timeout / 2,
            epoch: None,
        }
    }

    pub(super) async fn primary(&mut self) -> Result<Server, StoreError> {
        let newest = self.newest().await?;
        self.epoch = newest.epoch;
        Ok(newest.primary)
    }

    /// Waits until a newer configuration has another primary than this, and returns that. A connection that is good is not
    /// left because those that know better do not answer.
    pub(super) async fn moved_from(&self, server: &Server) -> Server {
        let mut are_missed = false;
        loop {
            sleep(random::between(INTERVAL * 4 / 5, INTERVAL * 6 / 5)).await;
            match self.newest().await {
                Ok(newest) => {
                    if mem::take(&mut are_missed) {
                        info!("the Sentinels answer again");
                    }
                    // Sentinels that disagree about one and the same configuration lead nobody to and fro.
                    let is_newer = newest.epoch.is_none() || newest.epoch > self.epoch;
                    if is_newer && newest.primary != *server {
                        return newest.primary;
                    }
                }
                Err(error) if are_missed => debug!("{error}"),
                Err(error) => {
                    warn!("{error}; {server} is used, and it will not be noticed if another becomes the primary");
                    are_missed = true;
                }
            }
        }
    }

    async fn newest(&self) -> Result<Answer, StoreError> {
        let mut asked = JoinSet::new();
        for sentinel in &self.asked {
            let (sentinel, service) = (Arc::clone(sentinel), Arc::clone(&self.service));
            let patience = self.patience;
            asked.spawn(async move {
                let answer = timeout(patience, sentinel.ask(&service)).await;
                answer.unwrap_or_else(|_| Err(sentinel.silent(patience)))
            });
        }
        let what = format!("no Sentinel tells the primary of {}", self.service);
        newest_of_most(asked, &what, |answer| answer.epoch).await
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the primary of {}", self.service)
    }
}

#[derive(Debug)]
struct Sentinel {
    server: Server,
    way: Mutex<Way>,
}

/// How it is spoken to, and the connection if there is one.
#[derive(Debug)]
struct Way {
    door: Door,
    entered: Option<Entered>,
}

/// What a Sentinel knows.
struct Answer {
    primary: Server,
    /// Of the configuration: each choice has a higher one than those before. `None` if our user may not ask for it.
    epoch: Option<u64>,
}

impl Sentinel {
    async fn ask(&self, service: &str) -> Result<Answer, StoreError> {
        let Way { door, entered } = &mut *self.way.lock().await;
        // Taken out, and put back only by who has got an answer: a connection that has failed is not used again.
        let mut way_in = match mem::take(entered) {
            Some(entered) => entered,
            None => door.enter(&self.server).await?,
        };
        if door.login.has_changed() {
            // A Sentinel that does not take it goes on under the old one.
            if let Err(error) = door.log_in_anew(&self.server, &mut way_in.connection).await {
                warn!("the new login is not taken, and the old one is kept: {error}");
            }
        }
        let mut question = redis::pipe();
        question.cmd("SENTINEL").arg("MASTER").arg(service);
        question.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let replies = way_in
            .connection
            .send_packed_commands(&question, 0, question.len())
            .await
            .map_err(|error| door.unreachable(&self.server, &error))?;
        *entered = Some(way_in);

        let [state, place] = &replies[..] else { return Err(self.strange(door)) };
        // Only the answer to the second question tells of a choice as soon as it is made.
        match place {
            Value::ServerError(error) => Err(door.refused(&self.server, error)),
            Value::Nil => {
                let cause = format!("this Sentinel knows no service {service:?}; correct the name in --redis-url");
                Err(door.error(&self.server, StoreError::Refused, &cause))
            }
            place => {
                let primary = primary(place, &self.server).ok_or_else(|| self.strange(door))?;
                Ok(Answer { primary, epoch: config_epoch(state) })
            }
        }
    }

    fn silent(&self, patience: Duration) -> StoreError {
        StoreError::Unreachable(format!("{}: no answer within {patience:?}", self.server))
    }

    fn strange(&self, door: &Door) -> StoreError {
        door.error(&self.server, StoreError::Refused, "it does not answer as a Sentinel does")
    }
}

/// The primary that a Sentinel names.
pub(super) fn primary(place: &Value, asked: &Server) -> Option<Server> {
    let (host, port): (String, u16) = from_redis_value_ref(place).ok()?;
    asked.elsewhere(&host, port)
}

/// The epoch of a Sentinel's configuration, if it tells.
pub(super) fn config_epoch(state: &Value) -> Option<u64> {
    let fields: HashMap<String, String> = from_redis_value_ref(state).ok()?;
    fields.get("config-epoch")?.parse().ok()
}

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::route::Route;
use super::script::{Invocation, PreparedScript};
use crate::random;
use crate::store::StoreError;

pub(super) const SCRIPT: &str = include_str!("../../../lua/heartbeat.lua");

/// A replica reports itself so often; each time is up to a fifth earlier or later.
const INTERVAL: Duration = Duration::from_secs(2);

/// A replica that has not been heard of for so long is taken for gone. Four reports may be lost.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// After so many reports of its own, each replica has heard of all the others.
const REPORTS_OF_ALL: u32 = 5;

/// Tells Redis that this replica is there, and learns how many there are.
///
/// They are counted so that without Redis each can take its share of a limit. All of it is one sorted set, which expires
/// by itself.
#[derive(Debug)]
pub(super) struct Heartbeat {
    route: Arc<Route>,
    script: Arc<PreparedScript>,
    key: String,
    /// This replica among the others: 128 random bits.
    name: String,
    replicas: watch::Sender<u32>,
}

impl Heartbeat {
    pub(super) fn new(route: Arc<Route>, script: Arc<PreparedScript>, key: String) -> Self {
        let name = format!("{:016x}{:016x}", random::random_u64(), random::random_u64());
        Self { route, script, key, name, replicas: watch::Sender::new(1) }
    }

    pub(super) fn replicas(&self) -> watch::Receiver<u32> {
        self.replicas.subscribe()
    }

    /// Reports until nobody keeps the connection any more.
    pub(super) async fn run(&self) {
        let (mut has_told, mut has_reported, mut doubtful) = (false, false, 0);
        while self.route.wait_until_up(&self.key).await {
            match self.report().await {
                Ok(Report { replicas, is_new }) => {
                    // Who was forgotten is not the only one: until the others have reported themselves again, they count.
                    doubtful = if is_new && has_reported { REPORTS_OF_ALL } else { doubtful.saturating_sub(1) };
                    let replicas = if doubtful > 0 { replicas.max(self.known()) } else { replicas };
                    self.replicas.send_if_modified(|known| std::mem::replace(known, replicas) != replicas);
                    (has_told, has_reported) = (false, true);
                }
                // Who keeps the connection tells of these.
                Err(error @ (StoreError::Unreachable(_) | StoreError::Lost(_))) => debug!("no heartbeat: {error}"),
                Err(error) if has_told => debug!("no heartbeat: {error}"),
                Err(error) => {
                    warn!(
                        "replicas cannot be counted in {}, and {} is taken for their number: {error}",
                        self.key,
                        self.known()
                    );
                    has_told = true;
                }
            }
            sleep(random::between(INTERVAL * 4 / 5, INTERVAL * 6 / 5)).await;
        }
    }

    /// Says that this replica is gone. It must not be reporting any more.
    pub(super) async fn leave(&self) {
        if let Err(error) = self.route.command(&self.key, redis::cmd("ZREM").arg(&self.key).arg(&self.name)).await {
            debug!("the other replicas will miss this one in {LONGEST_SILENCE:?}: {error}");
        }
    }

    fn known(&self) -> u32 {
        *self.replicas.borrow()
    }

    async fn report(&self) -> Result<Report, StoreError> {
        let arguments = [self.name.clone(), LONGEST_SILENCE.as_millis().to_string()];
        let report = Invocation { script: &self.script, key: &self.key, arguments: &arguments };
        read(&self.route.run(&report).await?)
            .ok_or_else(|| StoreError::Malformed("the number of replicas is no number".to_owned()))
    }
}

/// What a heartbeat is answered. `None` if it is no answer to one.
pub(super) fn read(answer: &Value) -> Option<Report> {
    let Value::Array(numbers) = answer else { return None };
    let [Value::Int(replicas), Value::Int(is_new)] = numbers[..] else { return None };
    Some(Report { replicas: u32::try_from(replicas.max(1)).unwrap_or(u32::MAX), is_new: is_new == 1 })
}

/// What Redis says of the replicas.
pub(super) struct Report {
    pub(super) replicas: u32,
    /// This one was not among them before.
    is_new: bool,
}

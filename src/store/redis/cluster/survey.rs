use std::mem;
use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::super::address::Server;
use super::super::backoff::Backoff;
use super::super::door::{Door, Entered};
use super::super::fault;
use super::super::gather::newest_of_most;
use super::Known;
use super::slots::{self, Assignment, SLOTS, Standing};
use crate::random;
use crate::store::StoreError;

/// The map is asked for so often even if nobody doubts it. Each time is up to a fifth earlier or later.
const INTERVAL: Duration = Duration::from_secs(10);

/// It is never asked for more often.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// So many servers are asked, if so many are connected.
const ASKED: usize = 5;

/// Keeps the map of a Cluster up to date.
///
/// Several primaries are asked at once, and the word of the one counts that is in touch with most of the others and has heard
/// of the newest configuration: one that was cut off may not know yet that others have taken over.
#[derive(Debug)]
pub(super) struct Surveyor {
    known: Arc<Known>,
    seeds: Vec<Server>,
    told: Told,
}

/// What was last logged.
#[derive(Debug, Default)]
struct Told {
    primaries: Vec<String>,
    slots_without_server: usize,
    fault: Option<mem::Discriminant<StoreError>>,
}

/// What one server tells of the Cluster.
struct Word {
    standing: Standing,
    assignments: Vec<Assignment>,
}

impl Surveyor {
    pub(super) fn new(known: Arc<Known>, seeds: &[Server]) -> Self {
        Self { known, seeds: seeds.to_vec(), told: Told::default() }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let is_doubted = match self.survey().await {
                Ok(word) => {
                    self.tell(&word.assignments);
                    let recruiter = &self.known.recruiter;
                    self.known.map.send_modify(|map| map.assign(&word.assignments, |server| recruiter.start(server)));
                    let quiet = sleep(random::between(INTERVAL * 4 / 5, INTERVAL * 6 / 5));
                    select! {
                        () = self.known.doubt.notified() => true,
                        () = quiet => false,
                    }
                }
                Err(error) => {
                    self.tell_fault(&error);
                    self.known.map.send_modify(|map| map.cannot_be_asked_for(error));
                    true
                }
            };
            if !is_doubted {
                backoff = Backoff::default();
            }
            sleep(backoff.next().max(SHORTEST_PAUSE)).await;
        }
    }

    async fn survey(&self) -> Result<Word, StoreError> {
        // Who is connected is asked first, and the seeds only if nobody of these is in touch with most of the others.
        let known = self.ask_members().await;
        if known.as_ref().is_ok_and(|word| word.standing.is_ok) {
            return known;
        }
        match (known, self.ask_seeds().await) {
            (Ok(known), Ok(seed)) => Ok(if seed.standing > known.standing { seed } else { known }),
            (Ok(word), Err(_)) | (Err(_), Ok(word)) => Ok(word),
            (Err(_), Err(error)) => Err(error),
        }
    }

    async fn ask_members(&self) -> Result<Word, StoreError> {
        let mut members = self.known.map.borrow().primaries();
        members.retain(|member| member.node.link.is_up());
        let mut asked = JoinSet::new();
        for _ in 0..ASKED.min(members.len()) {
            let member = members.swap_remove(random::below(members.len()));
            let patience = self.known.recruiter.door.timeout;
            asked.spawn(async move {
                let answer = member.node.link.ask(&questions(), patience).await;
                let no_answer = || StoreError::Unreachable(format!("{}: no answer", member.server));
                word(&answer.ok_or_else(no_answer)?, &member.server)
            });
        }
        Self::best(asked).await
    }

    async fn ask_seeds(&self) -> Result<Word, StoreError> {
        let mut asked = JoinSet::new();
        for seed in &self.seeds {
            let (seed, door) = (seed.clone(), self.known.recruiter.door.clone());
            asked.spawn(async move {
                let patience = door.timeout;
                let answer = timeout(patience, ask(&seed, door)).await;
                let silence = || StoreError::Unreachable(format!("{seed}: no answer within {patience:?}"));
                answer.unwrap_or_else(|_| Err(silence()))
            });
        }
        Self::best(asked).await
    }

    async fn best(asked: JoinSet<Result<Word, StoreError>>) -> Result<Word, StoreError> {
        newest_of_most(asked, "no server tells whose the slots of the Cluster are", |word| word.standing).await
    }

    /// Tells what is new.
    fn tell(&mut self, assignments: &[Assignment]) {
        if mem::take(&mut self.told.fault).is_some() {
            info!("the Cluster tells again whose the slots are");
        }
        let known =
            || assignments.iter().filter_map(|assigned| Some((assigned.primary.as_ref()?, assigned.slots.len())));
        let mut primaries: Vec<_> = known().map(|(primary, _)| primary.to_string()).collect();
        primaries.sort_unstable();
        primaries.dedup();
        if primaries != self.told.primaries {
            info!("the primaries of the Cluster are {}", primaries.join(", "));
            self.told.primaries = primaries;
        }
        let assigned: usize = known().map(|(_, slots)| slots).sum();
        let without_server = usize::from(SLOTS).saturating_sub(assigned);
        if mem::replace(&mut self.told.slots_without_server, without_server) == 0 && without_server > 0 {
            warn!(
                "{without_server} of the {SLOTS} slots of the Cluster have no server; failure modes decide for their keys"
            );
        }
    }

    fn tell_fault(&mut self, error: &StoreError) {
        let kind = mem::discriminant(error);
        if self.told.fault.replace(kind) == Some(kind) {
            debug!("{error}");
        } else {
            warn!("{error}; asking again until one does");
        }
    }
}

/// Asks a server over a connection of its own.
async fn ask(server: &Server, mut door: Door) -> Result<Word, StoreError> {
    let Entered { mut connection, driver: _driver } = door.enter(server).await?;
    let questions = questions();
    let answers = connection.send_packed_commands(&questions, 0, questions.len()).await;
    word(&answers.map_err(|error| door.unreachable(server, &error))?, server)
}

fn questions() -> Pipeline {
    let mut questions = redis::pipe();
    questions.cmd("CLUSTER").arg("INFO");
    questions.cmd("CLUSTER").arg("SLOTS");
    questions
}

fn word(answers: &[Value], server: &Server) -> Result<Word, StoreError> {
    let refused = |cause: &str| StoreError::Refused(format!("{server}: {cause}"));
    match answers {
        [_, Value::ServerError(error)]
            if error.details().is_some_and(|details| details.contains("cluster support")) =>
        {
            Err(refused("it belongs to no Cluster; give redis://HOST:PORT in --redis-url for one server"))
        }
        [_, Value::ServerError(error)] => Err(refused(&fault::in_words(error))),
        [info, slots] => {
            let assignments =
                slots::assignments(slots, server).ok_or_else(|| refused("it does not tell whose the slots are"))?;
            Ok(Word { standing: slots::standing(info), assignments })
        }
        _ => Err(refused("it does not answer as a server of a Cluster does")),
    }
}

//! A Redis Cluster: every key belongs to one of 16,384 slots, and every slot to one primary.
//!
//! A call goes to the primary of its key's slot, on the connection that is kept to it; what happens to another primary
//! does not touch it. Which slot is whose is asked for in the background, and learnt from the servers' redirects.

#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod map;
mod slots;
mod survey;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Cmd, ToRedisArgs, Value};
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use self::map::{Member, SlotMap};
use self::survey::Surveyor;
use super::address::Server;
use super::background::BackgroundTask;
use super::connect::{Connector, Target};
use super::door::Door;
use super::link::{Failure, Link};
use super::node::{Common, Node};
use super::redirect::{Place, Redirect};
use super::script::Invocation;
use crate::store::{ServerReport, StoreError};

/// A call follows so many redirects. More would mean that the servers do not agree.
const MOST_REDIRECTS: u32 = 5;

/// How long a call waits whose key is on its way from one server to another.
const WAY_OF_A_KEY: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Cluster {
    known: Arc<Known>,
    _survey: BackgroundTask,
}

/// What is known of a Cluster, for calls and for who keeps it up to date.
#[derive(Debug)]
struct Known {
    map: watch::Sender<SlotMap>,
    /// Told when the map may be wrong.
    doubt: Notify,
    recruiter: Recruiter,
}

/// Begins to connect to servers.
#[derive(Debug)]
struct Recruiter {
    door: Door,
    common: Arc<Common>,
}

impl Recruiter {
    fn start(&self, server: &Server) -> Arc<Member> {
        let connector = Connector {
            target: Target::Member(server.clone()),
            door: self.door.clone(),
            common: Arc::clone(&self.common),
        };
        let node = Node::start(connector);
        Arc::new(Member { server: server.clone(), node, is_named: AtomicBool::new(false) })
    }
}

impl Cluster {
    /// Begins to ask one of these servers for the others.
    pub(super) fn start(seeds: &[Server], door: Door, common: Arc<Common>) -> Self {
        let recruiter = Recruiter { door, common };
        let map = watch::Sender::new(SlotMap::new());
        let known = Arc::new(Known { map, doubt: Notify::new(), recruiter });
        let surveyor = Surveyor::new(Arc::clone(&known), seeds);
        Self { known, _survey: BackgroundTask::spawn(surveyor.run()) }
    }

    /// Runs a script. If the primary of its key is known and connected, the first poll puts it on its way.
    pub(super) async fn run(&self, invocation: &Invocation<'_, impl ToRedisArgs>) -> Result<Value, StoreError> {
        let slot = slots::of(invocation.key);
        let mut member = self.owner(slot).await?;
        let mut is_asking = false;
        for _ in 0..=MOST_REDIRECTS {
            // If the answer is late, another server may have taken over from one that hangs.
            let doubt = || self.known.doubt.notify_one();
            let Failure { error, redirect } = match member.node.link.run(invocation, is_asking, doubt).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            match redirect {
                Some(Redirect::Moved(place)) => {
                    (member, is_asking) = (self.known.named(&place, &member.server).ok_or(error)?, false);
                    self.known.give(slot, &member);
                }
                Some(Redirect::Ask(place)) => {
                    (member, is_asking) = (self.known.named(&place, &member.server).ok_or(error)?, true);
                }
                Some(Redirect::Again) => sleep(WAY_OF_A_KEY).await,
                None => {
                    // The slot may have another primary by now. What is in a bucket says nothing about that.
                    if !matches!(error, StoreError::Malformed(_)) {
                        self.known.doubt.notify_one();
                    }
                    return Err(error);
                }
            }
        }
        self.known.doubt.notify_one();
        Err(StoreError::Misrouted(format!("slot {slot} of the Cluster is nobody's, after {MOST_REDIRECTS} redirects")))
    }

    /// Does a command on a key.
    pub(super) async fn command(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let member = self.owner(slots::of(key)).await?;
        member.node.link.command(command).await.map_err(|failure| failure.error)
    }

    /// The primary of a key, as far as is known.
    pub(super) fn server(&self, key: &str) -> Option<Server> {
        self.known.map.borrow().owner(slots::of(key)).map(|member| member.server.clone())
    }

    /// Waits for a connection to the primary of a key, however long it takes. False if there will never be one again.
    pub(super) async fn wait_until_up(&self, key: &str) -> bool {
        let slot = slots::of(key);
        let mut map = self.known.map.subscribe();
        loop {
            let owner = map.borrow_and_update().owner(slot);
            let is_up = async {
                match &owner {
                    Some(owner) => owner.node.link.wait_until_up().await,
                    None => std::future::pending().await,
                }
            };
            select! {
                true = is_up => return true,
                changed = map.changed() => if changed.is_err() {
                    return false;
                },
            }
        }
    }

    /// Waits until it is known whose the slots are and the first attempts to connect have ended, or until it is known that
    /// there is no such Cluster.
    pub(super) async fn tried(&self) {
        let mut map = self.known.map.subscribe();
        let tried = map.wait_for(SlotMap::was_asked_for).await.map(|map| map.primaries());
        for member in tried.unwrap_or_default() {
            member.node.link.tried().await;
        }
    }

    /// The link to the primary of a key, if it is known which that is.
    pub(super) fn link(&self, key: &str) -> Option<Arc<Link>> {
        let owner = self.known.map.borrow().owner(slots::of(key))?;
        Some(Arc::clone(&owner.node.link))
    }

    pub(super) fn servers(&self) -> Vec<ServerReport> {
        let map = self.known.map.borrow();
        map.members().into_iter().flatten().map(|member| member.node.link.report()).collect()
    }

    /// Whether it is known whose the slots are, and all servers are asked.
    pub(super) fn is_asked(&self) -> bool {
        self.known.map.borrow().members().is_some_and(|mut members| members.all(|member| member.node.link.is_asked()))
    }

    /// Whether the primaries are asked, in words for people.
    pub(super) fn condition(&self) -> String {
        let (primaries, nobody) = {
            let map = self.known.map.borrow();
            (map.primaries(), map.no_owner(0))
        };
        if primaries.is_empty() {
            return format!("not asked: {}", nobody.cause());
        }
        let troubles: Vec<String> = primaries
            .iter()
            .filter_map(|member| Some(format!("; {}: {}", member.server, member.node.link.trouble()?)))
            .collect();
        let asked = primaries.len() - troubles.len();
        format!("{asked} of {} primaries asked{}", primaries.len(), troubles.concat())
    }

    async fn owner(&self, slot: u16) -> Result<Arc<Member>, StoreError> {
        {
            let map = self.known.map.borrow();
            if let Some(owner) = map.owner(slot) {
                return Ok(owner);
            }
            self.known.doubt.notify_one();
            // Who has asked and heard of nobody does not let each call wait.
            if map.was_asked_for() {
                return Err(map.no_owner(slot));
            }
        }
        let mut map = self.known.map.subscribe();
        let found = timeout(self.known.recruiter.common.patience, map.wait_for(|map| map.owner(slot).is_some())).await;
        match found {
            Ok(Ok(map)) => map.owner(slot),
            Ok(Err(_)) | Err(_) => None,
        }
        .ok_or_else(|| self.known.map.borrow().no_owner(slot))
    }
}

impl Known {
    /// The one that a server has named. `None` if that is no server, or if there are too many.
    fn named(&self, place: &Place, by: &Server) -> Option<Arc<Member>> {
        let server = by.elsewhere(place.host.as_deref().unwrap_or(by.host()), place.port)?;
        let known = self.map.borrow().member(&server);
        let member = known.or_else(|| {
            let mut found = None;
            self.map.send_modify(|map| found = map.member_or(&server, || self.recruiter.start(&server)));
            found
        })?;
        member.is_named.store(true, Ordering::Relaxed);
        Some(member)
    }

    /// Notes that a slot has moved.
    fn give(&self, slot: u16, member: &Arc<Member>) {
        self.map.send_modify(|map| map.give(slot, member));
        // It is seldom the only one.
        self.doubt.notify_one();
    }
}

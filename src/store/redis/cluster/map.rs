use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::address::Server;
use super::super::node::Node;
use super::slots::{Assignment, SLOTS};
use crate::store::StoreError;

/// A Cluster with more servers than this is not believed. Redis advises against more than a thousand.
const MOST_MEMBERS: usize = 2000;

/// A server of a Cluster.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) server: Server,
    pub(super) node: Node,
    /// Another has named it in a redirect since the slots were last assigned.
    pub(super) is_named: AtomicBool,
}

/// Whose the slots are.
#[derive(Debug)]
pub(super) struct SlotMap {
    /// The primary of each slot.
    owners: Vec<Option<Arc<Member>>>,
    /// All that there is a connection to, or should be.
    members: Vec<Arc<Member>>,
    /// Why it could not be asked for. `None` if it could, or was not yet.
    fault: Option<StoreError>,
    was_asked_for: bool,
}

impl SlotMap {
    pub(super) fn new() -> Self {
        Self { owners: vec![None; usize::from(SLOTS)], members: Vec::new(), fault: None, was_asked_for: false }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Member>> {
        self.owners.get(usize::from(slot))?.clone()
    }

    /// All that have slots, or are about to get some. `None` if nobody has.
    pub(super) fn members(&self) -> Option<impl Iterator<Item = &Arc<Member>>> {
        (!self.members.is_empty()).then(|| self.members.iter())
    }

    /// Why a slot has no owner.
    pub(super) fn no_owner(&self, slot: u16) -> StoreError {
        match &self.fault {
            Some(fault) => fault.clone(),
            None if self.was_asked_for => StoreError::Misrouted(format!("no server of the Cluster has slot {slot}")),
            None => StoreError::Unreachable("the Cluster was not asked yet whose the slots are".to_owned()),
        }
    }

    pub(super) fn was_asked_for(&self) -> bool {
        self.was_asked_for
    }

    /// Those that have slots. Another may have left, and belong to a different Cluster by now.
    pub(super) fn primaries(&self) -> Vec<Arc<Member>> {
        let mut seen = HashSet::new();
        self.owners.iter().flatten().filter(|owner| seen.insert(Arc::as_ptr(owner))).map(Arc::clone).collect()
    }

    pub(super) fn member(&self, server: &Server) -> Option<Arc<Member>> {
        self.members.iter().find(|member| member.server == *server).map(Arc::clone)
    }

    /// The one that is this server, or one that `start` makes. `None` if there are too many.
    pub(super) fn member_or(&mut self, server: &Server, start: impl FnOnce() -> Arc<Member>) -> Option<Arc<Member>> {
        if let Some(member) = self.member(server) {
            return Some(member);
        }
        if self.members.len() >= MOST_MEMBERS {
            return None;
        }
        let member = start();
        self.members.push(Arc::clone(&member));
        Some(member)
    }

    /// Gives one slot to another.
    pub(super) fn give(&mut self, slot: u16, member: &Arc<Member>) {
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(Arc::clone(member));
        }
    }

    /// Gives all slots anew.
    pub(super) fn assign(&mut self, assignments: &[Assignment], start: impl Fn(&Server) -> Arc<Member>) {
        self.owners.fill(None);
        for Assignment { slots, primary } in assignments {
            let Some(primary) = primary else { continue };
            if let Some(member) = self.member_or(primary, || start(primary)) {
                for slot in slots.clone() {
                    self.give(slot, &member);
                }
            }
        }
        // Who has no slots and is named is about to get some.
        let has_slots =
            |member: &Member| assignments.iter().any(|assigned| assigned.primary.as_ref() == Some(&member.server));
        self.members.retain(|member| member.is_named.swap(false, Ordering::Relaxed) || has_slots(member));
        (self.fault, self.was_asked_for) = (None, true);
    }

    /// Notes why it could not be asked for. What is known remains.
    pub(super) fn cannot_be_asked_for(&mut self, fault: StoreError) {
        (self.fault, self.was_asked_for) = (Some(fault), true);
    }
}

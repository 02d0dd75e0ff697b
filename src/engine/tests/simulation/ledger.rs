//! What replicas tell the store, held against what it has lent them.

use std::collections::BTreeMap;

use crate::store::{Facts, Operation, Reply, StoreCall};

/// One life of a replica, and a bucket's name.
type Borrowing = (u64, String);

/// Makes sure that nobody tells a fact twice, or of hits that were never lent.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Hits lent, and hits told spent or returned; by epoch.
    leases: BTreeMap<(Borrowing, u64), (u64, u64)>,
    /// Grants of needed hits of which nobody has said that they are unused: epoch, hits, mark.
    grants: BTreeMap<Borrowing, Vec<(u64, u64, u64)>>,
}

impl Ledger {
    /// A replica has heard what the store has lent and granted it.
    pub(super) fn lend(&mut self, life: u64, call: &StoreCall, reply: &Reply) {
        let Operation::Acquire { needed, .. } = call.operation else { return };
        let borrowing = (life, call.bucket.to_string());
        if reply.granted && needed > 0 {
            self.grants.entry(borrowing.clone()).or_default().push((reply.epoch, needed, reply.mark));
        }
        self.leases.entry((borrowing, reply.epoch)).or_default().0 += reply.extra;
    }

    /// A replica tells the store what became of hits.
    pub(super) fn tell(&mut self, life: u64, call: &StoreCall) {
        let Some((borrowing, facts)) = facts_of(life, call) else { return };
        for fact in &facts.leased {
            let (lent, told) = self.leases.entry((borrowing.clone(), fact.epoch)).or_default();
            *told += fact.spent + fact.returned;
            assert!(told <= lent, "{fact:?} is told of {lent} lent hits: {told} in all");
        }
        for fact in &facts.unused {
            let grants = self.grants.entry(borrowing.clone()).or_default();
            let position = grants.iter().position(|grant| *grant == (fact.epoch, fact.hits, fact.mark));
            grants.swap_remove(position.unwrap_or_else(|| panic!("{fact:?} was not granted, or is told twice")));
        }
    }

    /// The call has certainly not been made: its facts may be told again.
    pub(super) fn take_back(&mut self, life: u64, call: &StoreCall) {
        let Some((borrowing, facts)) = facts_of(life, call) else { return };
        for fact in &facts.leased {
            if let Some((_, told)) = self.leases.get_mut(&(borrowing.clone(), fact.epoch)) {
                *told -= fact.spent + fact.returned;
            }
        }
        let unused = facts.unused.iter().map(|fact| (fact.epoch, fact.hits, fact.mark));
        self.grants.entry(borrowing).or_default().extend(unused);
    }
}

fn facts_of(life: u64, call: &StoreCall) -> Option<(Borrowing, &Facts)> {
    match &call.operation {
        Operation::Acquire { facts, .. } => Some(((life, call.bucket.to_string()), facts)),
        Operation::Refund { .. } | Operation::Debit { .. } => None,
    }
}

//! What the store does, call by call.

mod adversary;
mod fixed_window;
mod idle_calls;
mod token_bucket;

use std::sync::Arc;

use super::{Kept, MemoryStore, SharedFixedWindow, SharedTokenBucket};
use crate::limit::{Algorithm, Limit, Micros, Unit};
use crate::store::{Facts, LeaseFact, Operation, Reply, StoreCall, UnusedFact, epoch_length};

const NAME: &str = "{d|k=v}:second";

/// A store with one bucket, and a clock that tests move by hand.
#[derive(Debug)]
struct OneBucket {
    store: MemoryStore,
    now: Micros,
    limit: Limit,
}

impl OneBucket {
    fn new(limit: Limit) -> Self {
        Self { store: MemoryStore::default(), now: Micros::from_seconds(1_000_000), limit }
    }

    fn pass(&mut self, micros: u64) {
        self.now = self.now + Micros(micros);
    }

    fn serve(&mut self, operation: Operation) -> Reply {
        let call = StoreCall { bucket: NAME.into(), limit: self.limit, operation };
        self.store.serve(&call, self.now)
    }

    fn acquire(&mut self, needed: u64, want: u64) -> Reply {
        self.tell(needed, want, Facts::default())
    }

    fn tell(&mut self, needed: u64, want: u64, facts: Facts) -> Reply {
        self.serve(Operation::Acquire { needed, want, facts })
    }

    fn look(&mut self) -> Reply {
        self.acquire(0, 0)
    }

    /// Whole hits that are free.
    fn free(&mut self) -> u64 {
        let hit = if self.limit.algorithm() == Algorithm::TokenBucket { 1_000_000 } else { 1 };
        (u64::from(self.limit.capacity()) * hit).saturating_sub(self.look().used) / hit
    }
}

fn spent(epoch: u64, spent: u64) -> Facts {
    Facts { leased: [LeaseFact { epoch, spent, returned: 0 }].into_iter().collect(), ..Facts::default() }
}

fn returned(epoch: u64, returned: u64) -> Facts {
    Facts { leased: [LeaseFact { epoch, spent: 0, returned }].into_iter().collect(), ..Facts::default() }
}

fn unused(epoch: u64, hits: u64, mark: u64) -> Facts {
    Facts { unused: [UnusedFact { epoch, hits, mark }].into_iter().collect(), ..Facts::default() }
}

fn tokens(amount: u32, unit: Unit, burst: u32) -> Limit {
    Limit::new(amount, unit, 1, Some(burst), Algorithm::TokenBucket).unwrap()
}

const SECOND: u64 = 1_000_000;

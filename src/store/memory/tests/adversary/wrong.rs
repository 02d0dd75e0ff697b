//! Stores with one fault each.

use super::Store;
use crate::limit::Micros;
use crate::store::memory::{Kept, SharedTokenBucket};
use crate::store::{Operation, Reply, StoreCall, epoch_length};

/// Serves a call as the right store does, but for how it brings the bucket to the present.
fn serve(
    kept: &mut Option<Kept<SharedTokenBucket>>,
    call: &StoreCall,
    now: Micros,
    settle: impl FnOnce(&mut SharedTokenBucket),
) -> Reply {
    let found = kept.filter(|kept| kept.is_there(now)).map(|kept| kept.bucket);
    let mut bucket = found.unwrap_or_else(|| SharedTokenBucket::full(now));
    settle(&mut bucket);
    let outcome = bucket.apply(&call.limit, &call.operation);
    *kept = Some(Kept::new(bucket, now, bucket.lifetime_millis(&call.limit, now)));
    bucket.reply(&call.limit, outcome, now)
}

/// Ends leases first and then lets tokens flow back, as if nothing had been out meanwhile.
#[derive(Debug, Default)]
pub(super) struct NoPieces(Option<Kept<SharedTokenBucket>>);

impl Store for NoPieces {
    fn serve(&mut self, call: &StoreCall, now: Micros) -> Reply {
        serve(&mut self.0, call, now, |bucket| {
            let length = epoch_length(&call.limit);
            if now >= bucket.epoch + length + length {
                (bucket.out, bucket.out_before) = (0, 0);
            } else if now >= bucket.epoch + length {
                bucket.epoch = bucket.epoch + length;
                (bucket.out, bucket.out_before, bucket.refilled) = (0, bucket.out, 0);
            }
            bucket.settle(&call.limit, now);
        })
    }
}

/// Takes in facts before it lets tokens flow back, as if hits had been spent when it was told of it.
#[derive(Debug, Default)]
pub(super) struct FactsFirst(Option<Kept<SharedTokenBucket>>);

impl Store for FactsFirst {
    fn serve(&mut self, call: &StoreCall, now: Micros) -> Reply {
        serve(&mut self.0, call, now, |bucket| {
            if let Operation::Acquire { facts, .. } = &call.operation {
                bucket.learn(&call.limit, facts);
            }
            bucket.settle(&call.limit, now);
        })
    }
}

/// Counts the time in which all that is used was out as soon as it no longer is.
#[derive(Debug, Default)]
pub(super) struct TimeKept(Option<Kept<SharedTokenBucket>>);

impl Store for TimeKept {
    fn serve(&mut self, call: &StoreCall, now: Micros) -> Reply {
        serve(&mut self.0, call, now, |bucket| {
            let (used_before, at_before) = (bucket.used, bucket.at);
            bucket.settle(&call.limit, now);
            let all_is_out = bucket.used == (bucket.out + bucket.out_before) * 1_000_000;
            if all_is_out && at_before < now {
                let ticks_needed = (used_before - bucket.used) / u64::from(call.limit.amount());
                bucket.at = at_before + Micros(ticks_needed * call.limit.tick());
            }
        })
    }
}

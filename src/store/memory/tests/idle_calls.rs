//! A call that moves nothing writes nothing. For one limit and a clock that goes forward this makes no difference.

use proptest::prelude::*;

use super::*;

/// Serves a call as a store would that writes each time.
fn serve_and_write(store: &mut MemoryStore, call: &StoreCall, now: Micros) -> Reply {
    let reply = store.serve(call, now);
    let (name, limit) = (&call.bucket, &call.limit);
    match limit.algorithm() {
        Algorithm::TokenBucket => {
            let kept = store.token_bucket(name, now).map(|kept| kept.bucket);
            let mut bucket = kept.unwrap_or_else(|| SharedTokenBucket::full(now));
            bucket.settle(limit, now);
            store.token_buckets.insert(name.clone(), Kept::new(bucket, now, bucket.lifetime_millis(limit, now)));
        }
        Algorithm::FixedWindow => {
            let kept = store.fixed_window(name, now).map(|kept| kept.bucket);
            let mut window = kept.unwrap_or(SharedFixedWindow::UNUSED);
            window.settle(limit, now);
            store.fixed_windows.insert(name.clone(), Kept::new(window, now, window.lifetime_millis(limit, now)));
        }
    }
    reply
}

/// Whether the store holds anything of a bucket at this time.
fn holds(store: &MemoryStore, bucket: &str, now: Micros) -> bool {
    store.token_bucket(bucket, now).is_some() || store.fixed_window(bucket, now).is_some()
}

/// Whether a bucket is as good as none.
fn is_full(store: &MemoryStore, limit: &Limit, bucket: &str, now: Micros) -> bool {
    let is_window_over = store.fixed_window(bucket, now).is_none_or(|kept| {
        let mut window = kept.bucket;
        window.settle(limit, now);
        window.used == 0
    });
    let is_bucket_full = store.token_bucket(bucket, now).is_none_or(|kept| {
        let mut bucket = kept.bucket;
        bucket.settle(limit, now);
        bucket.used == 0 && bucket.out + bucket.out_before == 0
    });
    is_window_over && is_bucket_full
}

fn limits() -> impl Strategy<Value = Limit> {
    let period =
        prop_oneof![(Just(Unit::Second), 1..20_u32), (Just(Unit::Minute), 1..9_u32), (Just(Unit::Year), 1..3_u32)];
    let algorithm = prop_oneof![4 => Just(Algorithm::TokenBucket), 1 => Just(Algorithm::FixedWindow)];
    (period, 1..200_u32, 1..200_u32, algorithm).prop_map(|((unit, multiplier), amount, burst, algorithm)| {
        let burst = (algorithm == Algorithm::TokenBucket).then_some(burst);
        Limit::new(amount, unit, multiplier, burst, algorithm).unwrap()
    })
}

/// In hundredths of an epoch; a few times several epochs.
fn pauses() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..30_u64, 2 => 30..300_u64, 1 => Just(100_u64), 1 => 300..2000_u64]
}

fn operations() -> impl Strategy<Value = (Operation, bool)> {
    let acquire = (0..200_u64, 0..200_u64, 0..100_u64, 0..100_u64, any::<bool>(), any::<bool>());
    prop_oneof![
        8 => acquire.prop_map(|(needed, want, spent, returned, tells, is_of_last_epoch)| {
            let mut facts = Facts::default();
            if tells {
                facts.leased.push(LeaseFact { epoch: 0, spent, returned });
                facts.unused.push(UnusedFact { epoch: 0, hits: spent, mark: returned * 100_000 });
            }
            (Operation::Acquire { needed, want, facts }, is_of_last_epoch)
        }),
        1 => (1..200_u64).prop_map(|hits| (Operation::Refund { hits }, false)),
        1 => (1..200_u64).prop_map(|hits| (Operation::Debit { hits }, false)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn an_idle_call_that_writes_nothing_changes_no_reply(
        limit in limits(),
        steps in prop::collection::vec((pauses(), operations()), 1..100),
    ) {
        let (mut store, mut writing_store) = (MemoryStore::default(), MemoryStore::default());
        let bucket: Arc<str> = NAME.into();
        let (mut now, mut epoch, mut epoch_before) = (Micros::from_seconds(1_000_000), 0, 0);
        for (pause, (mut operation, is_of_last_epoch)) in steps {
            now = now + Micros(epoch_length(&limit).0 / 100 * pause);
            if let Operation::Acquire { facts, .. } = &mut operation {
                let named = if is_of_last_epoch { epoch_before } else { epoch };
                facts.leased.iter_mut().for_each(|fact| fact.epoch = named);
                facts.unused.iter_mut().for_each(|fact| fact.epoch = named);
            }
            let call = StoreCall { bucket: bucket.clone(), limit, operation };
            if !holds(&store, &bucket, now) || !holds(&writing_store, &bucket, now) {
                // One of them no longer keeps its bucket, so that of the other is full, and both begin anew.
                prop_assert!(is_full(&store, &limit, &bucket, now) && is_full(&writing_store, &limit, &bucket, now));
                (store, writing_store) = (MemoryStore::default(), MemoryStore::default());
            }
            let reply = store.serve(&call, now);
            prop_assert_eq!(serve_and_write(&mut writing_store, &call, now), reply);
            if reply.epoch != epoch {
                (epoch_before, epoch) = (epoch, reply.epoch);
            }
        }
    }

    #[test]
    fn a_token_bucket_that_is_settled_twice_is_as_if_it_were_settled_once(
        limit in limits().prop_filter("a token bucket", |limit| limit.algorithm() == Algorithm::TokenBucket),
        (used, out, out_before) in (0..400_000_000_u64, 0..200_u64, 0..200_u64),
        (at, carry, refilled) in (0..100_u64, any::<u64>(), 0..200_000_000_u64),
        (first, second) in (pauses(), pauses()),
        (first_odd, second_odd) in (0..1_000_u64, 0..1_000_u64),
    ) {
        let hundredth = epoch_length(&limit).0 / 100;
        let epoch = Micros::from_seconds(1_000_000);
        let used = used.max((out + out_before) * SECOND);
        let carry = if used == (out + out_before) * SECOND { 0 } else { carry % limit.tick() };
        let bucket = SharedTokenBucket {
            used, at: epoch + Micros(hundredth * at), carry, epoch, out, out_before, refilled,
        };
        let middle = bucket.at + Micros(hundredth * first + first_odd);
        let end = middle + Micros(hundredth * second + second_odd);
        let (mut once, mut twice) = (bucket, bucket);
        once.settle(&limit, end);
        twice.settle(&limit, middle);
        twice.settle(&limit, end);
        prop_assert_eq!(once, twice);
    }
}

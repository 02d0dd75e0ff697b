use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn bucket(amount: u32) -> OneBucket {
    OneBucket::new(Limit::per(amount, Unit::Minute, Algorithm::FixedWindow))
}

#[test]
fn all_hits_come_back_when_the_window_ends() {
    let mut bucket = bucket(10);
    let reply = bucket.acquire(4, 100);
    // A million seconds are 16,666 minutes and 40 seconds.
    assert_eq!((reply.epoch, reply.lease_time), (16_666, Micros::from_seconds(20)));
    assert_eq!((reply.granted, reply.extra, reply.used, reply.mark), (true, 3, 7, 0));
    let refused = bucket.acquire(4, 0);
    assert_eq!((refused.granted, refused.used, refused.retry_after), (false, 7, Micros::from_seconds(20)));
    bucket.pass(20 * SECOND - 1);
    assert_eq!(bucket.free(), 3);
    bucket.pass(1);
    let reply = bucket.acquire(4, 0);
    assert_eq!((reply.granted, reply.epoch, reply.used), (true, 16_667, 4));
}

#[test]
fn facts_count_in_their_window_and_only_there() {
    let mut bucket = bucket(10);
    let window = bucket.acquire(4, 3).epoch;
    assert_eq!(bucket.tell(0, 0, spent(window, 2)).used, 7, "spent hits stay used");
    assert_eq!(bucket.tell(0, 0, returned(window, 1)).used, 6);
    assert_eq!(bucket.tell(0, 0, unused(window, 2, 0)).used, 4);
    assert_eq!(bucket.tell(0, 0, returned(window, 100)).used, 0, "never below nothing");
    bucket.pass(60 * SECOND);
    bucket.acquire(5, 0);
    assert_eq!(bucket.tell(0, 0, returned(window, 1)).used, 5);
    assert_eq!(bucket.tell(0, 0, unused(window, 1, 0)).used, 5);
}

#[test]
fn refunds_and_debits_end_at_nothing_and_at_twice_the_amount() {
    let mut bucket = bucket(10);
    assert!(!bucket.serve(Operation::Debit { hits: u64::MAX }).granted);
    assert_eq!(bucket.look().used, 20);
    let reply = bucket.serve(Operation::Refund { hits: 15 });
    assert_eq!((reply.granted, reply.extra, reply.used), (true, 15, 5));
    assert!(bucket.serve(Operation::Debit { hits: 5 }).granted);
    assert_eq!(bucket.serve(Operation::Refund { hits: u64::MAX }).extra, 10);
}

#[test]
fn the_window_never_goes_back() {
    let mut bucket = bucket(10);
    let window = bucket.acquire(10, 0).epoch;
    bucket.now = Micros::from_seconds(1_000_000 - 3600);
    let refused = bucket.acquire(1, 0);
    assert_eq!((refused.granted, refused.epoch), (false, window));
    assert_eq!(refused.retry_after, Micros::from_seconds(3620));
}

#[test]
fn the_window_is_kept_a_little_longer_than_it_lasts() {
    for (limit, grace) in [
        (Limit::per(10, Unit::Second, Algorithm::FixedWindow), 1),
        (Limit::per(10, Unit::Minute, Algorithm::FixedWindow), 60),
        (Limit::per(10, Unit::Day, Algorithm::FixedWindow), 60),
    ] {
        let mut bucket = OneBucket::new(limit);
        let lease_time = bucket.acquire(1, 0).lease_time;
        bucket.now = bucket.now + lease_time + Micros::from_seconds(grace);
        assert!(bucket.store.fixed_window(NAME, bucket.now).is_some());
        bucket.pass(1000);
        assert!(bucket.store.fixed_window(NAME, bucket.now).is_none());
    }
}

proptest! {
    /// Replicas tell the truth, late or never, and spend all that they borrow until the window ends.
    #[test]
    fn no_window_admits_more_than_its_amount(
        amount in 1..50_u32,
        steps in prop::collection::vec((0..12 * SECOND, 0..20_u64, 0..20_u64, 0..=8_u64), 1..100),
    ) {
        let mut bucket = bucket(amount);
        // What was admitted or may still be, and what is borrowed, by window.
        let (mut admitted, mut borrowed) = (BTreeMap::<u64, u64>::new(), BTreeMap::<u64, u64>::new());
        for (pause, needed, want, returned_eighths) in steps {
            bucket.pass(pause);
            let mut facts = Facts::default();
            if let Some(mut latest) = borrowed.last_entry() {
                let given = *latest.get() * returned_eighths / 8;
                *latest.get_mut() -= given;
                *admitted.entry(*latest.key()).or_default() -= given;
                facts = returned(*latest.key(), given);
            }
            let reply = bucket.tell(needed, want, facts);
            let granted = if reply.granted { needed } else { 0 };
            *admitted.entry(reply.epoch).or_default() += granted + reply.extra;
            *borrowed.entry(reply.epoch).or_default() += reply.extra;
            prop_assert_eq!(admitted[&reply.epoch], reply.used);
        }
        prop_assert!(admitted.values().all(|&hits| hits <= amount.into()), "{:?}", admitted);
    }
}

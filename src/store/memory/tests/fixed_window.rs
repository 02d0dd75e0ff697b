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

use super::*;

#[test]
fn needed_hits_are_granted_together_or_not_at_all() {
    let mut bucket = OneBucket::new(tokens(10, Unit::Second, 20));
    let reply = bucket.acquire(15, 0);
    assert_eq!((reply.granted, reply.extra, reply.used), (true, 0, 15 * SECOND));
    let reply = bucket.acquire(6, 6);
    assert_eq!((reply.granted, reply.extra, reply.used), (false, 0, 15 * SECOND));
    assert_eq!(reply.retry_after, Micros(100_000));
    bucket.pass(100_000);
    assert!(bucket.acquire(6, 0).granted);
}

#[test]
fn a_replica_may_borrow_half_of_what_is_free_and_all_when_little_is_left() {
    let mut bucket = OneBucket::new(tokens(1000, Unit::Second, 100));
    // In 10 ms the rate yields 10 tokens, so half of 13 is little.
    let extra: Vec<_> = (0..5).map(|_| bucket.acquire(0, 1000).extra).collect();
    assert_eq!(extra, [50, 25, 12, 13, 0]);
}

#[test]
fn an_empty_bucket_fills_from_when_the_clock_went_back_even_if_all_are_refused() {
    let mut bucket = OneBucket::new(tokens(10, Unit::Second, 10));
    assert!(bucket.acquire(10, 0).granted);
    bucket.now = bucket.now - Micros(3_600 * SECOND);
    assert!(!bucket.acquire(5, 0).granted);
    bucket.pass(500_000);
    assert!(bucket.acquire(5, 0).granted);
}

#[test]
fn a_lease_lasts_until_the_end_of_the_next_epoch() {
    let mut bucket = OneBucket::new(tokens(10, Unit::Minute, 10));
    let begun = bucket.acquire(1, 0).epoch;
    bucket.pass(14 * SECOND);
    let reply = bucket.acquire(0, 4);
    assert_eq!((reply.epoch, reply.lease_time), (begun, Micros::from_seconds(16)));
    bucket.pass(SECOND);
    let reply = bucket.look();
    assert_eq!((reply.epoch, reply.lease_time), (begun + 15 * SECOND, Micros::from_seconds(30)));
}

#[test]
fn what_is_out_is_not_refilled_before_it_is_known_to_be_spent_or_its_lease_ends() {
    let mut bucket = OneBucket::new(tokens(1, Unit::Second, 10));
    let lease = bucket.acquire(0, 5);
    bucket.pass(1_500_000);
    assert_eq!(bucket.free(), 5, "all that is used is out");
    bucket.tell(0, 0, spent(lease.epoch, 3));
    assert_eq!(bucket.free(), 5, "time that has passed at that floor is never counted");
    bucket.pass(499_999);
    assert_eq!(bucket.look().used, 4_500_001);
    bucket.pass(1);
    assert_eq!(bucket.look().used, 4_500_000);
    bucket.pass(5 * SECOND);
    assert_eq!(bucket.look().used, 0, "the lease has ended");
}

#[test]
fn returned_tokens_are_free_at_once_and_only_once() {
    let mut bucket = OneBucket::new(tokens(1, Unit::Hour, 10));
    let lease = bucket.acquire(0, 5);
    bucket.tell(0, 0, returned(lease.epoch, 3));
    assert_eq!(bucket.free(), 8);
    bucket.tell(0, 0, returned(lease.epoch, 3));
    assert_eq!(bucket.free(), 10, "only two were out");
}

#[test]
fn facts_of_epochs_that_are_over_or_unknown_change_nothing() {
    let mut bucket = OneBucket::new(tokens(1, Unit::Hour, 1000));
    let epoch = bucket.acquire(0, 5).epoch;
    bucket.pass(120 * SECOND);
    bucket.acquire(1, 5);
    let before = bucket.look();
    for other in [0, epoch, epoch - 1, epoch + 1, epoch + 180 * SECOND, u64::MAX] {
        assert_eq!(bucket.tell(0, 0, spent(other, 5)), before);
        assert_eq!(bucket.tell(0, 0, returned(other, 5)), before);
        assert_eq!(bucket.tell(0, 0, unused(other, 5, 0)), before);
    }
}

#[test]
fn unused_hits_come_back_less_what_refill_has_given_since() {
    let mut bucket = OneBucket::new(tokens(1, Unit::Second, 10));
    bucket.acquire(4, 0);
    bucket.pass(SECOND / 2);
    let grant = bucket.acquire(4, 0);
    assert_eq!((grant.used, grant.mark), (7_500_000, 500_000));
    bucket.pass(SECOND / 4);
    assert_eq!(bucket.tell(0, 0, unused(grant.epoch, 4, grant.mark)).used, 3_500_000);
}

#[test]
fn unused_hits_that_nobody_was_granted_never_free_what_is_out() {
    let mut bucket = OneBucket::new(tokens(1, Unit::Hour, 10));
    let epoch = bucket.acquire(1, 4).epoch;
    assert_eq!(bucket.tell(0, 0, unused(epoch, 10, 0)).used, 4 * SECOND);
}

#[test]
fn a_refund_gives_back_what_is_spent_and_not_what_is_out() {
    let mut bucket = OneBucket::new(tokens(1, Unit::Hour, 10));
    bucket.acquire(3, 3);
    bucket.pass(SECOND);
    let reply = bucket.serve(Operation::Refund { hits: 5 });
    assert_eq!((reply.granted, reply.extra, reply.used), (true, 2, 3 * SECOND), "2.999723 were still used");
    assert_eq!(reply.mark, 3 * SECOND);
}

#[test]
fn a_debit_ends_one_burst_below_zero_at_most() {
    let mut bucket = OneBucket::new(tokens(1, Unit::Hour, 10));
    assert!(bucket.serve(Operation::Debit { hits: 10 }).granted);
    let reply = bucket.serve(Operation::Debit { hits: u64::MAX });
    assert_eq!((reply.granted, reply.used), (false, 20 * SECOND));
    bucket.limit = tokens(1, Unit::Hour, 5);
    assert_eq!(bucket.serve(Operation::Debit { hits: 1 }).used, 20 * SECOND, "a lower limit gives nothing back");
}

//! What a replica holds of one bucket: sizing, holding, facts, denials.

use super::super::lease::{Grant, LeaseSettings, Leases, Pace, hits_in};
use crate::limit::{Algorithm, Limit, Micros, Unit};
use crate::store::{LeaseFact, Reply, UnusedFact};

const PACE: Pace = Pace { replicas: 1, random: 0.5 };

fn per_second(amount: u32) -> Limit {
    Limit::per(amount, Unit::Second, Algorithm::TokenBucket)
}

fn millis(millis: u64) -> Micros {
    Micros(millis * 1_000)
}

/// A grant of an epoch whose leases end in two seconds.
fn grant(epoch: u64, extra: u64, used: u64) -> Reply {
    Reply {
        granted: true,
        extra,
        epoch,
        lease_time: millis(2_000),
        retry_after: Micros(0),
        used: used * 1_000_000,
        mark: 0,
    }
}

fn refusal(used: u64, retry_after: Micros) -> Reply {
    Reply { granted: false, retry_after, ..grant(0, 0, used) }
}

/// Leases of 100 a second, of which these were granted at 0 ms.
fn holding(grants: &[(u64, u64)]) -> Leases {
    let limit = per_second(100);
    let mut leases = Leases::new(limit);
    for (epoch, extra) in grants {
        leases.receive(&grant(*epoch, *extra, 50), &limit, Micros(0), PACE, Micros(0));
    }
    leases
}

#[test]
fn a_lease_ends_three_percent_early_counted_from_when_the_call_was_sent() {
    let limit = per_second(100);
    let mut leases = Leases::new(limit);
    leases.receive(&grant(1, 10, 50), &limit, millis(100), PACE, millis(105));
    assert_eq!(leases.held(millis(2_039)), 10);
    assert_eq!(leases.held(millis(2_040)), 0, "100 ms + 97 % of 2 s");
}

#[test]
fn the_oldest_lease_is_spent_first_and_all_or_nothing() {
    let mut leases = holding(&[(1, 3), (2, 5)]);
    assert!(leases.spend(9, millis(1)).is_none());
    assert_eq!(leases.held(millis(1)), 8);
    assert!(leases.spend(4, millis(1)).is_some());
    let facts = leases.facts();
    assert_eq!(
        &facts.leased[..],
        [LeaseFact { epoch: 1, spent: 3, returned: 0 }, LeaseFact { epoch: 2, spent: 1, returned: 0 }]
    );
    assert!(leases.facts().is_empty(), "each is told once");
}

#[test]
fn a_third_epoch_drops_the_oldest() {
    let mut leases = holding(&[(1, 3), (2, 5), (3, 7)]);
    assert_eq!(leases.held(millis(1)), 12);
}

#[test]
fn what_is_set_aside_is_neither_held_nor_spent_until_it_is_decided() {
    let mut leases = holding(&[(1, 10)]);
    let aside = leases.set_aside(4, millis(1));
    assert_eq!((hits_in(&aside), leases.held(millis(1)), leases.news()), (4, 6, 0));
    leases.put_back(&aside, millis(2));
    assert_eq!((leases.held(millis(2)), leases.news()), (10, 0));
    let aside = leases.set_aside(4, millis(3));
    leases.spend_aside(&aside);
    assert_eq!((leases.held(millis(3)), leases.news()), (6, 4));
}

#[test]
fn what_is_put_back_after_its_lease_has_ended_is_returned() {
    let mut leases = holding(&[(1, 10)]);
    let aside = leases.set_aside(4, millis(1));
    leases.put_back(&aside, millis(1_950));
    assert_eq!(leases.held(millis(1_950)), 0);
    assert_eq!(&leases.facts().leased[..], [LeaseFact { epoch: 1, spent: 0, returned: 4 }]);
}

#[test]
fn what_is_idle_is_returned_in_the_last_half_epoch() {
    let mut leases = holding(&[(1, 10)]);
    leases.return_idle(millis(1_439));
    assert_eq!(leases.held(millis(1_439)), 10);
    leases.return_idle(millis(1_440));
    assert_eq!(leases.held(millis(1_440)), 0);
    assert_eq!(&leases.facts().leased[..], [LeaseFact { epoch: 1, spent: 0, returned: 10 }]);
}

#[test]
fn the_facts_of_a_call_that_was_not_made_are_told_again() {
    let mut leases = holding(&[(1, 10)]);
    leases.spend(3, millis(1));
    leases.leave_unused(Grant { epoch: 1, hits: 2, mark: 7 });
    let facts = leases.facts();
    assert!(leases.facts().is_empty());
    leases.take_facts_back(&facts, millis(2));
    assert_eq!(leases.facts(), facts);
    assert_eq!(&facts.unused[..], [UnusedFact { epoch: 1, hits: 2, mark: 7 }]);
}

#[test]
fn a_lease_is_as_large_as_what_was_consumed_in_the_horizon() {
    // The horizon of 100 a second is half of the second in which it fills.
    let mut leases = Leases::new(per_second(100));
    let settings = LeaseSettings::default();
    leases.consume(1);
    assert_eq!(leases.want(1, &settings, millis(0)), 0, "nothing is known of the first request");
    leases.consume(2);
    assert_eq!(leases.want(1, &settings, millis(500)), 2);
    leases.consume(30);
    assert_eq!(leases.want(1, &settings, millis(1_000)), 4, "at most twice as much as the last time");
    leases.consume(30);
    assert_eq!(leases.want(20, &settings, millis(1_500)), 30, "but as much as those who wait need, and they are many");
    leases.consume(30);
    assert_eq!(leases.want(1, &settings, millis(1_510)), 60, "a quarter of the horizon is measured at least");
    assert_eq!(leases.want(1, &settings, millis(2_000)), 0, "nobody has asked");
}

#[test]
fn what_is_held_is_not_wanted_again() {
    let mut leases = holding(&[(1, 10)]);
    let settings = LeaseSettings::default();
    leases.want(1, &settings, millis(0));
    leases.consume(40);
    assert_eq!(leases.want(20, &settings, millis(500)), 30);
    assert!(!leases.should_renew(millis(500)));
    leases.spend(1, millis(500));
    assert!(leases.should_renew(millis(500)), "9 are below a quarter of 40");
}

#[test]
fn a_small_lease_is_not_renewed_ahead() {
    let mut leases = Leases::new(per_second(100));
    let settings = LeaseSettings::default();
    leases.want(1, &settings, millis(0));
    leases.consume(1);
    assert_eq!(leases.want(1, &settings, millis(500)), 1);
    assert!(!leases.should_renew(millis(500)));
    leases.consume(2);
    assert_eq!(leases.want(1, &settings, millis(1_000)), 2);
    assert!(leases.should_renew(millis(1_000)));
}

#[test]
fn a_refusal_is_remembered_for_a_second_at_most() {
    let limit = per_second(100);
    let mut leases = Leases::new(limit);
    leases.receive(&refusal(100, Micros::from_seconds(60)), &limit, Micros(0), PACE, Micros(0));
    assert!(leases.knows_refusal(1, 0, millis(874)));
    assert!(!leases.knows_refusal(1, 1, millis(874)), "one may have flown back");
    assert!(!leases.knows_refusal(1, 0, millis(875)), "a second less a random part");
    leases.receive(&refusal(100, millis(30)), &limit, Micros(0), PACE, Micros(0));
    assert!(leases.knows_refusal(1, 0, millis(29)));
    assert!(!leases.knows_refusal(1, 0, millis(30)));
}

#[test]
fn whoever_got_the_last_hits_waits_before_he_asks_again() {
    let limit = per_second(1_000);
    let mut leases = Leases::new(limit);
    leases.receive(&grant(1, 5, 991), &limit, Micros(0), PACE, Micros(0));
    assert!(leases.knows_refusal(6, 1_000, millis(9)), "9 are left, and 10 ms yield 10");
    assert!(!leases.knows_refusal(6, 1_000, millis(10)));
    leases.receive(&grant(1, 5, 990), &limit, Micros(0), PACE, millis(20));
    assert!(!leases.knows_refusal(6, 1_000, millis(20)), "10 are left");
    let many = Pace { replicas: 32, random: 0.5 };
    leases.receive(&grant(1, 5, 991), &limit, Micros(0), many, millis(20));
    assert!(leases.knows_refusal(6, 1_000, millis(59)), "32 replicas wait four times as long");
    assert!(!leases.knows_refusal(6, 1_000, millis(60)));
}

#[test]
fn a_changed_limit_returns_what_is_held_and_forgets_what_was_refused() {
    let mut leases = holding(&[(1, 10)]);
    leases.receive(&refusal(100, millis(30)), &per_second(100), Micros(0), PACE, Micros(0));
    leases.change(per_second(200), millis(1));
    assert_eq!(leases.held(millis(1)), 0);
    assert!(!leases.knows_refusal(1, 0, millis(1)));
    leases.receive(&grant(1, 7, 50), &per_second(100), Micros(0), PACE, millis(2));
    assert_eq!(leases.held(millis(2)), 0, "granted under the old limit");
    assert_eq!(&leases.facts().leased[..], [LeaseFact { epoch: 1, spent: 0, returned: 17 }]);
}

#[test]
fn of_a_fixed_window_only_what_is_returned_is_told() {
    let limit = Limit::per(100, Unit::Minute, Algorithm::FixedWindow);
    let mut leases = Leases::new(limit);
    let window = Reply { lease_time: Micros::from_seconds(60), used: 50, ..grant(7, 10, 0) };
    leases.receive(&window, &limit, Micros(0), PACE, Micros(0));
    leases.spend(4, millis(1));
    assert!(leases.facts().is_empty());
    leases.return_idle(Micros::from_seconds(22));
    assert_eq!(leases.held(Micros::from_seconds(22)), 6);
    leases.return_idle(Micros(22_500_000));
    assert_eq!(leases.held(Micros(22_500_000)), 0, "idle for one and a half times the pace of 15 s");
    assert_eq!(&leases.facts().leased[..], [LeaseFact { epoch: 7, spent: 0, returned: 6 }]);
}

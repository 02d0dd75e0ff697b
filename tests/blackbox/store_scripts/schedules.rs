//! What happens in a known order. Each call is made to the model and to the script on both servers, which must agree.

use comporta::limit::{Algorithm, Limit, Micros, Unit};
use comporta::store::{Facts, LeaseFact, Operation, Reply, StoreCall, UnusedFact};
use redis::Connection;

use super::start;
use super::steps::{BUCKET, World};
use super::watched::{Scripts, Seen, numbers};
use crate::harness::{Flavour, Redis};

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3600 * SECOND;

/// One bucket, three times.
#[derive(Debug)]
struct Bucket {
    world: World,
    servers: Vec<Server>,
}

struct Server {
    _redis: Redis,
    connection: Connection,
    scripts: Scripts,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Bucket {
    fn new() -> Self {
        let servers = Flavour::ALL.map(|flavour| {
            let redis = start(flavour);
            let mut connection = redis.connect();
            let scripts = Scripts::load(&mut connection);
            Server { _redis: redis, connection, scripts }
        });
        Self { world: World::new(), servers: servers.into() }
    }

    fn now(&self) -> u64 {
        self.world.now.0
    }

    fn pass(&mut self, micros: u64) {
        self.world.now = self.world.now + Micros(micros);
    }

    fn serve(&mut self, limit: Limit, operation: Operation) -> Reply {
        let call = StoreCall { bucket: BUCKET.into(), limit, operation };
        let is_kept = self.world.kept_until_millis().is_some();
        let reply = self.world.serve(&call);
        for server in &mut self.servers {
            if !is_kept {
                redis::cmd("DEL").arg(BUCKET).exec(&mut server.connection).unwrap();
            }
            let answer: String = server.scripts.command(&call, self.world.now).query(&mut server.connection).unwrap();
            let seen = Seen::parse(&answer);
            assert_eq!(seen.reply, numbers(&reply));
            assert_eq!(seen.fields, self.world.fields());
        }
        reply
    }

    fn acquire(&mut self, limit: Limit, needed: u64, want: u64) -> Reply {
        self.serve(limit, Operation::Acquire { needed, want, facts: Facts::default() })
    }

    fn tell(&mut self, limit: Limit, facts: Facts) -> Reply {
        self.serve(limit, Operation::Acquire { needed: 0, want: 0, facts })
    }

    /// What is used, as the hash would say if somebody wrote it now.
    fn used(&mut self, limit: Limit) -> u64 {
        self.acquire(limit, 0, 0).used
    }

    /// Borrows until nothing is left.
    fn borrow_all(&mut self, limit: Limit) {
        while self.acquire(limit, 0, u64::from(limit.capacity())).extra > 0 {}
        assert!(!self.acquire(limit, 1, 0).granted);
    }
}

fn tokens(amount: u32, unit: Unit, burst: u32) -> Limit {
    Limit::new(amount, unit, 1, Some(burst), Algorithm::TokenBucket).unwrap()
}

fn lease(epoch: u64, spent: u64, returned: u64) -> Facts {
    Facts { leased: [LeaseFact { epoch, spent, returned }].into_iter().collect(), ..Facts::default() }
}

fn unused(epoch: u64, hits: u64, mark: u64) -> Facts {
    Facts { unused: [UnusedFact { epoch, hits, mark }].into_iter().collect(), ..Facts::default() }
}

#[test]
fn what_was_out_flows_back_only_from_when_its_lease_ends() {
    let limit = tokens(1, Unit::Second, 10);
    let mut bucket = Bucket::new();
    bucket.borrow_all(limit);
    // Epochs are of one second, so these leases end after two. Five have passed since when somebody looks.
    bucket.pass(5 * SECOND);
    assert_eq!(bucket.used(limit), 7 * SECOND);
    // The same in pieces, with leases of two epochs: the second lease is granted half an epoch later.
    let mut bucket = Bucket::new();
    let first = bucket.acquire(limit, 0, 5);
    bucket.pass(SECOND + SECOND / 2);
    let second = bucket.acquire(limit, 0, 2);
    assert_eq!((first.extra, second.extra, second.epoch), (5, 2, first.epoch + SECOND));
    bucket.pass(SECOND / 2 - 1);
    assert_eq!(bucket.used(limit), 7 * SECOND);
    bucket.pass(1 + SECOND);
    assert_eq!(bucket.used(limit), 6 * SECOND, "since the first lease has ended");
    bucket.pass(3 * SECOND);
    assert_eq!(bucket.used(limit), 3 * SECOND, "since the second has ended, too");
}

#[test]
fn a_bucket_is_kept_until_its_leases_are_over_and_it_is_full() {
    let limit = tokens(1, Unit::Minute, 10);
    let mut bucket = Bucket::new();
    let first = bucket.acquire(limit, 1, 4);
    assert_eq!(first.lease_time, Micros(30 * SECOND));
    // Looks and refusals do not make it longer.
    bucket.pass(20 * SECOND);
    assert!(!bucket.acquire(limit, 10, 0).granted);
    let began = bucket.world.kept_until_millis().unwrap() * 1000 - 330 * SECOND;
    assert_eq!(began, first.epoch, "30 s of leases, and 5 tokens a minute each");
    bucket.world.now = Micros(first.epoch + 330 * SECOND);
    assert_eq!(bucket.used(limit), 0, "full in the last instant in which it is there");
    bucket.pass(1000);
    assert_eq!(bucket.acquire(limit, 0, 1).epoch, bucket.now(), "a new bucket");
    assert_eq!(bucket.tell(limit, lease(first.epoch, 1, 3)).used, SECOND, "of which old leases know nothing");
}

#[test]
fn facts_about_a_bucket_that_was_lost_do_not_touch_the_new_one() {
    let limit = tokens(1, Unit::Minute, 10);
    let mut bucket = Bucket::new();
    let lost = bucket.acquire(limit, 2, 4);
    // Redis has lost its memory.
    bucket.world.forget();
    bucket.pass(SECOND);
    let new = bucket.acquire(limit, 2, 4);
    assert_ne!(new.epoch, lost.epoch);
    assert_eq!(bucket.tell(limit, lease(lost.epoch, 1, 3)).used, 6 * SECOND);
    assert_eq!(bucket.tell(limit, unused(lost.epoch, 2, lost.mark)).used, 6 * SECOND);
}

#[test]
fn a_call_that_was_on_its_way_for_two_epochs_touches_no_later_lease() {
    let limit = tokens(1, Unit::Hour, 100);
    let mut bucket = Bucket::new();
    let first = bucket.acquire(limit, 3, 5);
    for _ in 0..2 {
        bucket.pass(60 * SECOND);
        bucket.acquire(limit, 0, 10);
    }
    let before = bucket.used(limit);
    assert_eq!(bucket.tell(limit, lease(first.epoch, 2, 3)).used, before);
    assert_eq!(bucket.tell(limit, unused(first.epoch, 3, first.mark)).used, before);
    let out = "out 10 out_before 10";
    assert!(bucket.world.fields().contains(out), "{}", bucket.world.fields());
}

#[test]
fn when_the_clock_goes_back_leases_last_longer_and_old_facts_change_nothing() {
    for back in [1, SECOND / 3, 60 * SECOND, HOUR, 7 * HOUR] {
        let limit = tokens(3600, Unit::Hour, 10);
        let mut bucket = Bucket::new();
        let before = bucket.acquire(limit, 0, 4);
        bucket.pass(60 * SECOND);
        bucket.acquire(limit, 0, 1);
        bucket.world.now = bucket.world.now - Micros(back);
        let after = bucket.acquire(limit, 0, 1);
        let in_step = before.epoch.abs_diff(bucket.now()).is_multiple_of(60 * SECOND);
        assert_eq!(after.epoch, bucket.now() - u64::from(in_step), "a name that was never used");
        for old in [before.epoch, before.epoch + 60 * SECOND] {
            assert_eq!(bucket.tell(limit, lease(old, 4, 0)).used, 6 * SECOND);
            assert_eq!(bucket.tell(limit, lease(old, 0, 4)).used, 6 * SECOND);
            assert_eq!(bucket.tell(limit, unused(old, 4, 0)).used, 6 * SECOND);
        }
        bucket.world.now = Micros(after.epoch + 120 * SECOND - 1);
        assert_eq!(bucket.used(limit), 6 * SECOND, "all are out until the new epoch's leases end");
        bucket.pass(SECOND + 1);
        assert_eq!(bucket.used(limit), 5 * SECOND);
    }
}

#[test]
fn an_empty_bucket_fills_from_when_the_clock_went_back_even_if_all_are_refused() {
    let limit = tokens(10, Unit::Second, 10);
    let mut bucket = Bucket::new();
    assert!(bucket.acquire(limit, 10, 0).granted);
    bucket.world.now = bucket.world.now - Micros(HOUR);
    assert!(!bucket.acquire(limit, 5, 0).granted);
    bucket.pass(SECOND / 2);
    assert!(bucket.acquire(limit, 5, 0).granted);
}

#[test]
fn what_is_borrowed_is_counted_when_the_limit_is_raised_and_when_it_is_lowered() {
    let (low, high) = (tokens(10, Unit::Hour, 10), tokens(100, Unit::Hour, 100));
    let mut bucket = Bucket::new();
    let borrowed = bucket.acquire(low, 0, 5);
    assert_eq!(borrowed.extra, 5);
    let raised = bucket.acquire(high, 40, 1000);
    assert_eq!((raised.granted, raised.extra), (true, 27), "half of 100 - 5 - 40");
    assert_eq!(bucket.used(high), 72 * SECOND);
    let lowered = bucket.acquire(low, 1, 1);
    assert_eq!((lowered.granted, lowered.extra), (false, 0));
    assert_eq!(lowered.retry_after, Micros(63 * 360 * SECOND), "63 tokens at ten an hour");
    let returned = bucket.tell(low, lease(raised.epoch, 0, 27));
    assert_eq!(returned.used, 45 * SECOND);
    assert!(bucket.acquire(high, 55, 0).granted);
}

#[test]
fn a_low_limit_that_looks_or_is_refused_destroys_no_refill() {
    let (policy, own) = (tokens(3600, Unit::Hour, 10), tokens(1, Unit::Hour, 1));
    let mut bucket = Bucket::new();
    assert!(bucket.acquire(policy, 10, 0).granted);
    for _ in 0..5 {
        bucket.pass(SECOND);
        bucket.acquire(own, 0, 0);
        assert!(!bucket.acquire(own, 1, 1).granted);
        bucket.tell(own, lease(1, 1, 1));
        // Nothing is out, so a want of what is not free moves nothing either.
        assert_eq!(bucket.acquire(own, 0, 1).extra, 0);
    }
    assert_eq!(bucket.used(policy), 5 * SECOND);
    assert!(bucket.acquire(policy, 5, 0).granted);
}

#[test]
fn a_refused_or_idle_special_call_destroys_no_refill() {
    let (policy, own) = (tokens(3600, Unit::Hour, 10), tokens(1, Unit::Hour, 1));
    let mut bucket = Bucket::new();
    assert!(bucket.acquire(policy, 10, 0).granted);
    bucket.pass(5 * SECOND);
    bucket.serve(own, Operation::Debit { hits: 100 });
    assert_eq!(bucket.used(policy), 5 * SECOND, "twice a burst of 1 is used already");
}

#[test]
fn a_refund_without_end_is_counted_as_far_as_numbers_are_exact() {
    const MOST_EXACT: u64 = (1 << 53) - 1;
    let limit = tokens(1, Unit::Hour, u32::MAX);
    let all = u64::from(u32::MAX);
    let mut bucket = Bucket::new();
    for _ in 0..3 {
        assert!(bucket.acquire(limit, all, 0).granted);
        assert_eq!(bucket.serve(limit, Operation::Refund { hits: all }).extra, all);
    }
    let grant = bucket.acquire(limit, 7, 0);
    assert_eq!((grant.mark, grant.used), (MOST_EXACT, 7 * SECOND));
    assert_eq!(bucket.tell(limit, unused(grant.epoch, 7, grant.mark)).used, 7 * SECOND, "they may have been refilled");
}

#[test]
fn the_largest_exact_amount_is_refilled_exactly() {
    let decade = |amount| Limit::new(amount, Unit::Year, 10, Some(u32::MAX), Algorithm::TokenBucket).unwrap();
    let most = u32::try_from(decade(1).most_exact_amount()).unwrap();
    let limit = decade(most);
    let mut bucket = Bucket::new();
    assert!(bucket.acquire(limit, u64::from(u32::MAX), 0).granted);
    let began = bucket.now();
    for step in 1..=200 {
        bucket.pass(limit.tick() - step);
        // It takes something, so that the time up to here is settled and the rest of a tick is carried.
        bucket.serve(limit, Operation::Debit { hits: 1 });
        let elapsed = u128::from(bucket.now() - began);
        let refilled = u64::try_from(elapsed * u128::from(most) / u128::from(limit.tick())).unwrap();
        assert_eq!(bucket.used(limit), (u64::from(u32::MAX) + step) * SECOND - refilled);
    }
}

#[test]
fn a_fixed_window_waits_until_a_clock_that_went_back_has_caught_up() {
    let limit = Limit::per(10, Unit::Minute, Algorithm::FixedWindow);
    let mut bucket = Bucket::new();
    let window = bucket.acquire(limit, 8, 0);
    bucket.world.now = bucket.world.now - Micros(HOUR);
    let refused = bucket.acquire(limit, 3, 0);
    assert_eq!((refused.granted, refused.epoch, refused.used), (false, window.epoch, 8));
    assert_eq!(refused.retry_after, window.lease_time + Micros(HOUR));
    bucket.pass(HOUR);
    bucket.pass(window.lease_time.0);
    let next = bucket.acquire(limit, 3, 0);
    assert_eq!((next.granted, next.epoch, next.used), (true, window.epoch + 1, 3));
}

#[test]
fn nobody_is_told_to_wait_for_more_than_ten_years() {
    let ten_years = Micros::from_seconds(315_360_000);
    for algorithm in Algorithm::ALL {
        let limit = Limit::new(1, Unit::Year, 10, None, algorithm).unwrap();
        let mut bucket = Bucket::new();
        bucket.serve(limit, Operation::Debit { hits: 2 });
        // To before this window of ten years began.
        bucket.world.now = bucket.world.now - Micros(5 * 365 * 24 * HOUR);
        bucket.serve(limit, Operation::Debit { hits: 2 });
        let refused = bucket.acquire(limit, 1, 0);
        assert_eq!((refused.granted, refused.retry_after), (false, ten_years), "{algorithm:?}");
    }
}

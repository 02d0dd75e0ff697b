//! The table of buckets: what is kept, swept and evicted.

use super::*;

fn at(seconds: u64) -> Now {
    let passed = Micros::from_seconds(seconds);
    Now { monotonic: START.monotonic + passed, utc: START.utc + passed }
}

const PER_MINUTE: &str = "
domain: d
descriptors:
  - {key: token, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: window, rate_limit: {requests_per_unit: 10, unit: minute, algorithm: fixed_window}}
";

fn take(engine: &Engine, entries: &str, hits: u64, now: Now) -> Code {
    engine.decide_now(&request(&[costing(entries, hits)]), now).unwrap().code
}

#[test]
fn buckets_that_are_full_again_are_swept_and_others_stay() {
    let engine = engine(PER_MINUTE);
    for name in 0..50 {
        take(&engine, &format!("token={name}"), 1, at(0));
        take(&engine, &format!("window={name}"), 1, at(0));
    }
    take(&engine, "token=busy", 10, at(0));
    assert_eq!(engine.table().len(), 101);
    engine.sweep(at(5), 1);
    assert_eq!(engine.table().len(), 101, "none is full after five seconds");
    engine.sweep(at(59), 1);
    assert_eq!(engine.table().len(), 1, "one hit is back after six, the window ended; ten need sixty");
    engine.sweep(at(60), 1);
    assert_eq!(engine.table().len(), 0);
}

#[test]
fn a_late_reader_of_the_clock_does_not_make_a_bucket_full_early() {
    let engine = engine(PER_MINUTE);
    take(&engine, "token=a", 10, at(10));
    take(&engine, "token=a", 1, at(5));
    engine.sweep(at(69), 1);
    assert_eq!(engine.table().len(), 1, "ten hits at 10 s are back at 70 s");
    engine.sweep(at(70), 1);
    assert_eq!(engine.table().len(), 0);
}

#[test]
fn a_bucket_that_loses_its_room_to_the_same_request_comes_back_when_that_is_refused() {
    let engine = Engine::new(policy(PER_MINUTE), EngineSettings { max_buckets: 2, ..settings() }, START);
    take(&engine, "token=a", 10, at(0));
    let crowd = ["token=a", "token=b", "token=c", "token=d"].map(|entries| costing(entries, 1));
    assert_eq!(engine.decide_now(&request(&crowd), at(0)).unwrap().code, Code::OverLimit);
    assert_eq!(take(&engine, "token=a", 1, at(0)), Code::OverLimit);
}

#[test]
fn a_sweep_in_parts_reaches_every_shard() {
    let engine = Engine::new(policy(PER_MINUTE), EngineSettings { max_buckets: 50_000, ..settings() }, START);
    for name in 0..5_000 {
        take(&engine, &format!("token={name}"), 1, at(0));
    }
    for _ in 0..100 {
        engine.sweep(at(60), 100);
    }
    assert_eq!(engine.table().len(), 0);
}

#[test]
fn the_cap_holds_whatever_keys_arrive() {
    let engine = Engine::new(policy(PER_MINUTE), EngineSettings { max_buckets: 3_000, ..settings() }, START);
    for name in 0..20_000 {
        take(&engine, &format!("token={name}"), 1, at(0));
        assert!(engine.table().len() <= 3_000);
    }
    assert_eq!(engine.table().len(), 3_000);
    assert_eq!(engine.table().evicted(), 17_000);
}

#[test]
fn the_bucket_that_is_idle_longest_goes_and_a_refused_one_is_not_idle() {
    let engine = Engine::new(policy(PER_MINUTE), EngineSettings { max_buckets: 3, ..settings() }, START);
    take(&engine, "window=hammering", 10, at(0));
    take(&engine, "token=old", 1, at(1));
    take(&engine, "token=new", 1, at(2));
    assert_eq!(take(&engine, "window=hammering", 1, at(3)), Code::OverLimit);
    take(&engine, "token=newest", 1, at(4));
    assert_eq!(take(&engine, "window=hammering", 1, at(5)), Code::OverLimit);
    assert_eq!(take(&engine, "token=old", 10, at(5)), Code::Ok, "it was forgotten, so it is full");
}

#[test]
fn who_has_read_the_clock_earlier_waits_no_longer() {
    let engine = engine(PER_MINUTE);
    take(&engine, "token=x", 5, at(10));
    let look = request(&[costing("token=x", 0)]);
    for seconds in [10, 9] {
        let decision = engine.decide_now(&look, at(seconds)).unwrap();
        assert_eq!(decision.statuses[0].seconds_until_reset, Some(30), "at {seconds} s");
    }
}

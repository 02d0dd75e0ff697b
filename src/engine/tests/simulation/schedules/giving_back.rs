//! What is borrowed and not spent comes back.

use super::*;

/// Whose tokens flow so slowly that none come back in a test by themselves.
const PER_DAY: &str = "
domain: d
descriptors:
  - {key: wide, rate_limit: {requests_per_unit: 100, unit: day}}
  - {key: narrow, rate_limit: {requests_per_unit: 1, unit: day}}
";

/// An engine that holds a lease of 100 a day, and how many of them have been spent.
fn engine_with_lease(desk: &mut Desk) -> (Engine, u64) {
    let engine = desk.engine(PER_DAY);
    for _ in 0..4 {
        desk.pass(1_000);
        assert!(desk.passes(&engine, &[costing("wide=x", 2)]));
    }
    assert!(held(&engine, desk.now()) > 0, "it has borrowed ahead");
    (engine, 8)
}

fn held(engine: &Engine, now: Now) -> u64 {
    let mut held = 0;
    engine.table.for_each(|slot| {
        held += slot.borrower.as_mut().map_or(0, |borrower| borrower.state(now.monotonic).held);
    });
    held
}

/// Another replica finds everything in the store that was not spent.
fn assert_nothing_is_lost(desk: &mut Desk, spent: u64) {
    let another = desk.engine(PER_DAY);
    assert_eq!(u64::from(desk.drain(&another, &[descriptor("wide=x")])), 100 - spent);
}

#[test]
fn what_was_granted_and_another_limit_refuses_goes_back() {
    for wide_is_answered_first in [true, false] {
        let mut desk = Desk::new();
        let other = desk.engine(PER_DAY);
        assert!(desk.passes(&other, &[descriptor("narrow=x")]));
        let engine = desk.engine(PER_DAY);
        let (mut waiting, mut calls) = desk.begin(&engine, &[costing("wide=x", 7), descriptor("narrow=x")]);
        let mut in_order = [take_call(&mut calls, "wide"), take_call(&mut calls, "narrow")];
        if !wide_is_answered_first {
            in_order.reverse();
        }
        let mut more = Vec::new();
        for call in in_order {
            let reply = desk.serve(&call);
            more.extend(desk.bring(&engine, call, reply));
        }
        assert_eq!(code(&mut waiting), Some(Code::OverLimit));
        desk.make(&engine, more);
        assert_nothing_is_lost(&mut desk, 0);
    }
}

#[test]
fn a_lease_is_given_back_while_a_late_reply_brings_more() {
    let mut desk = Desk::new();
    let (engine, spent) = engine_with_lease(&mut desk);
    // The rest of the lease is asked for, and so another call is under way.
    desk.pass(1_000);
    let (mut waiting, mut calls) = desk.begin(&engine, &[costing("wide=x", 20)]);
    let late = calls.remove(0);
    let late_reply = desk.serve(&late);
    desk.pass(10_000);
    let GivenUp { decision, calls: more, .. } = engine.give_up(&waiting, desk.now());
    assert_eq!(decision.unwrap().unwrap().code, Code::OverLimit);
    assert!(code(&mut waiting).is_none());
    desk.make(&engine, more);
    let more = engine.call_is_overdue(&late, desk.now());
    desk.make(&engine, more);
    let returns = engine.return_leases(desk.now());
    assert!(!returns.is_empty());
    // The reply overtakes what is returned.
    let more = desk.bring(&engine, late, late_reply);
    desk.make(&engine, returns);
    desk.make(&engine, more);
    let returns = engine.return_leases(desk.now());
    desk.make(&engine, returns);
    assert_nothing_is_lost(&mut desk, spent);
}

#[test]
fn the_reply_to_a_request_that_gave_up_is_held_and_what_it_needed_goes_back() {
    let mut desk = Desk::new();
    let (engine, spent) = engine_with_lease(&mut desk);
    let held_before = held(&engine, desk.now());
    desk.pass(1_000);
    let (waiting, mut calls) = desk.begin(&engine, &[costing("wide=x", 20)]);
    let call = calls.remove(0);
    assert_eq!(needed(&call), 20 - held_before);
    let reply = desk.serve(&call);
    assert!(reply.granted && reply.extra > 0);
    desk.pass(10_000);
    let more = engine.give_up(&waiting, desk.now()).calls;
    desk.make(&engine, more);
    let more = desk.bring(&engine, call, reply);
    assert_eq!(desk.make(&engine, more), 1, "what is unused is told at once");
    assert_eq!(held(&engine, desk.now()), held_before + reply.extra);
    let returns = engine.return_leases(desk.now());
    desk.make(&engine, returns);
    assert_nothing_is_lost(&mut desk, spent);
}

#[test]
fn a_caller_who_leaves_takes_nothing_along() {
    for is_answered_first in [true, false] {
        let mut desk = Desk::new();
        let (engine, spent) = engine_with_lease(&mut desk);
        // Two limits, so that the first answer alone decides nothing.
        let (waiting, mut calls) = desk.begin(&engine, &[costing("wide=x", 20), descriptor("narrow=x")]);
        let (wide, narrow) = (take_call(&mut calls, "wide"), take_call(&mut calls, "narrow"));
        let (wide_reply, narrow_reply) = (desk.serve(&wide), desk.serve(&narrow));
        let mut more = Vec::new();
        if is_answered_first {
            more.extend(desk.bring(&engine, wide, wide_reply));
            more.extend(engine.abandon(&waiting, desk.now()));
        } else {
            more.extend(engine.abandon(&waiting, desk.now()));
            more.extend(desk.bring(&engine, wide, wide_reply));
        }
        more.extend(desk.bring(&engine, narrow, narrow_reply));
        desk.make(&engine, more);
        let returns = engine.return_leases(desk.now());
        desk.make(&engine, returns);
        assert_nothing_is_lost(&mut desk, spent);
        let another = desk.engine(PER_DAY);
        assert!(desk.passes(&another, &[descriptor("narrow=x")]));
    }
}

#[test]
fn at_the_end_a_replica_returns_all_that_it_holds() {
    let mut desk = Desk::new();
    let (engine, spent) = engine_with_lease(&mut desk);
    let returns = engine.return_leases(desk.now());
    desk.make(&engine, returns);
    assert_eq!(held(&engine, desk.now()), 0);
    assert_nothing_is_lost(&mut desk, spent);
}

#[test]
fn a_lease_that_nobody_spends_is_returned_before_it_ends_and_the_bucket_is_forgotten() {
    let mut desk = Desk::new();
    let (engine, spent) = engine_with_lease(&mut desk);
    let calls = desk.keep_house(&engine, 121_000_000);
    assert_eq!(calls, 1, "one call returns all");
    assert_eq!(engine.table().len(), 0);
    assert_nothing_is_lost(&mut desk, spent);
}

#[test]
fn a_bucket_that_has_to_go_returns_its_lease() {
    let mut desk = Desk::new();
    let engine = Engine::new(policy(PER_DAY), EngineSettings { max_buckets: 1, ..settings() }, desk.now());
    for _ in 0..4 {
        desk.pass(1_000);
        assert!(desk.passes(&engine, &[costing("wide=x", 2)]));
    }
    assert!(held(&engine, desk.now()) > 0);
    desk.pass(1_000);
    assert!(desk.passes(&engine, &[costing("wide=another", 2)]));
    assert_eq!((engine.table().len(), engine.table().evicted()), (1, 1));
    assert_nothing_is_lost(&mut desk, 8);
}

#[test]
fn the_answer_to_a_bucket_that_has_gone_is_given_back() {
    let mut desk = Desk::new();
    let engine = Engine::new(policy(PER_DAY), EngineSettings { max_buckets: 1, ..settings() }, desk.now());
    assert!(desk.passes(&engine, &[costing("wide=x", 2)]));
    desk.pass(1_000);
    let (waiting, mut calls) = desk.begin(&engine, &[costing("wide=x", 2)]);
    let call = calls.remove(0);
    let reply = desk.serve(&call);
    assert!(reply.extra > 0);
    desk.pass(10_000);
    let mut more = engine.give_up(&waiting, desk.now()).calls;
    more.extend(engine.call_is_overdue(&call, desk.now()));
    desk.make(&engine, more);
    assert!(desk.passes(&engine, &[costing("wide=another", 2)]));
    let more = desk.bring(&engine, call, reply);
    assert_eq!(desk.make(&engine, more), 1);
    assert_nothing_is_lost(&mut desk, 2);
}

#[test]
fn a_call_that_never_ran_is_told_again_and_one_that_was_lost_is_not() {
    for (error, spent_twice) in
        [(StoreError::Unreachable(String::new()), false), (StoreError::Lost(String::new()), true)]
    {
        let mut desk = Desk::new();
        let (engine, spent) = engine_with_lease(&mut desk);
        let held = held(&engine, desk.now());
        for call in engine.return_leases(desk.now()) {
            let more = engine.take_answer(call, &Err(error.clone()), desk.now());
            assert!(more.is_empty(), "nothing is sent again by itself");
        }
        let returns = engine.return_leases(desk.now());
        desk.make(&engine, returns);
        let lost = if spent_twice { held } else { 0 };
        assert_nothing_is_lost(&mut desk, spent + lost);
    }
}

#[test]
#[should_panic(expected = "is told of")]
fn the_ledger_notices_a_fact_that_is_told_twice() {
    let mut desk = Desk::new();
    let (engine, _) = engine_with_lease(&mut desk);
    for call in engine.return_leases(desk.now()) {
        desk.serve(&call);
        desk.serve(&call);
    }
}

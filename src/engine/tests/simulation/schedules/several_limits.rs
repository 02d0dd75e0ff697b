//! Requests that several limits have to let pass, and limits that change.

use super::*;

#[test]
fn two_descriptors_of_one_bucket_are_taken_both_or_not_at_all() {
    let text = "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 10, unit: day}}]";
    let mut desk = Desk::new();
    let engine = desk.engine(text);
    assert!(desk.passes(&engine, &[costing("k=x", 3), costing("k=x", 3)]));
    assert!(!desk.passes(&engine, &[costing("k=x", 3), costing("k=x", 3)]));
    let returns = engine.return_leases(desk.now());
    desk.make(&engine, returns);
    let another = desk.engine(text);
    assert_eq!(desk.drain(&another, &[descriptor("k=x")]), 4);
}

const LOCAL_AND_SHARED: &str = "
domain: d
descriptors:
  - {key: local, rate_limit: {requests_per_unit: 10, unit: day, scope: replica}}
  - {key: shared, rate_limit: {requests_per_unit: 2, unit: day}}
";

#[test]
fn a_request_that_the_store_refuses_takes_nothing_from_a_limit_of_the_replica() {
    let both = [costing("local=x", 3), descriptor("shared=x")];
    let mut desk = Desk::new();
    let (engine, other) = (desk.engine(LOCAL_AND_SHARED), desk.engine(LOCAL_AND_SHARED));
    assert!(desk.passes(&other, &[costing("shared=x", 2)]));
    assert!(!desk.passes(&engine, &both), "refused by the store");
    assert!(!desk.passes(&engine, &both), "refused by what is known of it");
    assert_eq!(desk.drain(&engine, &[descriptor("local=x")]), 10);
}

#[test]
fn a_request_that_a_limit_of_the_replica_refuses_takes_nothing_from_the_store() {
    let mut desk = Desk::new();
    let engine = desk.engine(LOCAL_AND_SHARED);
    assert!(desk.passes(&engine, &[costing("local=x", 10), descriptor("shared=x")]));
    // While one request waits for the store, another takes what the replica's own limit had left for it.
    let engine = desk.engine(LOCAL_AND_SHARED);
    let (mut waiting, calls) = desk.begin(&engine, &[costing("local=x", 10), descriptor("shared=x")]);
    assert!(desk.passes(&engine, &[descriptor("local=x")]));
    desk.make(&engine, calls);
    assert_eq!(code(&mut waiting), Some(Code::OverLimit));
    let another = desk.engine(LOCAL_AND_SHARED);
    assert_eq!(desk.drain(&another, &[descriptor("shared=x")]), 1);
}

#[test]
fn an_overdraft_is_charged_when_another_limit_refuses() {
    let text = "
domain: d
descriptors:
  - {key: debt, rate_limit: {requests_per_unit: 10, unit: day, overdraft: true}}
  - {key: narrow, rate_limit: {requests_per_unit: 1, unit: day}}
";
    let mut desk = Desk::new();
    let engine = desk.engine(text);
    assert!(desk.passes(&engine, &[descriptor("narrow=x"), costing("debt=x", 2)]));
    assert!(!desk.passes(&engine, &[descriptor("narrow=x"), costing("debt=x", 2)]), "refused by the store");
    assert!(!desk.passes(&engine, &[descriptor("narrow=x"), costing("debt=x", 2)]), "refused by what is known");
    let returns = engine.return_leases(desk.now());
    desk.make(&engine, returns);
    let another = desk.engine(text);
    assert_eq!(desk.used(&another, "debt=x"), 6);
    assert!(!desk.passes(&another, &[costing("debt=x", 5)]));
    assert!(!desk.passes(&another, &[costing("debt=x", 1)]));
    assert_eq!(desk.used(&another, "debt=x"), 10, "it is below zero by two");
}

#[test]
fn an_overdraft_that_was_set_aside_is_charged_when_the_store_refuses_another_limit() {
    let text = "
domain: d
descriptors:
  - {key: debt, rate_limit: {requests_per_unit: 1000, unit: day, overdraft: true}}
  - {key: narrow, rate_limit: {requests_per_unit: 1, unit: day}}
";
    let mut desk = Desk::new();
    let (engine, other) = (desk.engine(text), desk.engine(text));
    assert!(desk.passes(&other, &[descriptor("narrow=x")]));
    // Until a lease is held, from which the next one is served.
    for _ in 0..20 {
        desk.pass(100_000);
        assert!(desk.passes(&engine, &[costing("debt=x", 2)]));
    }
    let used = desk.used(&other, "debt=x");
    let (mut waiting, calls) = desk.begin(&engine, &[costing("debt=x", 2), descriptor("narrow=x")]);
    assert_eq!(calls.len(), 1, "the overdraft is served from a lease");
    desk.make(&engine, calls);
    assert_eq!(code(&mut waiting), Some(Code::OverLimit));
    let returns = engine.return_leases(desk.now());
    desk.make(&engine, returns);
    assert!(used > 40, "a lease was out");
    // One that has not just heard from the store.
    let another = desk.engine(text);
    assert_eq!(desk.used(&another, "debt=x"), 42);
}

#[test]
fn an_overdraft_is_charged_once_if_another_limit_refuses_before_it_is_told() {
    let text = "
domain: d
descriptors:
  - {key: debt, rate_limit: {requests_per_unit: 10, unit: day, overdraft: true}}
  - {key: narrow, rate_limit: {requests_per_unit: 1, unit: day}}
";
    let mut desk = Desk::new();
    let (engine, other) = (desk.engine(text), desk.engine(text));
    assert!(desk.passes(&other, &[descriptor("narrow=x")]));
    let (mut waiting, mut calls) = desk.begin(&engine, &[costing("debt=x", 2), descriptor("narrow=x")]);
    let narrow = take_call(&mut calls, "narrow");
    desk.make(&engine, vec![narrow]);
    assert_eq!(code(&mut waiting), Some(Code::OverLimit));
    desk.make(&engine, calls);
    assert_eq!(desk.used(&other, "debt=x"), 2);
}

#[test]
fn who_was_refused_is_told_although_another_limit_counts_for_the_bucket_by_now() {
    let own_limit =
        |amount| Descriptor { limit: Some(LimitOverride { requests_per_unit: amount, unit: 4 }), ..descriptor("k=x") };
    let mut desk = Desk::new();
    let (engine, other) = (desk.engine(&limited_to(10)), desk.engine(&limited_to(10)));
    assert_eq!(desk.drain(&other, &[own_limit(10)]), 10);
    let (mut one, mut calls) = desk.begin(&engine, &[own_limit(10)]);
    let mut others = Vec::new();
    let call = calls.pop().unwrap();
    let reply = desk.serve(&call);
    for _ in 0..3 {
        others.push(desk.begin(&engine, &[own_limit(9)]));
    }
    let more = desk.bring(&engine, call, reply);
    assert_eq!(code(&mut one), Some(Code::OverLimit));
    assert_eq!(desk.make(&engine, more), 1, "one call for those who wait under the other limit");
    for (mut other, calls) in others {
        assert!(calls.is_empty(), "the store was being asked");
        assert_eq!(code(&mut other), Some(Code::OverLimit));
    }
}

#[test]
fn to_look_under_another_limit_leaves_the_lease_as_it_is() {
    let mut desk = Desk::new();
    let engine = engine_with_lease(&mut desk, 1000);
    let limit = Some(LimitOverride { requests_per_unit: 5, unit: 4 });
    let look = request(&[Descriptor { limit, ..costing("k=x", 0) }]);
    assert_eq!(desk.ask(&engine, &look).code, Code::OverLimit, "more than five are used");
    let ruling = engine.decide(&request(&[descriptor("k=x")]), desk.now()).unwrap();
    assert!(matches!(ruling.answer, Answer::Decided(_)), "the lease is still there");
}

fn limited_to(amount: u32) -> String {
    format!("domain: d\ndescriptors: [{{key: k, rate_limit: {{requests_per_unit: {amount}, unit: day}}}}]")
}

fn engine_with_lease(desk: &mut Desk, amount: u32) -> Engine {
    let engine = desk.engine(&limited_to(amount));
    for _ in 0..4 {
        desk.pass(1_000);
        assert!(desk.passes(&engine, &[costing("k=x", 2)]));
    }
    engine
}

#[test]
fn a_raised_limit_opens_at_once() {
    let mut desk = Desk::new();
    let engine = engine_with_lease(&mut desk, 20);
    assert_eq!(desk.drain(&engine, &[descriptor("k=x")]), 12);
    engine.set_policy(policy(&limited_to(30)), desk.now());
    assert_eq!(desk.drain(&engine, &[descriptor("k=x")]), 10);
}

#[test]
fn a_lowered_limit_counts_what_was_spent_and_what_was_borrowed_goes_back() {
    let mut desk = Desk::new();
    let engine = engine_with_lease(&mut desk, 40);
    engine.set_policy(policy(&limited_to(15)), desk.now());
    assert_eq!(desk.drain(&engine, &[descriptor("k=x")]), 7);
    let another = desk.engine(&limited_to(40));
    assert_eq!(desk.drain(&another, &[descriptor("k=x")]), 25);
}

#[test]
fn requests_that_bring_different_limits_for_one_bucket_all_make_progress() {
    let text = limited_to(1_000);
    let own_limit = |amount| {
        let limit = Some(LimitOverride { requests_per_unit: amount, unit: 3 });
        [Descriptor { limit, ..descriptor("k=x") }]
    };
    let mut desk = Desk::new();
    let engine = desk.engine(&text);
    for _ in 0..50 {
        desk.pass(1_000);
        assert!(desk.passes(&engine, &own_limit(1_000)));
        assert!(desk.passes(&engine, &own_limit(500)));
    }
    // Both wait at the same time.
    for _ in 0..10 {
        desk.pass(1_000);
        let (mut one, calls) =
            desk.begin(&engine, &[Descriptor { hits_addend: Some(150), ..own_limit(1_000)[0].clone() }]);
        let Ruling { answer, calls: more } = engine.decide(&request(&own_limit(500)), desk.now()).unwrap();
        desk.make(&engine, calls);
        desk.make(&engine, more);
        assert!(code(&mut one).is_some());
        if let Answer::Waiting(mut other) = answer {
            assert!(code(&mut other).is_some());
        }
    }
}

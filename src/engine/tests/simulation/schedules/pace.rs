//! How often the store is asked.

use super::*;

#[test]
fn denied_traffic_asks_the_store_no_more_than_once_in_the_retry_floor() {
    let text = "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 100, unit: second}}]";
    let mut desk = Desk::new();
    let engine = desk.engine(text);
    desk.drain(&engine, &[descriptor("k=x")]);
    let (mut calls, mut passed) = (0, 0);
    // A request every 100 µs for two seconds: 100 times over.
    for _ in 0..20_000 {
        desk.pass(100);
        let Ruling { answer, calls: made } = engine.decide(&request(&[descriptor("k=x")]), desk.now()).unwrap();
        calls += desk.make(&engine, made);
        let decision = match answer {
            Answer::Decided(decision) => decision,
            Answer::Waiting(mut waiting) => waiting.decision.try_recv().unwrap().unwrap(),
        };
        passed += u32::from(decision.code == Code::Ok);
    }
    // The floor is 10 ms, with a quarter of jitter.
    assert!(calls <= 2 * 134, "{calls} calls");
    assert!((195..=201).contains(&passed), "{passed} have passed");
}

#[test]
fn a_cost_above_the_burst_is_never_sent() {
    let text = "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 100, unit: second}}]";
    let desk = Desk::new();
    let engine = desk.engine(text);
    let Ruling { answer, calls } = engine.decide(&request(&[costing("k=x", 101)]), desk.now()).unwrap();
    assert!(calls.is_empty());
    assert!(matches!(answer, Answer::Decided(decision) if decision.code == Code::OverLimit));
}

#[test]
fn many_who_come_at_once_for_a_cold_key_are_served_by_three_calls() {
    let text = "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1000, unit: day}}]";
    let mut desk = Desk::new();
    let engine = desk.engine(text);
    let (mut waiting, calls): (Vec<_>, Vec<_>) = (0..200).map(|_| desk.begin(&engine, &[descriptor("k=x")])).unzip();
    let made = desk.make(&engine, calls.into_iter().flatten().collect());
    assert!(made <= 3, "{made} calls");
    assert!(waiting.iter_mut().all(|waiting| code(waiting) == Some(Code::Ok)));
}

#[test]
fn a_store_that_refuses_is_not_told_the_same_again_and_again() {
    let text = "
domain: d
descriptors:
  - {key: wide, rate_limit: {requests_per_unit: 100, unit: day}}
  - {key: narrow, rate_limit: {requests_per_unit: 1, unit: day}}
";
    let mut desk = Desk::new();
    let (engine, other) = (desk.engine(text), desk.engine(text));
    assert!(desk.passes(&other, &[descriptor("narrow=x")]));
    let (_waiting, mut calls) = desk.begin(&engine, &[costing("wide=x", 7), descriptor("narrow=x")]);
    let mut unused = Vec::new();
    for name in ["wide", "narrow"] {
        let call = take_call(&mut calls, name);
        let reply = desk.serve(&call);
        unused.extend(desk.bring(&engine, call, reply));
    }
    let call = unused.pop().expect("what was granted was not used");
    let more = engine.take_answer(call, &Err(StoreError::Refused("LOADING".to_owned())), desk.now());
    assert!(more.is_empty(), "{more:?}");
    // It is told later, when leases are looked after.
    assert!(desk.keep_house(&engine, 20_000_000) > 0);
    assert_eq!(desk.used(&other, "wide=x"), 0);
}

#[test]
fn what_is_too_little_to_return_is_forgotten_in_the_end() {
    let text = "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 100, unit: second}}]";
    let mut desk = Desk::new();
    let engine = desk.engine(text);
    for _ in 0..50 {
        desk.pass(20_000);
        assert!(desk.passes(&engine, &[descriptor("k=x")]));
    }
    assert_eq!(engine.table().len(), 1);
    desk.keep_house(&engine, 10_000_000);
    assert_eq!(engine.table().len(), 0);
}

#[test]
fn what_stands_in_for_the_store_remembers_what_it_let_pass() {
    let text = "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 10, unit: day}}]";
    let mut desk = Desk::new();
    let settings = EngineSettings { failure_mode: FailureMode::Local, ..settings() };
    let engine = Engine::new(policy(text), settings, desk.now());
    let mut passed = 0;
    for _ in 0..40 {
        let (mut waiting, calls) = desk.begin(&engine, &[descriptor("k=x")]);
        for call in calls {
            engine.take_answer(call, &Err(StoreError::Unreachable(String::new())), desk.now());
        }
        let decision = waiting.decision.try_recv().unwrap().unwrap();
        assert_eq!(decision.source, Source::Fallback);
        passed += u32::from(decision.code == Code::Ok);
        desk.pass(10_000_000);
        engine.sweep(desk.now(), 1);
    }
    assert_eq!(passed, 9, "nine tenths of ten a day, in 400 seconds");
}

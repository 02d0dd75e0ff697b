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

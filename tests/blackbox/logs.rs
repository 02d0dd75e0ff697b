//! What the log tells of decisions.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::grpc::{ask, request};
use crate::harness::{Comporta, PATIENCE, Setup, wait_for};

const POLICY: &str = "
domain: d
descriptors:
  - {key: tenant, rate_limit: {requests_per_unit: 2, unit: day}}
";

async fn start_and_ask(flags: &[&str], times: usize) -> (Setup, Comporta) {
    let setup = Setup::new(POLICY).flags(flags.iter().copied());
    let comporta = setup.start();
    let mut client = comporta.client();
    for _ in 0..times {
        ask(&mut client, request("d", ["tenant=a|b"])).await.unwrap();
    }
    (setup, comporta)
}

#[tokio::test]
async fn a_sample_of_the_refusals_is_told_with_how_many_there_were() {
    let (_setup, comporta) = start_and_ask(&[], 2).await;
    assert!(!comporta.log().contains("descriptor="), "what passes is not told: {}", comporta.log());
    let begun = Instant::now();
    let mut client = comporta.client();
    let mut refused = 0;
    while comporta.log().matches("refused").count() < 2 {
        assert!(begun.elapsed() < PATIENCE, "no second refusal is told: {}", comporta.log());
        ask(&mut client, request("d", ["tenant=a|b"])).await.unwrap();
        refused += 1;
    }
    let log = comporta.log();
    assert!(log.contains(r#"domain="d" descriptor="tenant=a%7Cb" rule="#) && log.contains("passed_over=0"), "{log}");
    let passed_over: u32 = log.rsplit_once("passed_over=").unwrap().1.trim().parse().unwrap();
    assert!((1..=refused - 2).contains(&passed_over), "of {refused} refusals two are told: {log}");
}

#[tokio::test]
async fn at_debug_every_decision_is_told_as_an_object_if_wanted() {
    let flags = ["--log-format=json", "--log-level=info,comporta::decisions=debug"];
    let (setup, comporta) = start_and_ask(&flags, 3).await;
    wait_for("the last line", || comporta.log().contains("over_limit").then_some(()));
    let lines: Vec<Value> = comporta.log().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let decisions: Vec<_> = lines.iter().filter(|line| line["target"] == "comporta::decisions").collect();
    let told = |field: &str| decisions.iter().map(|line| line[field].clone()).collect::<Vec<_>>();
    assert_eq!(told("message"), ["passes", "passes", "refused"]);
    assert_eq!(told("code"), ["ok", "ok", "over_limit"]);
    assert_eq!(told("remaining"), [1, 0, 0]);
    assert_eq!(told("source"), ["local", "local", "local"]);
    assert_eq!(told("descriptor"), ["tenant=a%7Cb"; 3]);
    let rule = setup.policy_path().join("policy.yaml").display().to_string() + ":4";
    assert!(told("rule").iter().all(|told| rule.ends_with(told.as_str().unwrap())), "{:?}", told("rule"));
}

/// Whoever reads the log slowly, or not at all, holds up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_holds_up_nobody() {
    let setup = Setup::new(POLICY).flags(["--log-level=info,comporta::decisions=debug"]);
    let mut comporta = setup.start_unread();
    let mut client = comporta.client();
    // A pipe takes 64 KiB, and so many lines take more than ten times that.
    for _ in 0..5_000 {
        ask(&mut client, request("d", ["tenant=a|b"])).await.unwrap();
    }
    assert!(comporta.is_ready());
    comporta.signal(Signal::TERM);
    comporta.wait_for_exit();
}

//! Collectors that are there, that are not, and that come too late.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use rustix::process::Signal;

use super::{POLICY, ask_in_trace, post, to, trace, traceparent};
use crate::harness::{Collector, Comporta, Setup, free_address, wait_for};

/// A batch and more.
const SOME: u32 = 2_000;

/// More than there is room for.
const MANY: u32 = 10_000;

/// A request that waits for a collector that does not answer waits for ten seconds.
const NOT_WAITED: Duration = Duration::from_secs(5);

/// Sends so many traced requests, and returns how long the slowest took.
async fn send(comporta: &Comporta, count: u32) -> Duration {
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let mut client = comporta.client();
            tokio::spawn(async move {
                let mut slowest = Duration::ZERO;
                for number in 0..count / 16 {
                    let asked = Instant::now();
                    assert_eq!(ask_in_trace(&mut client, "hot=x", number).await, Code::Ok);
                    slowest = slowest.max(asked.elapsed());
                }
                slowest
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for task in tasks {
        slowest = slowest.max(task.await.unwrap());
    }
    slowest
}

fn without_collector(endpoint: &str, protocol: &str) -> Setup {
    Setup::new(POLICY).flags([format!("--otlp-endpoint={endpoint}"), format!("--otlp-protocol={protocol}")])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_slows_nothing_and_ends_nothing() {
    for protocol in ["grpc", "http/protobuf"] {
        let setup = without_collector(&format!("http://{}", free_address()), protocol);
        let mut comporta = setup.start();
        assert!(send(&comporta, SOME).await < NOT_WAITED);
        let told = "spans are lost, because";
        wait_for("the loss to be told", || comporta.log().contains(told).then_some(()));
        assert!(send(&comporta, SOME).await < NOT_WAITED);
        let log = comporta.log();
        let lines = log.lines().filter(|line| line.contains("does not take them")).count();
        assert_eq!(lines, 1, "it is told once a minute: {log}");
        assert!(comporta.is_running());
        let stopped = Instant::now();
        comporta.signal(Signal::TERM);
        assert_eq!(comporta.wait_for_exit().code(), Some(0));
        assert!(stopped.elapsed() < Duration::from_secs(8), "it took {:?} to end", stopped.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_slows_nothing_and_the_end_but_a_little() {
    for protocol in ["grpc", "http/protobuf"] {
        let address = free_address();
        let _silent = TcpListener::bind(address).unwrap();
        let setup = Setup::new(POLICY).flags([
            format!("--otlp-endpoint=http://{address}"),
            format!("--otlp-protocol={protocol}"),
            "--drain-timeout=2".to_owned(),
        ]);
        let mut comporta = setup.start();
        assert!(send(&comporta, MANY).await < NOT_WAITED);
        let stopped = Instant::now();
        comporta.signal(Signal::TERM);
        assert_eq!(comporta.wait_for_exit().code(), Some(0));
        assert!(stopped.elapsed() < Duration::from_secs(5), "it took {:?} to end", stopped.elapsed());
        assert!(comporta.log().contains("the last traces were not taken"), "{}", comporta.log());
    }
}

#[test]
fn what_is_left_is_sent_at_the_end() {
    for (collector, protocol) in [(Collector::grpc(), "grpc"), (Collector::http(), "http/protobuf")] {
        let setup = Setup::new(POLICY).flags(to(&collector, protocol));
        let comporta = setup.start();
        for number in 0..1000 {
            post(&comporta, ("hot", "x"), &traceparent(number, "01"));
        }
        assert!(comporta.stop().success());
        let spans = collector.spans();
        assert_eq!(spans.len(), 1000, "all is there when the process has ended");
        assert!(spans.iter().any(|span| span.trace == trace(999)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_comes_back_gets_what_happens_then() {
    let collector = Collector::grpc();
    let (url, address) = (collector.url(), collector.address);
    let setup = without_collector(&url, "grpc");
    let comporta = setup.start();
    let mut client = comporta.client();
    ask_in_trace(&mut client, "own=x", 1).await;
    collector.wait_for_trace(&trace(1), 1);
    drop(collector);
    wait_for("it to be gone", || TcpListener::bind(address).is_ok().then_some(()));
    ask_in_trace(&mut client, "own=x", 2).await;
    wait_for("the loss to be told", || comporta.log().contains("does not take them").then_some(()));
    let collector = Collector::grpc_at(address);
    ask_in_trace(&mut client, "own=x", 3).await;
    let spans = collector.wait_for_trace(&trace(3), 1);
    assert_eq!(spans[0].get("comporta.code"), "ok");
    wait_for("the return to be told", || comporta.log().contains("traces are sent").then_some(()));
}

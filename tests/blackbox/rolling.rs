//! All replicas behind a real Envoy are restarted one after the other, under load.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Comporta, Envoy, Redis, Setup, fill_in, free_address, http, project_path, wait_for};

const REPLICAS: usize = 3;

/// So much may pass within the test, and not one more: what flows back in a year is nothing.
const LIMIT: usize = 600;

const POLICY: &str = "
domain: api
descriptors:
  - {key: tenant, value: busy, rate_limit: {requests_per_unit: 100000000, unit: minute}}
  - {key: tenant, value: limited, rate_limit: {requests_per_unit: 600, unit: year}}
";

/// Envoy asks the replicas themselves whether they are well, as Kubernetes' endpoints would say. One that is about to end
/// says so for two seconds: Envoy's workers may hear of it a second later (`update_merge_window`).
const HEALTH_CHECKS: &str = "
    health_checks:
    - timeout: 5s
      interval: 0.1s
      unhealthy_threshold: 1
      healthy_threshold: 1
      no_traffic_interval: 0.1s
      grpc_health_check: {}
";

fn setup(redis: &Redis) -> Setup {
    Setup::new(POLICY).flags([
        "--redis-url".to_owned(),
        redis.url(),
        "--redis-timeout=10s".to_owned(),
        "--drain-delay=2s".to_owned(),
        // Connections end of age meanwhile, too.
        "--max-connection-age=1s".to_owned(),
        "--log-level=warn".to_owned(),
    ])
}

/// An Envoy that refuses what nobody has decided, in front of these replicas.
fn start_envoy(replicas: &[SocketAddr]) -> (Envoy, SocketAddr, SocketAddr) {
    let (public, service, admin) = (free_address(), free_address(), free_address());
    let at = |address: &SocketAddr| format!("address: {}, port_value: {}}}", address.ip(), address.port());
    let endpoints: Vec<_> = replicas.iter().map(|address| format!("socket_address: {{{}}}", at(address))).collect();
    let endpoints = endpoints.join("}\n        - endpoint: {address: {");
    let example = fs::read_to_string(project_path("examples/envoy/envoy.yaml")).unwrap();
    let config = fill_in(
        &example,
        &[
            ("address: 127.0.0.1, port_value: 10000}", at(&public)),
            ("address: 127.0.0.1, port_value: 10001}", at(&service)),
            ("address: 127.0.0.1, port_value: 9901}", at(&admin)),
            ("socket_address: {address: 127.0.0.1, port_value: 8081}}", endpoints),
            ("connect_timeout: 0.25s", format!("connect_timeout: 10s{HEALTH_CHECKS}")),
            ("timeout: 0.1s", "timeout: 10s".to_owned()),
            ("failure_mode_deny: false", "failure_mode_deny: true".to_owned()),
        ],
    );
    (Envoy::start(&config, admin), public, admin)
}

/// How many replicas Envoy takes for healthy.
fn healthy(admin: SocketAddr) -> usize {
    let page = http::get(admin, "/clusters").unwrap().body;
    page.lines().filter(|line| line.starts_with("comporta::") && line.ends_with("::health_flags::healthy")).count()
}

/// Asks until it is told to stop; how often each status came.
fn ask(
    public: SocketAddr,
    tenant: &'static str,
    pause: Duration,
    is_over: &Arc<AtomicBool>,
) -> thread::JoinHandle<Vec<u16>> {
    let is_over = Arc::clone(is_over);
    thread::spawn(move || {
        let mut statuses = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            statuses.push(http::get_with(public, "/", &[("x-tenant", tenant.as_bytes())]).unwrap().status);
            thread::sleep(pause);
        }
        statuses
    })
}

#[test]
fn a_rolling_restart_fails_no_request_and_loses_no_hit() {
    let redis = Redis::start();
    let setups: Vec<Setup> = (0..REPLICAS).map(|_| setup(&redis)).collect();
    let mut replicas: Vec<Comporta> = setups.iter().map(Setup::start).collect();
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.addresses.grpc).collect();
    let (_envoy, public, admin) = start_envoy(&addresses);
    let all_are_healthy = || wait_for("Envoy to know of all", || (healthy(admin) == REPLICAS).then_some(()));
    all_are_healthy();

    let is_over = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..4).map(|_| ask(public, "busy", Duration::from_millis(4), &is_over)).collect();
    let limited = ask(public, "limited", Duration::from_millis(5), &is_over);
    for round in 0..2 {
        for (place, setup) in setups.iter().enumerate() {
            thread::sleep(Duration::from_millis(500));
            replicas[place].signal(Signal::TERM);
            assert_eq!(replicas[place].wait_for_exit().code(), Some(0), "replica {place} in round {round}");
            let log = replicas[place].log();
            assert!(!log.contains("WARN"), "nothing is cut: {log}");
            replicas[place] = setup.start();
            all_are_healthy();
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let busy: Vec<u16> = busy.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let mut limited = limited.join().unwrap();
    assert!(busy.len() > 1000, "{} requests are no load", busy.len());
    let failed: Vec<_> = busy.iter().filter(|status| **status != 200).collect();
    assert!(failed.is_empty(), "{} of {} requests failed: {failed:?}", failed.len(), busy.len());

    // What was borrowed by those that were restarted has come back: all of the limit can be had, and not one more.
    wait_for("the limit to be reached", || {
        limited.push(http::get_with(public, "/", &[("x-tenant", b"limited")]).unwrap().status);
        limited.ends_with(&[429; 20]).then_some(())
    });
    let count = |status| limited.iter().filter(|one| **one == status).count();
    eprintln!("{} requests, {} of them limited: {} passed", busy.len() + limited.len(), limited.len(), count(200));
    assert_eq!(count(200) + count(429), limited.len(), "nothing else was answered");
    assert_eq!(count(200), LIMIT);
}

//! A real Envoy asks a real Comporta, set up as `examples/envoy/` sets it up.

mod costs;
mod gateway;
mod overrides;
mod told;
mod traced;

use self::gateway::{Change, EXAMPLE, Gateway, number};
use crate::harness::{Setup, envoy_command, http, project_path, wait_for};

/// What Envoy does with a request when Comporta does not answer.
const REFUSE_WITHOUT_ANSWER: Change = ("failure_mode_deny: false", "failure_mode_deny: true");

const POLICY: &str = "
domain: api
descriptors:
  - key: tenant
    rate_limit: {requests_per_unit: 3, unit: hour}
    descriptors:
      - {key: path, value: /export*, share_threshold: true, rate_limit: {requests_per_unit: 1, unit: hour}}
";

#[test]
fn requests_pass_until_the_limit_and_are_refused_after_it() {
    let gateway = Gateway::with_policy(POLICY);
    for remaining in [2, 1, 0] {
        let response = gateway.get("/", b"acme");
        assert_eq!(response.status, 200);
        assert_eq!(response.header("x-ratelimit-limit"), Some("3, 3;w=3600"));
        assert_eq!(number(&response, "x-ratelimit-remaining"), remaining);
        assert!((1..=3600).contains(&number(&response, "x-ratelimit-reset")));
        assert_eq!(response.header("x-envoy-ratelimited"), None);
    }
    let refused = gateway.get("/", b"acme");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
    assert_eq!(refused.header("x-ratelimit-limit"), Some("3, 3;w=3600"));
    assert_eq!(number(&refused, "x-ratelimit-remaining"), 0);
    assert!((1..=1200).contains(&number(&refused, "x-ratelimit-reset")), "the next of 3 an hour, not the hour");
}

#[test]
fn each_tenant_has_a_limit_of_its_own() {
    let gateway = Gateway::with_policy(POLICY);
    assert_eq!(gateway.statuses(4, "/", b"acme"), [200, 200, 200, 429]);
    assert_eq!(gateway.statuses(4, "/", b"globex"), [200, 200, 200, 429]);
    let nobody = http::get(gateway.public, "/").unwrap();
    assert_eq!(nobody.status, 200, "without the header there is no tenant to limit");
}

#[test]
fn a_path_has_a_limit_under_its_tenant() {
    let gateway = Gateway::with_policy(POLICY);
    assert_eq!(gateway.get("/export", b"acme").status, 200);
    assert_eq!(gateway.get("/export?all=1", b"acme").status, 429, "a query is no way around");
    assert_eq!(gateway.get("/export", b"globex").status, 200);
    // The refused export has taken nothing from the tenant's own limit of 3.
    assert_eq!(gateway.statuses(3, "/", b"acme"), [200, 200, 429]);
}

#[test]
fn client_addresses_are_limited_whatever_the_request_says() {
    let gateway = Gateway::with_policy(
        "{domain: api, descriptors: [{key: remote_address, rate_limit: {requests_per_unit: 2, unit: hour}}]}",
    );
    assert_eq!(gateway.get("/", b"acme").status, 200);
    assert_eq!(gateway.get("/", b"globex").status, 200);
    let disguised = http::get_with(gateway.public, "/", &[("x-forwarded-for", b"192.0.2.1")]).unwrap();
    assert_eq!(disguised.status, 429);
}

#[test]
fn header_bytes_that_are_not_utf8_are_limited_like_any_other() {
    let gateway = Gateway::with_policy(POLICY);
    assert_eq!(gateway.statuses(4, "/", b"caf\xe9 \xff"), [200, 200, 200, 429]);
    assert_eq!(gateway.statuses(4, "/", b"caf\xe9 \xfe"), [200, 200, 200, 429], "other bytes, another tenant");
}

#[test]
fn a_header_of_50_kb_is_limited_like_any_other() {
    let gateway = Gateway::with_policy(POLICY);
    let mut tenant = vec![b'x'; 50_000];
    assert_eq!(gateway.statuses(4, "/", &tenant), [200, 200, 200, 429]);
    tenant.push(b'y');
    assert_eq!(gateway.get("/", &tenant).status, 200, "one that differs at its end is another tenant");
}

#[test]
fn while_comporta_is_down_envoy_passes_requests_if_told_so_and_limits_again_after_it() {
    let Gateway { comporta, setup, envoy: _envoy, public } = Gateway::with_policy(POLICY);
    let status = || http::get_with(public, "/", &[("x-tenant", b"acme")]).unwrap().status;
    assert_eq!([status(), status(), status(), status()], [200, 200, 200, 429]);

    comporta.stop();
    assert_eq!([status(), status(), status(), status()], [200; 4]);

    let _comporta = setup.start();
    wait_for("the limit to hold again", || (status() == 429).then_some(()));
}

#[test]
fn while_comporta_is_down_envoy_refuses_requests_if_told_so_and_passes_them_after_it() {
    let gateway = Gateway::start(Setup::new(POLICY), &[REFUSE_WITHOUT_ANSWER]);
    let Gateway { comporta, setup, envoy: _envoy, public } = gateway;
    let status = || http::get_with(public, "/", &[("x-tenant", b"acme")]).unwrap().status;
    assert_eq!(status(), 200);

    comporta.stop();
    assert_eq!([status(), status(), status(), status()], [500; 4]);

    let _comporta = setup.start();
    wait_for("requests to pass again", || (status() == 200).then_some(()));
    assert_eq!([status(), status(), status()], [200, 200, 429]);
}

#[test]
fn the_example_does_with_the_shipped_policy_what_its_readme_shows() {
    let gateway = Gateway::start(Setup::with_path(project_path("config")), &[]);
    let newcomer = gateway.get("/", b"newcomer");
    assert_eq!((newcomer.status, newcomer.body.as_str()), (200, "hello from the service\n"));
    assert_eq!(newcomer.header("x-ratelimit-limit"), Some("10, 10;w=60, 50;w=1"), "the tenant's and the address's");
    assert_eq!(number(&newcomer, "x-ratelimit-remaining"), 9);
    assert_eq!(gateway.statuses(10, "/", b"newcomer").pop(), Some(429));
    assert_eq!(gateway.statuses(20, "/", b"acme"), [200; 20], "acme has the gold plan");
    assert_eq!(gateway.statuses(4, "/export?month=1", b"acme"), [200, 200, 200, 429]);
    assert_eq!(gateway.statuses(4, "/search?q=x", b"acme"), [200; 4], "a shadowed limit refuses nothing");
    assert_eq!(gateway.statuses(6, "/payments/new", b"acme"), [200, 200, 200, 200, 200, 429]);
}

#[test]
fn envoy_finds_no_fault_with_the_example() {
    let output = envoy_command(&project_path(EXAMPLE)).args(["--mode", "validate"]).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(!log.contains("[warning]"), "an example to learn from needs no warning: {log}");
}

//! Costs that are known only when the response is there: Envoy charges or gives back when the stream is done.

use serde_json::json;

use super::gateway::{Change, Gateway};
use crate::harness::{Setup, http, wait_for};

/// Before the request: is anything left? After the response: charge what it says that it has cost.
const CHARGE_AFTER_THE_RESPONSE: Change = (
    "route: {cluster: service}",
    r#"route: {cluster: service}
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions:
                      - request_headers: {header_name: x-tenant, descriptor_key: tenant}
                      hits_addend: {number: 0}
                    - actions:
                      - request_headers: {header_name: x-tenant, descriptor_key: tenant}
                      hits_addend: {format: "%RESP(x-cost)%"}
                      apply_on_stream_done: true"#,
);

/// Before the request: take 100. After the response: give back what it says that it has not used.
const GIVE_BACK_AFTER_THE_RESPONSE: Change = (
    "route: {cluster: service}",
    r#"route: {cluster: service}
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions:
                      - request_headers: {header_name: x-tenant, descriptor_key: tenant}
                      hits_addend: {number: 100}
                    - actions:
                      - request_headers: {header_name: x-tenant, descriptor_key: tenant}
                      hits_addend: {format: "%RESP(x-unused)%", is_negative_hits: true}
                      apply_on_stream_done: true"#,
);

/// The same, but what is given back is always 30.
const GIVE_BACK_A_FIXED_NUMBER: Change =
    (r#"{format: "%RESP(x-unused)%", is_negative_hits: true}"#, "{number: 30, is_negative_hits: true}");

const ANSWER: &str = r#"- match: {prefix: /}
                direct_response: {status: 200, body: {inline_string: "hello from the service\n"}}"#;

/// The service says in `x-cost` what a request has cost, which is whatever the client asks for.
const SERVICE_TELLS_THE_COST: Change = (
    ANSWER,
    r#"- match: {prefix: /}
                direct_response: {status: 200, body: {inline_string: "hello from the service\n"}}
                response_headers_to_add: [{header: {key: x-cost, value: "%REQ(x-cost)%"}}]"#,
);

/// The service uses all of a request that it answers, and nothing of one that fails.
const SERVICE_TELLS_WHAT_IS_UNUSED: Change = (
    ANSWER,
    r#"- match: {prefix: /fails}
                direct_response: {status: 503}
                response_headers_to_add: [{header: {key: x-unused, value: "100"}}]
              - match: {prefix: /}
                direct_response: {status: 200}
                response_headers_to_add: [{header: {key: x-unused, value: "0"}}]"#,
);

fn gateway_that_charges(limit: &str) -> Gateway {
    let policy = format!("{{domain: api, descriptors: [{{key: tenant, rate_limit: {limit}}}]}}");
    Gateway::start(Setup::new(&policy), &[CHARGE_AFTER_THE_RESPONSE, SERVICE_TELLS_THE_COST])
}

/// A request that costs so much, and its status.
fn spend(gateway: &Gateway, cost: u32) -> u16 {
    let cost = cost.to_string();
    http::get_with(gateway.public, "/", &[("x-tenant", b"acme"), ("x-cost", cost.as_bytes())]).unwrap().status
}

/// Asks Comporta itself, and returns the status of the tenant's budget.
fn ask(gateway: &Gateway, hits: u32, is_negative: bool) -> serde_json::Value {
    let entries = json!([{"key": "tenant", "value": "acme"}]);
    let descriptor = json!({"entries": entries, "hitsAddend": hits, "isNegativeHits": is_negative});
    let body = json!({"domain": "api", "descriptors": [descriptor]}).to_string();
    http::post_json(gateway.comporta.addresses.http, "/json", &body).unwrap().json()["statuses"][0].clone()
}

/// Waits until so much is left: Envoy charges after the client has its answer.
fn wait_for_remaining(gateway: &Gateway, remaining: u32) {
    let what = format!("a budget of {remaining}");
    wait_for(&what, || (ask(gateway, 0, false)["limitRemaining"] == remaining).then_some(()));
}

#[test]
fn an_overdraft_is_charged_after_the_response_and_refuses_the_next_request() {
    let gateway = gateway_that_charges("{requests_per_unit: 1000, unit: year, overdraft: true}");
    assert_eq!(spend(&gateway, 700), 200);
    wait_for_remaining(&gateway, 300);
    assert_eq!(spend(&gateway, 500), 200, "something is left, and the cost is not known yet");
    wait_for("the budget to be overdrawn", || (ask(&gateway, 0, false)["code"] == "OVER_LIMIT").then_some(()));
    assert_eq!(spend(&gateway, 1), 429);
    // All 500 have been charged, so that 200 are owed.
    assert_eq!(ask(&gateway, 201, true)["limitRemaining"], 1);
    assert_eq!(spend(&gateway, 1), 200);
}

#[test]
fn without_overdraft_a_cost_above_what_is_left_is_not_charged() {
    let gateway = gateway_that_charges("{requests_per_unit: 1000, unit: year}");
    assert_eq!(spend(&gateway, 700), 200);
    // Charges come after the responses and may overtake each other; of the next two it does not matter which is first.
    wait_for_remaining(&gateway, 300);
    for cost in [500, 100] {
        assert_eq!(spend(&gateway, cost), 200);
    }
    wait_for_remaining(&gateway, 200);
}

const ENOUGH_FOR_ONE_REQUEST: &str =
    "{domain: api, descriptors: [{key: tenant, rate_limit: {requests_per_unit: 100, unit: year}}]}";

#[test]
fn what_a_failed_response_has_not_used_is_given_back() {
    let gateway = Gateway::start(
        Setup::new(ENOUGH_FOR_ONE_REQUEST),
        &[GIVE_BACK_AFTER_THE_RESPONSE, SERVICE_TELLS_WHAT_IS_UNUSED],
    );
    for _ in 0..3 {
        assert_eq!(gateway.get("/fails", b"acme").status, 503);
        wait_for_remaining(&gateway, 100);
    }
    assert_eq!(gateway.get("/", b"acme").status, 200);
    assert_eq!(gateway.get("/", b"acme").status, 429, "what the service has used is gone");
    // Envoy's own 429 has no x-unused, so that it gives nothing back.
    assert_eq!(gateway.get("/fails", b"acme").status, 429);
}

/// Why the amount is better taken from a header of the response: Envoy's own 429 does not have it.
#[test]
fn a_fixed_number_is_given_back_for_refused_requests_too() {
    let gateway =
        Gateway::start(Setup::new(ENOUGH_FOR_ONE_REQUEST), &[GIVE_BACK_AFTER_THE_RESPONSE, GIVE_BACK_A_FIXED_NUMBER]);
    assert_eq!(gateway.get("/", b"acme").status, 200);
    wait_for_remaining(&gateway, 30);
    assert_eq!(gateway.get("/", b"acme").status, 429);
    wait_for_remaining(&gateway, 60);
}

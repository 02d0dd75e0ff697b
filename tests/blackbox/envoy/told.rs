//! What Comporta tells besides the decision: headers for the client, dynamic metadata for Envoy's logs and filters.

use serde_json::{Value, json};

use super::gateway::{Change, Gateway, number};
use crate::harness::{Setup, wait_for};

const TWO_AN_HOUR: &str = "
domain: api
descriptors:
  - {key: tenant, rate_limit: {requests_per_unit: 2, unit: hour}}
";

/// `path` is tried out in shadow mode. Both rules have something to say in `contact`.
const WITH_METADATA: &str = "
domain: api
descriptors:
  - key: tenant
    rate_limit: {requests_per_unit: 2, unit: hour}
    metadata: {team: billing, contact: {mail: billing@example.com}}
    descriptors:
      - key: path
        value: /export*
        shadow_mode: true
        rate_limit: {requests_per_unit: 1, unit: hour}
        metadata: {team: data, contact: {pager: 7}, tags: [slow]}
";

/// Envoy gives clients a `retry-after` of its own.
const ENVOYS_RETRY_AFTER: Change = (
    "enable_x_ratelimit_headers: DRAFT_VERSION_03",
    "enable_x_ratelimit_headers: DRAFT_VERSION_03
              enable_retry_after_header: true",
);

/// Envoy logs the metadata of each decision.
const ACCESS_LOG: Change = (
    "stat_prefix: public",
    r#"stat_prefix: public
          access_log:
          - name: envoy.access_loggers.stdout
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
              log_format:
                text_format_source: {inline_string: "decision %DYNAMIC_METADATA(envoy.filters.http.ratelimit)%\n"}"#,
);

/// Envoy tells clients where the decision comes from.
const SOURCE_HEADER: Change = (
    "- name: api\n",
    r#"- name: api
              response_headers_to_add:
              - header: {key: x-decided-by, value: "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:source)%"}
"#,
);

#[test]
fn clients_behind_envoy_see_the_headers() {
    let gateway = Gateway::start(Setup::new(TWO_AN_HOUR).flags(["--response-headers"]), &[]);
    for (remaining, until_full) in [(1, 1800), (0, 3600)] {
        let response = gateway.get("/", b"acme");
        assert_eq!(response.status, 200);
        assert_eq!(number(&response, "ratelimit-limit"), 2);
        assert_eq!(number(&response, "ratelimit-remaining"), remaining);
        assert!((until_full - 30..=until_full).contains(&number(&response, "ratelimit-reset")), "{response:?}");
        assert_eq!(response.header("retry-after"), None);
    }
    let refused = gateway.get("/", b"acme");
    assert_eq!(refused.status, 429);
    assert_eq!(number(&refused, "ratelimit-limit"), 2);
    assert_eq!(number(&refused, "ratelimit-remaining"), 0);
    assert!((1770..=1800).contains(&number(&refused, "ratelimit-reset")), "{refused:?}");
    assert_eq!(refused.header("retry-after"), refused.header("ratelimit-reset"));
}

#[test]
fn headers_arrive_under_the_names_that_they_are_given() {
    let setup = Setup::new(TWO_AN_HOUR).flags([
        "--response-headers",
        "--limit-header=X-Quota",
        "--remaining-header=X-Quota-Left",
        "--reset-header=X-Quota-Reset",
        "--retry-after-header=X-Quota-Wait",
    ]);
    let gateway = Gateway::start(setup, &[]);
    assert_eq!(gateway.statuses(2, "/", b"acme"), [200, 200]);
    let refused = gateway.get("/", b"acme");
    assert_eq!((number(&refused, "x-quota"), number(&refused, "x-quota-left")), (2, 0));
    assert!((1770..=1800).contains(&number(&refused, "x-quota-wait")), "{refused:?}");
    assert_eq!(refused.header("x-quota-reset"), refused.header("x-quota-wait"));
    for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"] {
        assert_eq!(refused.header(name), None, "{name} has another name");
    }
}

#[test]
fn without_the_flag_clients_see_no_headers_of_comporta() {
    let gateway = Gateway::with_policy(TWO_AN_HOUR);
    for status in [200, 200, 429] {
        let response = gateway.get("/", b"acme");
        assert_eq!(response.status, status);
        for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"] {
            assert_eq!(response.header(name), None, "{name} in {response:?}");
        }
    }
}

#[test]
fn the_retry_after_of_envoy_is_the_longest_wait_of_the_limits_that_refuse() {
    let gateway = Gateway::start(
        Setup::new(
            "
domain: api
descriptors:
  - key: tenant
    rate_limit: {requests_per_unit: 1, unit: hour}
    descriptors: [{key: path, rate_limit: {requests_per_unit: 1, unit: minute}}]
  - {key: remote_address, rate_limit: {requests_per_unit: 100, unit: day}}
",
        ),
        &[ENVOYS_RETRY_AFTER],
    );
    let passed = gateway.get("/", b"acme");
    assert_eq!((passed.status, passed.header("retry-after")), (200, None));
    let refused = gateway.get("/", b"acme");
    assert_eq!(refused.status, 429);
    // One an hour and one a minute refuse; a hundred a day would take longest to be whole, but has room.
    assert!((3570..=3600).contains(&number(&refused, "retry-after")), "{refused:?}");
}

#[test]
fn envoy_keeps_the_retry_after_of_comporta() {
    let setup = Setup::new(TWO_AN_HOUR).flags(["--response-headers"]);
    let gateway = Gateway::start(setup, &[ENVOYS_RETRY_AFTER]);
    assert_eq!(gateway.statuses(2, "/", b"acme"), [200, 200]);
    let refused = gateway.get("/", b"acme");
    assert_eq!(refused.count("retry-after"), 1, "{refused:?}");
    assert_eq!(refused.header("retry-after"), refused.header("ratelimit-reset"));
}

/// What Envoy's access log says of so many decisions.
fn logged_decisions(gateway: &Gateway, count: usize) -> Vec<Value> {
    wait_for("the access log", || {
        let log = gateway.envoy.log();
        let decisions = log.lines().filter_map(|line| line.strip_prefix("decision "));
        let decisions: Vec<Value> =
            decisions.map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text))).collect();
        (decisions.len() >= count).then_some(decisions)
    })
}

#[test]
fn the_access_log_of_envoy_can_tell_who_refused_and_who_would_have() {
    let setup = Setup::new(WITH_METADATA).flags(["--response-dynamic-metadata"]);
    let gateway = Gateway::start(setup, &[ACCESS_LOG]);
    assert_eq!(gateway.statuses(3, "/export", b"acme"), [200, 200, 429]);
    let decisions = logged_decisions(&gateway, 3);
    let told: Vec<_> = decisions.iter().map(|told| (&told["refusedBy"], &told["wouldRefuse"])).collect();
    let (nobody, shadowed, tenant) = (json!([]), json!(["tenant=acme,path=/export"]), json!(["tenant=acme"]));
    assert_eq!(told, [(&nobody, &nobody), (&nobody, &shadowed), (&tenant, &shadowed)]);
    for decision in &decisions {
        assert_eq!((&decision["source"], &decision["domain"]), (&json!("local"), &json!("api")));
    }
}

#[test]
fn the_access_log_of_envoy_can_tell_the_metadata_of_all_rules_that_let_a_request_pass() {
    let setup = Setup::new(WITH_METADATA).flags(["--response-dynamic-metadata"]);
    let gateway = Gateway::start(setup, &[ACCESS_LOG]);
    assert_eq!([gateway.get("/export", b"acme").status, gateway.get("/", b"acme").status], [200, 200]);
    let decisions = logged_decisions(&gateway, 2);
    let contact = json!({"mail": "billing@example.com", "pager": 7});
    assert_eq!(decisions[0]["metadata"], json!({"team": "billing", "contact": contact, "tags": ["slow"]}));
    let contact = json!({"mail": "billing@example.com"});
    assert_eq!(decisions[1]["metadata"], json!({"team": "billing", "contact": contact}));
}

#[test]
fn envoy_can_make_a_header_of_what_the_metadata_says() {
    let setup = Setup::new(TWO_AN_HOUR).flags(["--response-dynamic-metadata"]);
    let gateway = Gateway::start(setup, &[SOURCE_HEADER]);
    for status in [200, 200, 429] {
        let response = gateway.get("/", b"acme");
        assert_eq!((response.status, response.header("x-decided-by")), (status, Some("local")));
    }
    let setup = Setup::new("{domain: api}").flags(["--response-dynamic-metadata"]);
    let gateway = Gateway::start(setup, &[SOURCE_HEADER]);
    assert_eq!(gateway.get("/", b"acme").header("x-decided-by"), Some("unlimited"));
}

#[test]
fn without_the_flag_envoy_has_no_metadata() {
    let gateway = Gateway::start(Setup::new(WITH_METADATA), &[ACCESS_LOG]);
    assert_eq!(gateway.get("/export", b"acme").status, 200);
    assert_eq!(logged_decisions(&gateway, 1), [json!("-")]);
}

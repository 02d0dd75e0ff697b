//! What `/metrics` counts.

use std::fs;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;

use crate::harness::grpc::{Client, ask, descriptor, request};
use crate::harness::{Comporta, Redis, Setup, http, project_path};

const POLICY: &str = r#"
domain: d
descriptors:
  - key: tenant
    rate_limit: {unit: year, requests_per_unit: 2}
    descriptors:
      - {key: path, value: "/a\"\\*", share_threshold: true, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
"#;

async fn ask_times(client: &mut Client, times: usize, asked: RateLimitRequest) {
    for _ in 0..times {
        ask(client, asked.clone()).await.unwrap();
    }
}

/// The lines of the metrics that do not explain.
fn metrics(comporta: &Comporta) -> Vec<String> {
    let page = http::get(comporta.addresses.admin, "/metrics").unwrap();
    assert_eq!(page.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(page.body.ends_with("# EOF\n"), "{}", page.body);
    page.body.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[tokio::test]
async fn each_decision_is_counted_by_domain_rule_code_and_source() {
    let setup = Setup::new(POLICY).flags(["--max-buckets", "3"]);
    let comporta = setup.start();
    let mut client = comporta.client();
    ask_times(&mut client, 3, request("d", ["tenant=a", "tenant=a path=/a\"\\b"])).await;
    ask_times(&mut client, 2, request("d", ["shadow=1", "nothing=1"])).await;
    ask_times(&mut client, 1, request("d", ["quota=1"])).await;
    ask_times(&mut client, 1, request("d", ["quota=1", "quota=2"])).await;
    ask_times(&mut client, 4, request("elsewhere", ["tenant=a"])).await;
    let mut own_limit = request("d", ["own=1"]);
    own_limit.descriptors[0] = descriptor("own=1");
    own_limit.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 5, unit: 4 });
    ask_times(&mut client, 1, own_limit).await;

    let lines = metrics(&comporta);
    for expected in [
        r#"comporta_requests_total{code="ok"} 11"#,
        r#"comporta_requests_total{code="over_limit"} 1"#,
        r#"comporta_hits_total{domain="d",rule="tenant",code="over_limit",source="local",shadow="false"} 1"#,
        r#"comporta_near_limit_hits_total{domain="d",rule="tenant"} 1"#,
        r#"comporta_limit_burst_hits{domain="d",rule="tenant",unit="year"} 2"#,
        r#"comporta_decisions_total{domain="d",rule="tenant",code="ok",source="local",shadow="false"} 2"#,
        r#"comporta_decisions_total{domain="d",rule="tenant",code="over_limit",source="local",shadow="false"} 1"#,
        r#"comporta_decisions_total{domain="d",rule="tenant|path~/a\"\\*",code="ok",source="unlimited",shadow="false"} 3"#,
        r#"comporta_decisions_total{domain="d",rule="shadow",code="ok",source="local",shadow="true"} 2"#,
        r#"comporta_decisions_total{domain="d",rule="quota",code="ok",source="local",shadow="false"} 2"#,
        r#"comporta_decisions_total{domain="d",rule="quota",code="over_limit",source="local",shadow="false"} 1"#,
        r#"comporta_decisions_total{domain="d",rule="{none}",code="ok",source="unlimited",shadow="false"} 2"#,
        r#"comporta_decisions_total{domain="d",rule="{request}",code="ok",source="local",shadow="false"} 1"#,
        r#"comporta_decisions_total{domain="",rule="{none}",code="ok",source="unlimited",shadow="false"} 4"#,
        r#"comporta_would_be_refusals_total{domain="d",rule="shadow",reason="shadow_mode"} 1"#,
        r#"comporta_would_be_refusals_total{domain="d",rule="quota",reason="quota_mode"} 1"#,
        "comporta_unknown_domains_total 4",
        "comporta_buckets 3",
        "comporta_buckets_evicted_total 2",
        "comporta_policy_files 1",
        "comporta_policy_rules 4",
        "comporta_decision_seconds_count 12",
        r#"comporta_decision_seconds_bucket{le="+Inf"} 12"#,
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected} is not in:\n{}", lines.join("\n"));
    }
    let counted = lines.iter().filter(|line| line.starts_with("comporta_decisions_total"));
    assert_eq!(counted.count(), 9, "rules that have decided nothing are not listed:\n{}", lines.join("\n"));
}

#[tokio::test]
async fn refusals_that_the_services_shadow_mode_prevents_are_counted() {
    let setup = Setup::new(POLICY).flags(["--shadow-mode"]);
    let comporta = setup.start();
    ask_times(&mut comporta.client(), 5, request("d", ["tenant=a"])).await;
    let lines = metrics(&comporta).join("\n");
    assert!(
        lines.contains(r#"comporta_would_be_refusals_total{domain="d",rule="tenant",reason="service_shadow_mode"} 3"#),
        "{lines}"
    );
    assert!(lines.contains(r#"comporta_requests_total{code="ok"} 5"#), "{lines}");
}

/// However many values there are, so many of a rule are told apart.
#[tokio::test]
async fn values_are_told_apart_where_a_rule_wants_it_up_to_a_bound() {
    let policy = "
domain: d
descriptors:
  - key: tenant
    value_to_metric: true
    rate_limit: {unit: year, requests_per_unit: 2}
    descriptors: [{key: path, rate_limit: {unlimited: true}}]
  - key: user
    descriptors: [{key: path, detailed_metric: true, rate_limit: {unlimited: true}}]
  - {key: plain, rate_limit: {unlimited: true}}
";
    let setup = Setup::new(policy).flags(["--metric-series-per-rule=3"]);
    let comporta = setup.start();
    let mut client = comporta.client();
    for tenant in 0..10 {
        ask_times(&mut client, 3, request("d", [&*format!("tenant=t{tenant}")])).await;
    }
    ask_times(&mut client, 1, request("d", ["tenant=a path=/x", "user=u path=/y", "plain=1"])).await;
    let lines = metrics(&comporta);
    let of_values: Vec<_> = lines.iter().filter(|line| line.starts_with("comporta_value_decisions_total")).collect();
    for expected in [
        r#"{domain="d",rule="tenant",value="tenant=t2",code="ok"} 2"#,
        r#"{domain="d",rule="tenant",value="tenant=t2",code="over_limit"} 1"#,
        r#"{domain="d",rule="tenant",value="{overflow}",code="ok"} 14"#,
        r#"{domain="d",rule="tenant",value="{overflow}",code="over_limit"} 7"#,
        r#"{domain="d",rule="tenant|path",value="tenant=a",code="ok"} 1"#,
        r#"{domain="d",rule="user|path",value="user=u|path=/y",code="ok"} 1"#,
    ] {
        assert!(of_values.iter().any(|line| line.ends_with(expected)), "{expected} is not in {of_values:#?}");
    }
    assert_eq!(of_values.len(), 10, "three values and the others of both codes, and two paths: {of_values:#?}");
}

#[tokio::test]
async fn every_metric_is_documented() {
    let redis = Redis::start();
    let setup = Setup::new(POLICY).flags([format!("--redis-url={}", redis.url())]);
    let comporta = setup.start();
    let page = http::get(comporta.addresses.admin, "/metrics").unwrap().body;
    let documented = fs::read_to_string(project_path("docs/observability.md")).unwrap();
    let families: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(families.len() >= 30, "{families:?}");
    for family in families {
        let (name, kind) = family.split_once(' ').unwrap();
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        assert!(documented.contains(&format!("`{name}")), "docs/observability.md does not tell of {name}");
    }
}

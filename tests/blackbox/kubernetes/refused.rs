//! Values that make no sense are refused, with a word on what to do.

use super::Chart;

/// Refused on top of good values, with a message that has these words.
#[track_caller]
fn refused(base: &str, values: &[(&str, &str)], words: &str) {
    let chart = values.iter().fold(Chart::with_values(base), |chart, (value, json)| chart.set(value, json));
    let refusal = chart.refusal();
    assert!(refusal.contains(words), "{words:?} is not in {refusal}");
}

#[test]
fn a_value_that_does_not_exist_is_refused_by_its_name() {
    refused("tls", &[("replica", "3")], "'replica' not allowed");
    refused("tls", &[("tls.grpc.secretName", r#""x""#)], "'secretName' not allowed");
}

#[test]
fn a_value_of_the_wrong_kind_or_size_is_refused_with_its_place() {
    refused("tls", &[("replicas", r#""three""#)], "/replicas");
    refused("tls", &[("replicas", "-1")], "/replicas");
    refused("tls", &[("networkPolicy.redisPorts", "[70000]")], "/networkPolicy/redisPorts/0");
    refused("tls", &[("settings", r#"{"--failure-mode": "open"}"#)], "--failure-mode");
    refused("minimal", &[("policies", r#"{"api.json": "domain: api"}"#)], "api.json");
    refused("tls", &[("image.digest", r#""latest""#)], "/image/digest");
}

#[test]
fn policies_come_from_one_place() {
    let nothing = Chart::new("comporta").refusal();
    assert!(nothing.contains("policies: there is none"), "{nothing}");
    refused("minimal", &[("policiesConfigMap", r#""limits""#)], "exclude each other");
}

#[test]
fn several_replicas_need_a_redis() {
    refused("minimal", &[("replicas", "3")], "3 replicas without Redis");
    refused("minimal", &[("autoscaling.enabled", "true")], "10 replicas without Redis");
}

#[test]
fn a_redis_has_one_url_and_its_login_in_a_secret() {
    refused("tls", &[("redis.url", r#""redis://user:secret@redis""#)], "redis.url holds a login");
    refused("tls", &[("redis.url", r#""unix:///run/redis?pass=secret""#)], "redis.url holds a login");
    refused("tls", &[("redis.urlSecret.name", r#""redis""#)], "exclude each other");
    refused("minimal", &[("redis.loginSecret.name", r#""redis""#)], "neither redis.url nor redis.urlSecret");
}

#[test]
fn certificates_of_clients_need_tls_and_an_authority() {
    refused("minimal", &[("tls.grpc.clientCaSecret.name", r#""ca""#)], "without tls.grpc.secret");
    refused(
        "minimal",
        &[("tls.http.secret", r#""tls""#), ("tls.http.clientSans", r#"["envoy"]"#)],
        "without tls.http.clientCaSecret",
    );
}

#[test]
fn the_end_is_longer_than_its_delay() {
    refused("tls", &[("drain.delaySeconds", "20")], "longer than drain.delaySeconds");
}

#[test]
fn metrics_that_nobody_could_ask_for_are_not_promised() {
    refused("tls", &[("serviceMonitor.enabled", "true")], "needs admin.exposed");
    refused("no-network-policy", &[("serviceMonitor.enabled", "true"), ("networkPolicy.enabled", "true")], "adminFrom");
}

#[test]
fn a_setting_that_the_chart_makes_itself_is_refused() {
    refused("tls", &[("settings", r#"{"drain-timeout": 30}"#)], "settings.drain-timeout: the chart sets it already");
}

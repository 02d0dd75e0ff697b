//! Limits that are counted and not enforced.

use crate::harness::{Redis, Setup, http};

/// What is refused in shadow mode passes, and asks Redis no more often than what is refused.
#[test]
fn a_limit_in_shadow_mode_that_is_used_up_does_not_ask_redis_for_each_request() {
    let redis = Redis::start();
    let policy = "
domain: d
descriptors:
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 5, unit: day}}
  - {key: plain, rate_limit: {requests_per_unit: 5, unit: day}}
";
    let setup = Setup::new(policy).flags([format!("--redis-url={}", redis.url())]);
    let comporta = setup.start();
    let calls_for = |key: &str| {
        let before = redis.command_counts().get("evalsha").copied().unwrap_or_default();
        let body = format!(r#"{{"domain": "d", "descriptors": [{{"entries": [{{"key": "{key}", "value": "x"}}]}}]}}"#);
        for _ in 0..200 {
            http::post_json(comporta.addresses.http, "/json", &body).unwrap();
        }
        redis.command_counts()["evalsha"] - before
    };
    let [plain, shadow] = ["plain", "shadow"].map(calls_for);
    assert!(plain < 60 && shadow < 60, "of 200 requests each, {plain} and {shadow} calls");
}

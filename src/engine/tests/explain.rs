use super::*;
use crate::policy::load_texts;

/// A policy in which every path to a limit, and to none, can be taken.
const EVERYTHING: &str = r#"domain: api
plans:
  free: {requests_per_unit: 60, unit: minute}
  trial:
    - {requests_per_unit: 5, unit: second, overdraft: true}
    - {requests_per_unit: 1000, unit: day, algorithm: fixed_window}
descriptors:
  - key: tenant
    plan: free
    tenants:
      acme: {requests_per_unit: 10, unit_multiplier: 5, unit: minute, burst: 20, scope: replica, failure_mode: open}
      "partner-*": trial
    descriptors:
      - {key: path, value: /status}
      - {key: path, value: /import*, rate_limit: {requests_per_unit: 1, unit: hour}}
      - {key: path, value: /ex*rt, share_threshold: true, quota_mode: true, plan: free}
  - key: beta
    value: "on"
    shadow_mode: true
    metadata: {owner: web}
    rate_limit: {unlimited: true, name: beta, replaces: [{name: free}, {name: trial}]}
  - {key: method, value: GET}
  - {key: method, value: PUT}
  - {key: method, value: POST}
  - {key: method, value: HEAD}
  - {key: method, value: DELETE}
  - {key: method, value: PATCH}
"#;

fn explanation(domain: &str, descriptor: &str) -> Explanation {
    let policy = load_texts(&[("api.yaml", EVERYTHING)], &Defaults::default()).unwrap().policy;
    let entries: Vec<_> = descriptor.split(' ').map(|entry| entry.split_once('=').unwrap()).collect();
    let entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
    Explanation::of(&policy, domain.as_bytes(), &entries)
}

#[test]
fn an_exact_tenant() {
    insta::assert_snapshot!(explanation("api", "tenant=acme"));
}

#[test]
fn a_tenants_pattern_with_a_plan_of_several_limits() {
    insta::assert_snapshot!(explanation("api", "tenant=partner-7"));
}

#[test]
fn no_tenant_of_the_rule() {
    insta::assert_snapshot!(explanation("api", "tenant=initech"));
}

#[test]
fn an_exact_value_without_a_limit() {
    insta::assert_snapshot!(explanation("api", "tenant=acme path=/status"));
}

#[test]
fn a_shared_wildcard_after_another() {
    insta::assert_snapshot!(explanation("api", "tenant=acme path=/export"));
}

#[test]
fn no_value_matches_and_the_rest_is_not_looked_at() {
    insta::assert_snapshot!(explanation("api", "tenant=acme path=/statu user=7 role=admin"));
}

#[test]
fn many_values_are_counted_and_the_nearest_shown() {
    insta::assert_snapshot!(explanation("api", "method=post"));
}

#[test]
fn an_unknown_key() {
    insta::assert_snapshot!(explanation("api", "tenants=acme"));
}

#[test]
fn nothing_below_the_rule() {
    insta::assert_snapshot!(explanation("api", "beta=on tenant=acme"));
}

#[test]
fn unlimited() {
    insta::assert_snapshot!(explanation("api", "beta=on"));
}

#[test]
fn an_unknown_domain() {
    insta::assert_snapshot!(explanation("ap", "tenant=acme"));
}

#[test]
fn what_a_terminal_would_obey_is_only_shown() {
    insta::assert_snapshot!(explanation("api", "tenant=\u{1b}[31m\u{202e}|=%é path\u{7}=x"));
}

#[test]
fn the_same_for_programs() {
    let json = |domain, descriptor| serde_json::to_string_pretty(&explanation(domain, descriptor)).unwrap();
    insta::assert_snapshot!(json("api", "tenant=acme path=/export"));
    insta::assert_snapshot!(json("api", "beta=on"));
    insta::assert_snapshot!(json("api", "method=post"));
    insta::assert_snapshot!(json("other", "beta=on"));
}

#[test]
fn a_descriptor_without_entries_finds_no_rule() {
    let policy = policy("domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]");
    let explanation = Explanation::of(&policy, b"d", &[]);
    assert_eq!(explanation.outcome, Outcome::NoRule);
    assert_eq!(explanation.to_string(), "domain d\n\n=> no limit: no rule was found\n");
}

#[test]
fn an_overdrawn_bucket_has_more_used_than_it_holds() {
    let engine = engine(WIDE_AND_NARROW);
    engine.ask(&[costing("debt=a", 6)]);
    engine.ask(&[costing("debt=a", 9)]);
    let state = engine.bucket(&"{d|debt=a}:day".parse().unwrap(), START).state;
    assert_eq!((state.used, state.remaining), (15, Some(0)));
    assert_eq!(state.to_string(), "15 used, 0 remaining, full in 129600 s, asked for 0 s ago");
}

#[test]
fn every_bucket_that_a_request_makes_is_found_by_its_name() {
    let engine = engine(WIDE_AND_NARROW);
    let names = ["wide", "narrow", "both", "quota"];
    for (key, value) in names.into_iter().zip(["a", "%7C", "a|b=c}:day", "é"]) {
        let entries = [(key.as_bytes(), value.as_bytes())];
        assert!(engine.explain(b"d", &entries, START).limits.iter().all(|limit| is_absent(limit.state.as_ref())));
        engine.ask(&[descriptor(&format!("{key}={value}"))]);
        for limit in engine.explain(b"d", &entries, START).limits {
            let report = engine.bucket(&limit.bucket.unwrap().parse().unwrap(), START);
            assert_eq!(report.limit, Some(limit.limit));
            assert_eq!(Some(&report.state), limit.state.as_ref());
            assert_eq!((report.state.presence, report.state.used), (Presence::InUse, 1));
        }
    }
}

fn is_absent(state: Option<&BucketState>) -> bool {
    state.is_some_and(|state| state.presence == Presence::Absent)
}

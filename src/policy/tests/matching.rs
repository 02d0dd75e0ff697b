use super::*;
use crate::policy::rule::{FailureMode, Scope};

const TREE: &str = "
domain: d
descriptors:
  - key: key1
    value: value1
    descriptors:
      - key: subkey1
        rate_limit: {unit: second, requests_per_unit: 5}
      - key: subkey1
        value: subvalue1
        rate_limit: {unit: second, requests_per_unit: 10}
  - key: key2
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: key2
    value: value2
    rate_limit: {unit: MiNuTe, requests_per_unit: 30}
  - key: key2
    value: value3
  - key: key5
    value: value5
    rate_limit: {unit: hour, requests_per_unit: 15}
    descriptors:
      - key: subkey5
        value: subvalue5
        rate_limit: {unit: hour, requests_per_unit: 25}
  - key: key6
    rate_limit: {unlimited: true}
";

#[test]
fn a_limit_counts_only_at_the_last_entry() {
    let policy = policy(TREE);
    for (descriptor, limits) in [
        ("key1=something", "none"),
        ("key1=value1", "none"),
        ("key1=value1 subkey1=something", "5/second"),
        ("key1=value1 subkey1=subvalue1", "10/second"),
        ("key2=something", "20/minute"),
        ("key2=value2", "30/minute"),
        ("key2=value3", "none"),
        ("key2=value2 subkey=subvalue", "none"),
        ("key5=value5", "15/hour"),
        ("key5=value5 subkey5=subvalue", "none"),
        ("key5=value5 subkey5=subvalue5", "25/hour"),
        ("key6=foo", "unlimited"),
        ("", "none"),
    ] {
        assert_eq!(answer(&policy, descriptor), limits, "{descriptor}");
    }
    assert!(policy.domain(b"other").is_none());
}

#[test]
fn an_empty_value_falls_to_the_rule_without_a_value() {
    assert_eq!(answer(&policy(TREE), "key2="), "20/minute");
}

#[test]
fn a_rule_whose_value_is_empty_is_for_any_value() {
    for value in ["''", "", "~"] {
        let text = format!(
            "domain: d\ndescriptors:\n- key: k\n  value: {value}\n  rate_limit: {{unit: hour, requests_per_unit: 1}}"
        );
        assert_eq!(answer(&policy(&text), "k=whatever"), "1/hour");
    }
}

#[test]
fn a_key_is_not_the_join_of_a_key_and_a_value() {
    let policy = policy("domain: d\ndescriptors: [{key: a_b, rate_limit: {unit: hour, requests_per_unit: 5}}]");
    assert_eq!(answer(&policy, "a=b"), "none");
}

#[test]
fn a_chosen_branch_is_never_left_again() {
    let policy = policy(
        "
domain: d
descriptors:
  - key: k
    value: x
    descriptors: [{key: p, rate_limit: {unit: hour, requests_per_unit: 1}}]
  - key: k
    descriptors: [{key: q, rate_limit: {unit: hour, requests_per_unit: 2}}]
",
    );
    assert_eq!(answer(&policy, "k=x q=1"), "none");
    assert_eq!(answer(&policy, "k=y q=1"), "2/hour");
    assert_eq!(answer(&policy, "q=1 k=y"), "none");
}

#[test]
fn an_exact_value_goes_before_wildcards_in_file_order_before_no_value() {
    let policy = policy(
        "
domain: d
descriptors:
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: k, value: 'foo*', rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: k, value: 'foobar*', rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: k, value: foo1, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: k, value: 'x*y*z', rate_limit: {unit: hour, requests_per_unit: 5}}
",
    );
    for (value, limit) in
        [("foobarz", "1/hour"), ("foo1", "3/hour"), ("foo2", "1/hour"), ("bar", "4/hour"), ("x1yz", "5/hour")]
    {
        assert_eq!(answer(&policy, &format!("k={value}")), limit);
    }
}

#[test]
fn many_values_are_found_as_few_are() {
    let mut text = String::from("domain: d\ndescriptors:\n");
    for n in 1..=100 {
        writeln!(text, "- {{key: k, value: v{n}, rate_limit: {{unit: hour, requests_per_unit: {n}}}}}").unwrap();
        writeln!(text, "- {{key: k{n}, rate_limit: {{unit: day, burst: 1, requests_per_unit: {n}}}}}").unwrap();
    }
    let policy = policy(&text);
    for n in 1..=100 {
        assert_eq!(answer(&policy, &format!("k=v{n}")), format!("{n}/hour"));
        assert_eq!(answer(&policy, &format!("k{n}=v")), format!("{n}/day"));
    }
    assert_eq!(answer(&policy, "k=v101"), "none");
    assert_eq!(policy.rule_count(), 200);
}

#[test]
fn bytes_that_are_not_text_are_limited_like_any_other() {
    let policy =
        policy("domain: d\ndescriptors: [{key: k, value: 'a*', rate_limit: {unit: hour, requests_per_unit: 1}}]");
    let value: &[u8] = b"a\xff\0";
    let mut parts = Vec::new();
    let found = policy.domain(b"d").unwrap().find([(&b"k"[..], value)].into_iter(), |part| {
        parts.push((part.value.to_vec(), part.is_shared));
    });
    assert!(found.is_some());
    assert_eq!(parts, [(value.to_vec(), false)]);
}

#[test]
fn the_path_to_a_rule_names_the_value_or_the_shared_pattern() {
    let policy = policy(
        "
domain: d
descriptors:
  - key: files
    value: 'files/*'
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 10}
    descriptors:
      - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: files, value: files/own, rate_limit: {unit: hour, requests_per_unit: 5}}
",
    );
    let path = |entries: &[(&str, &str)]| {
        let mut path = Vec::new();
        let entries = entries.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
        policy.domain(b"d").unwrap().find(entries, |PathPart { key, value, is_shared }| {
            path.push(format!("{}={} {is_shared}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
        });
        path
    };
    assert_eq!(path(&[("files", "files/a"), ("user", "bob")]), ["files=files/* true", "user=bob false"]);
    assert_eq!(path(&[("files", "files/own")]), ["files=files/own false"]);
}

#[test]
fn a_tenant_has_the_limit_of_its_plan() {
    let policy = policy(
        "
domain: d
plans:
  free: {unit: hour, requests_per_unit: 2}
  gold: [{unit: hour, requests_per_unit: 6, burst: 4}, {unit: second, requests_per_unit: 3}]
  open: {unlimited: true}
descriptors:
  - key: tenant
    plan: free
    tenants:
      'partner-*': gold
      'p*': open
      partner-1: open
      globex: {unit: minute, requests_per_unit: 3}
      00123: [{unit: minute, requests_per_unit: 1}]
    descriptors:
      - key: path
        value: /export
        rate_limit: {unit: week, requests_per_unit: 1, burst: 1}
",
    );
    for (descriptor, limits) in [
        ("tenant=nobody", "2/hour"),
        ("tenant=partner-7", "6/hour + 3/second"),
        ("tenant=partner-1", "unlimited"),
        ("tenant=pat", "unlimited"),
        ("tenant=globex", "3/minute"),
        ("tenant=00123", "1/minute"),
        ("tenant=123", "2/hour"),
        ("tenant=globex path=/export", "1/week"),
        ("tenant=nobody path=/export", "1/week"),
    ] {
        assert_eq!(answer(&policy, descriptor), limits, "{descriptor}");
    }
}

#[test]
fn without_a_limit_of_its_own_a_rule_limits_only_its_tenants() {
    let policy = policy(
        "
domain: d
descriptors:
  - {key: k, value: 'a*', tenants: {ab: {unit: hour, requests_per_unit: 3}}}
",
    );
    assert_eq!(answer(&policy, "k=ab"), "3/hour");
    assert_eq!(answer(&policy, "k=ac"), "none");
}

#[test]
fn all_that_have_a_plan_share_its_limits_in_memory() {
    let policy = policy(
        "domain: d\nplans: {p: {unit: hour, requests_per_unit: 1}}\ndescriptors:\n- {key: a, plan: p}\n\
         - {key: b, plan: p}\n",
    );
    let limits = |key: &[u8]| {
        let domain = policy.domain(b"d").unwrap();
        domain.find([(key, &b"v"[..])].into_iter(), |_| {}).unwrap().limits.as_ptr()
    };
    assert_eq!(limits(b"a"), limits(b"b"));
}

#[test]
fn several_files_of_one_domain_are_one_policy() {
    let texts = [
        (
            "a.yaml",
            "domain: d\nplans: {p: {unit: hour, requests_per_unit: 1}}\ndescriptors: [{key: k, value: 'a*', plan: p}]",
        ),
        ("b.yaml", "domain: d\ndescriptors: [{key: k, value: '*', rate_limit: {unit: hour, requests_per_unit: 2}}]"),
        ("c.yaml", "domain: d\ndescriptors: [{key: k, value: '*b', plan: p}, {key: l, plan: p}]"),
        ("e.yaml", "domain: e\nplans: {p: {unit: hour, requests_per_unit: 9}}\ndescriptors: [{key: l, plan: p}]"),
    ];
    let policy = load_texts(&texts, &Defaults::default()).unwrap().policy;
    assert_eq!(answer(&policy, "k=ab"), "1/hour");
    assert_eq!(answer(&policy, "k=bb"), "2/hour");
    assert_eq!(answer(&policy, "l=x"), "1/hour");
    assert_eq!((policy.domain_count(), policy.rule_count(), policy.files().len()), (2, 5, 4));
    assert_eq!(policy.domain(b"e").unwrap().name(), "e");
}

#[test]
fn everything_that_a_limit_says_is_kept() {
    let policy = policy(
        "
domain: d
descriptors:
  - key: k
    rate_limit:
      name: mine
      unit: WEEK
      unit_multiplier: 2
      requests_per_unit: 1e+06
      burst: 1_000
      algorithm: token_bucket
      replaces: [{name: other}, {name: third}]
      failure_mode: closed
      scope: replica
      overdraft: on
",
    );
    let (limit, quota) = only_limit(&policy);
    assert_eq!(limit.name.as_deref(), Some("mine"));
    assert_eq!(limit.replaces.iter().map(|name| &**name).collect::<Vec<_>>(), ["other", "third"]);
    assert_eq!((limit.failure_mode, limit.scope), (Some(FailureMode::Closed), Scope::Replica));
    assert!(limit.overdraft);
    assert_eq!((quota.amount(), quota.multiplier(), quota.capacity()), (1_000_000, 2, 1000));
}

#[test]
fn where_a_limit_is_silent_the_defaults_speak() {
    let defaults = Defaults { algorithm: Algorithm::FixedWindow, overdraft: true };
    let load = |limit: &str| {
        let text = format!("domain: d\ndescriptors: [{{key: k, rate_limit: {limit}}}]");
        load_texts(&[("policy.yaml", &text)], &defaults).unwrap().policy
    };
    let silent = load("{unit: year, requests_per_unit: 2, name: ''}");
    let (limit, quota) = only_limit(&silent);
    assert_eq!((quota.algorithm(), limit.overdraft), (Algorithm::FixedWindow, true));
    assert_eq!((limit.failure_mode, limit.scope, limit.name.as_deref()), (None, Scope::Global, None));

    let outspoken = load("{unit: year, requests_per_unit: 2, algorithm: token_bucket, overdraft: no}");
    let (limit, quota) = only_limit(&outspoken);
    assert_eq!((quota.algorithm(), limit.overdraft), (Algorithm::TokenBucket, false));
}

#[test]
fn everything_that_a_rule_says_is_kept() {
    let policy = policy(
        "
domain: d
descriptors:
  - key: k
    shadow_mode: true
    quota_mode: Yes
    detailed_metric: ON
    value_to_metric: false
    metadata: {owner: team, levels: [1, 2.5, true, ~, '1'], more: {x: y}}
    rate_limit: {unit: hour, requests_per_unit: 1}
",
    );
    let rule = policy.domain(b"d").unwrap().find([(&b"k"[..], &b"v"[..])].into_iter(), |_| {}).unwrap().rule;
    assert!(rule.shadow_mode && rule.quota_mode && rule.detailed_metric && !rule.value_to_metric);
    let metadata = serde_json::json!({"owner": "team", "levels": [1, 2.5, true, null, "1"], "more": {"x": "y"}});
    assert_eq!(rule.metadata.as_deref(), metadata.as_object());
    assert_eq!((&*rule.file, rule.line), ("policy.yaml", 4));
}

#[test]
fn scalars_that_are_not_strings_are_read_as_written() {
    let text = "
domain: d
descriptors:
  - {key: k, value: 401, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: k, value: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: k, value: 1.10, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: k, value: 00123, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: 5, value: 'null', rate_limit: {unit: hour, requests_per_unit: 5}}
";
    let policy = policy(text);
    for (n, descriptor) in (1..).zip(["k=401", "k=true", "k=1.10", "k=00123", "5=null"]) {
        assert_eq!(answer(&policy, descriptor), format!("{n}/hour"));
    }
    assert_eq!(answer(&policy, "k=123"), "none");
}

#[test]
fn absent_lists_may_be_null() {
    let text = "
domain: d
plans:
descriptors:
  - key: k
    rate_limit: {unit: hour, requests_per_unit: 1, replaces: }
    tenants:
    metadata:
    descriptors:
";
    assert_eq!(answer(&policy(text), "k=v"), "1/hour");
    assert_eq!(policy("domain: d\ndescriptors:").rule_count(), 0);
}

use super::*;
use crate::policy::known::Level;

/// Faults of a file whose descriptors, from its third line on, are `descriptors`.
fn of_descriptors(descriptors: &str) -> Vec<String> {
    faults(&format!("domain: d\ndescriptors:\n{descriptors}"))
}

/// Faults of a limit that stands in the fourth line from column 15 on.
fn of_limit(limit: &str) -> Vec<String> {
    of_descriptors(&format!("- key: a\n  rate_limit: {limit}\n"))
}

#[test]
fn a_file_needs_a_domain_that_is_a_text() {
    let missing = "domain is missing: give the one that Envoy's rate limit filter names";
    assert_eq!(faults("descriptors: []"), [format!("1:1: {missing}")]);
    assert_eq!(faults("# nothing here\n"), ["1:1: this file is empty: a policy begins with domain"]);
    assert_eq!(faults("---\n---\n"), ["1:1: this file is empty: a policy begins with domain"]);
    assert_eq!(faults("domain: ''"), ["1:9: domain is empty: give it a text"]);
    assert_eq!(faults("domain:"), ["1:7: domain is null: give it a text (in quotes, if the word null is meant)"]);
    assert_eq!(faults("domain: [d]"), ["1:9: domain must be a text, and this is a list"]);
    assert_eq!(faults("- d"), ["1:1: a policy file must be a mapping with domain and descriptors, and this is a list"]);
}

#[test]
fn a_descriptor_needs_a_key_that_is_a_text() {
    assert_eq!(
        of_descriptors("- value: v\n- key:\n- key: ''\n- key: [a]\n"),
        [
            "3:3: key is missing: give the key of an entry of the request's descriptor",
            "4:6: key is null: give it a text (in quotes, if the word null is meant)",
            "5:8: key is empty: give it a text",
            "6:8: key must be a text, and this is a list",
        ]
    );
}

#[test]
fn a_key_takes_no_wildcard() {
    assert_eq!(
        of_descriptors("- key: 'k*'\n"),
        ["3:8: a key takes no wildcard: write out the key, and put the * into value"]
    );
}

#[test]
fn what_should_be_a_mapping_or_a_list_is_one() {
    assert_eq!(
        faults("domain: d\ndescriptors: [a, [b], ~]"),
        [
            "2:15: a descriptor must be a mapping with a key, and this is \"a\"",
            "2:18: a descriptor must be a mapping with a key, and this is a list",
            "2:23: a descriptor must be a mapping with a key, and this is null",
        ]
    );
    assert_eq!(faults("domain: d\ndescriptors: {key: a}"), ["2:14: descriptors must be a list, and this is a mapping"]);
    assert_eq!(
        faults("domain: d\nplans: [a]"),
        ["2:8: plans must be a mapping of names to limits, and this is a list"]
    );
    assert_eq!(
        of_descriptors("- {key: a, tenants: x, metadata: [y]}"),
        [
            "3:21: tenants must be a mapping of names to plans or limits, and this is \"x\"",
            "3:34: metadata must be a mapping, and this is a list",
        ]
    );
}

#[test]
fn metadata_is_nested_16_deep_at_most() {
    let nested = |lists: usize| format!("- {{key: a, metadata: {{m: {}1{}}}}}", "[".repeat(lists), "]".repeat(lists));
    assert_eq!(of_descriptors(&nested(15)), [""; 0]);
    // The mapping begins in column 22, and the 16th list in it is one too many.
    assert_eq!(of_descriptors(&nested(16)), ["3:41: metadata is nested more than 16 deep here: flatten it"]);
    assert_eq!(
        of_descriptors("- {key: a, metadata: &a {b: {c: [1]}}}\n- {key: b, metadata: {a: *a}}"),
        [""; 0],
        "aliases count as what they stand for"
    );
}

#[test]
fn rules_for_the_same_values_are_duplicates() {
    assert_eq!(
        of_descriptors(
            "- {key: a, value: b}\n- {key: a, value: b}\n- {key: a}\n- {key: a, value: ''}\n- {key: a, value: 'x*'}\n\
             - {key: a, value: 'x**'}\n- {key: b, value: b}\n- {key: a, value: b}\n- {key: a}\n- {key: a, value: 'x*'}\n"
        ),
        [
            "4:3: duplicate of the descriptor with key \"a\" and value \"b\" at policy.yaml:3:3: make one of the two",
            "6:3: duplicate of the descriptor with key \"a\" and no value at policy.yaml:5:3: make one of the two",
            "8:3: duplicate of the descriptor with key \"a\" and value \"x**\" at policy.yaml:7:3: make one of the two",
            "10:3: duplicate of the descriptor with key \"a\" and value \"b\" at policy.yaml:3:3: make one of the two",
            "11:3: duplicate of the descriptor with key \"a\" and no value at policy.yaml:5:3: make one of the two",
            "12:3: duplicate of the descriptor with key \"a\" and value \"x*\" at policy.yaml:7:3: make one of the two",
        ]
    );
}

#[test]
fn duplicates_in_two_files_name_both() {
    let one = "domain: d\nplans: {p: {unlimited: true}}\ndescriptors: [{key: a}]\n";
    let faults = load_texts(&[("one.yaml", one), ("two.yaml", one)], &Defaults::default()).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "two.yaml:2:9: duplicate of the plan \"p\" at one.yaml:2:9: rename one\n  \
           2 | plans: {p: {unlimited: true}}\n    \
             |         ^\n\
         two.yaml:3:15: duplicate of the descriptor with key \"a\" and no value at one.yaml:3:15: make one of the \
         two\n  \
           3 | descriptors: [{key: a}]\n    \
             |               ^"
    );
}

#[test]
fn an_unknown_key_is_named_with_the_one_that_was_meant() {
    assert_eq!(
        of_descriptors("- key: a\n  ratelimit: {unit: day, requests_per_unit: 1}\n  unit: day\n"),
        [
            "4:3: unknown key \"ratelimit\" in a descriptor: did you mean rate_limit?",
            "5:3: unknown key \"unit\" in a descriptor: unit belongs inside rate_limit or a plan",
        ]
    );
    assert_eq!(
        of_limit("{unit: minute, requests_per_unit: 1, shadow_mode: true}"),
        ["4:52: unknown key \"shadow_mode\" in a limit: shadow_mode belongs to the descriptor, beside its key"]
    );
    assert_eq!(
        faults("domain: d\nxyzzy: 1"),
        ["2:1: unknown key \"xyzzy\" in a policy file: remove it, or use one of domain, plans, descriptors"]
    );
}

#[test]
fn a_misspelt_key_is_not_missing_as_well() {
    assert_eq!(
        faults("domian: d\ndescriptors:\n- kye: a\n  rate_limit: {units: day, requestsPerUnit: 1}\n"),
        [
            "1:1: unknown key \"domian\" in a policy file: did you mean domain?",
            "3:3: unknown key \"kye\" in a descriptor: did you mean key?",
            "4:16: unknown key \"units\" in a limit: did you mean unit?",
            "4:28: unknown key \"requestsPerUnit\" in a limit: did you mean requests_per_unit?",
        ]
    );
}

#[test]
fn every_key_of_the_language_is_known_at_its_level() {
    for (level, before, after) in [
        (Level::File, "", ""),
        (Level::Descriptor, "domain: d\ndescriptors: [{", "}]"),
        (Level::Limit, "domain: d\ndescriptors: [{key: a, rate_limit: {", "}}]"),
        (Level::Replaced, "domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, replaces: [{", "}]}}]"),
    ] {
        for key in level.keys() {
            let faults = faults(&format!("{before}{key}: {after}"));
            assert!(!faults.iter().any(|fault| fault.contains("unknown key")), "{key}: {faults:?}");
        }
    }
}

#[test]
fn a_unit_is_one_of_the_units() {
    let units = "second, minute, hour, day, week, month, year";
    assert_eq!(
        of_limit("{unit: fortnight, requests_per_unit: 1}"),
        [format!("4:22: unit must be one of {units}, and this is \"fortnight\"")]
    );
    assert_eq!(
        of_limit("{unit: , requests_per_unit: 1}"),
        [format!("4:20: unit must be one of {units}, and this is null")]
    );
}

#[test]
fn a_limit_needs_a_unit_and_an_amount() {
    let unit = "4:15: unit is missing: give one of second, minute, hour, day, week, month, year";
    let amount = "4:15: requests_per_unit is missing: give a number, or unlimited: true";
    assert_eq!(of_limit("{requests_per_unit: 5}"), [unit]);
    assert_eq!(of_limit("{unit: day}"), [amount]);
    assert_eq!(of_limit("{}"), [amount, unit]);
}

#[test]
fn numbers_are_whole_and_in_range_and_not_in_quotes() {
    let range = "requests_per_unit must be a whole number from 0 to 4294967295, and this is";
    for (number, fault) in [
        ("-1", format!("{range} \"-1\"")),
        ("1.5", format!("{range} \"1.5\"")),
        ("4294967296", format!("{range} \"4294967296\"")),
        ("many", format!("{range} \"many\"")),
        ("[1]", format!("{range} a list")),
        ("~", format!("{range} null")),
        ("'1'", "requests_per_unit must be a number: remove the quotes".to_owned()),
        ("010", "requests_per_unit begins with 0, which some take for octal: remove the zero, or write 0o".to_owned()),
    ] {
        let limit = format!("{{unit: day, burst: 1, requests_per_unit: {number}}}");
        assert_eq!(of_limit(&limit), [format!("4:56: {fault}")], "{number}");
    }
}

#[test]
fn booleans_are_not_in_quotes() {
    assert_eq!(
        of_descriptors("- {key: a, shadow_mode: 'true', quota_mode: 1, detailed_metric: , value_to_metric: [a]}\n"),
        [
            "3:25: shadow_mode must be true or false: remove the quotes",
            "3:45: quota_mode must be true or false, and this is \"1\"",
            "3:63: detailed_metric must be true or false, and this is null",
            "3:84: value_to_metric must be true or false, and this is a list",
        ]
    );
}

#[test]
fn an_unlimited_limit_says_nothing_else() {
    assert_eq!(
        of_limit("{unlimited: true, unit: day, burst: 1, name: n, replaces: [{name: m}]}"),
        [
            "4:33: \"unit\" does not go with unlimited: true: remove one of the two",
            "4:44: \"burst\" does not go with unlimited: true: remove one of the two",
        ]
    );
    assert_eq!(of_limit("{unlimited: maybe}"), ["4:27: unlimited must be true or false, and this is \"maybe\""]);
    assert!(of_limit("{unlimited: false, unit: hour, requests_per_unit: 1}").is_empty());
}

#[test]
fn a_limit_that_cannot_be_computed_with_is_a_fault_of_the_key_that_is_wrong() {
    for (limit, fault) in [
        (
            "{unit: minute, requests_per_unit: 10, burst: 0}",
            "4:60: burst is 0: give at least 1, or requests_per_unit: 0 to block everything",
        ),
        (
            "{unit: minute, requests_per_unit: 0, burst: 1}",
            "4:59: a limit of 0 requests blocks everything and takes no burst: remove burst",
        ),
        (
            "{unit: minute, requests_per_unit: 3, burst: 1, algorithm: fixed_window}",
            "4:59: burst belongs to algorithm: token_bucket; a fixed_window has none: remove burst or set the \
             algorithm",
        ),
        ("{unit: minute, requests_per_unit: 3, unit_multiplier: 0}", "4:69: unit_multiplier is 0: give at least 1"),
        (
            "{unit: year, requests_per_unit: 3, unit_multiplier: 11}",
            "4:67: the limit's period is longer than ten years: lower unit_multiplier or take a shorter unit",
        ),
        (
            "{unit: year, requests_per_unit: 4294967295}",
            "4:47: requests_per_unit is more than Redis can count exactly over so long a period: give at most \
             285616414, or algorithm: fixed_window",
        ),
    ] {
        assert_eq!(of_limit(limit), [fault], "{limit}");
    }
    assert!(of_limit("{unit: year, requests_per_unit: 285616414}").is_empty());
    assert!(of_limit("{unit: year, requests_per_unit: 4294967295, algorithm: fixed_window}").is_empty());
}

#[test]
fn words_are_among_those_that_are_known() {
    assert_eq!(
        of_limit(
            "{unit: hour, requests_per_unit: 1, failure_mode: maybe, scope: galaxy, algorithm: gcra, overdraft: 1}"
        ),
        [
            "4:64: failure_mode must be one of local, open, closed, unavailable, and this is \"maybe\"",
            "4:78: scope must be one of global, replica, and this is \"galaxy\"",
            "4:97: algorithm must be one of token_bucket, fixed_window, and this is \"gcra\"",
            "4:114: overdraft must be true or false, and this is \"1\"",
        ]
    );
}

#[test]
fn a_rate_limit_is_a_limit_or_a_list_of_them() {
    assert_eq!(of_limit(""), ["4:13: rate_limit is null: give a limit, or remove it"]);
    assert_eq!(of_limit("[]"), ["4:15: rate_limit is an empty list: give a limit, or remove it"]);
    assert_eq!(
        of_limit("gold"),
        ["4:15: rate_limit must be a limit or a list of limits (the name of a plan belongs to plan), and this is \
             \"gold\""]
    );
    let such = "rate_limit must be a limit such as {unit: minute, requests_per_unit: 60}, and this is";
    assert_eq!(of_limit("[~, [a]]"), [format!("4:16: {such} null"), format!("4:19: {such} a list")]);
}

#[test]
fn limits_of_one_rule_have_buckets_of_their_own() {
    assert_eq!(
        of_limit(
            "\n  - {unit: hour, requests_per_unit: 1}\n  - {unit: hour, requests_per_unit: 9}\n  \
             - {unlimited: true}\n  \
             - {unit: hour, requests_per_unit: 5}\n  \
             - {unit: hour, requests_per_unit: 1, algorithm: fixed_window}\n  \
             - {unit: hour, requests_per_unit: 1, unit_multiplier: 2}"
        ),
        [
            "6:5: a duplicate of the limit at 5:5: with the same unit, unit_multiplier and algorithm they would be one \
             bucket, so keep the stricter one",
            "7:5: an unlimited limit beside others has no effect: remove it, or the others",
            "8:5: a duplicate of the limit at 5:5: with the same unit, unit_multiplier and algorithm they would be one \
             bucket, so keep the stricter one",
        ]
    );
}

#[test]
fn a_rule_replaces_named_limits_of_other_rules() {
    assert_eq!(
        of_limit("{name: n, unlimited: true, replaces: [{name: n}, {name: ''}, {}, {nme: x}, y, {name: nowhere}]}"),
        [
            "4:60: replaces names this rule itself, \"n\": name a limit of another rule",
            "4:71: a name in replaces is empty: give it a text",
            "4:76: an entry of replaces has no name: give it the name of a limit",
            "4:81: unknown key \"nme\" in an entry of replaces: did you mean name?",
            "4:90: an entry of replaces must be a mapping such as {name: other}, and this is \"y\"",
        ]
    );
    assert_eq!(
        of_limit(
            "[{name: n, unit: hour, requests_per_unit: 1}, {unit: minute, requests_per_unit: 1, replaces: [{name: n}]}]"
        ),
        ["4:116: replaces names this rule itself, \"n\": name a limit of another rule"]
    );
}

#[test]
fn a_shared_threshold_needs_a_wildcard() {
    let fault = "share_threshold needs a wildcard: put a * into value, or remove it";
    assert_eq!(
        of_descriptors(
            "- {key: k, value: foo, share_threshold: true}\n- {key: l, share_threshold: true}\n\
             - {key: m, value: x, share_threshold: false}\n- {key: n, value: 'x*', share_threshold: true}\n"
        ),
        [format!("3:24: {fault}"), format!("4:12: {fault}")]
    );
}

#[test]
fn an_unknown_plan_is_answered_with_the_nearest() {
    let plans = "domain: d\nplans: {free: {unit: hour, requests_per_unit: 1}}\ndescriptors:\n";
    assert_eq!(
        faults(&format!(
            "{plans}- {{key: a, plan: fre}}\n- {{key: b, plan: gold}}\n- {{key: c, tenants: {{x: Free}}}}"
        )),
        [
            "4:18: unknown plan \"fre\": did you mean free?",
            "5:18: unknown plan \"gold\": add it under plans, or use one of this domain's, such as \"free\"",
            "6:25: unknown plan \"Free\": did you mean free?",
        ]
    );
    assert_eq!(
        of_descriptors("- {key: a, plan: fre}"),
        ["3:18: unknown plan \"fre\": this domain has no plans: add it under plans at the top of the file"]
    );
}

#[test]
fn a_plan_is_not_missed_while_a_file_that_may_have_it_is_broken() {
    let texts = [("a.yaml", "domain: d\ndescriptors: [{key: a, plan: p}]"), ("b.yaml", "domain: 'd")];
    let faults = load_texts(&texts, &Defaults::default()).unwrap_err().faults;
    assert_eq!(faults.iter().map(|fault| &*fault.file).collect::<Vec<_>>(), ["b.yaml"]);
}

#[test]
fn a_plan_and_a_rate_limit_exclude_each_other() {
    let plans = "domain: d\nplans: {free: {unit: hour, requests_per_unit: 1}}\ndescriptors:\n";
    assert_eq!(
        faults(&format!("{plans}- key: a\n  rate_limit: {{unit: hour, requests_per_unit: 1}}\n  plan: free\n")),
        ["6:3: plan and rate_limit exclude each other: remove one"]
    );
    assert_eq!(
        faults(&format!("{plans}- key: a\n  plan: {{unit: hour, requests_per_unit: 1}}\n- {{key: b, plan: }}\n")),
        [
            "5:9: plan must be the name of a plan (a limit belongs to rate_limit), and this is a mapping",
            "6:16: plan is null: give it a text (in quotes, if the word null is meant)",
        ]
    );
}

#[test]
fn plans_are_limits_with_names() {
    assert_eq!(
        faults("domain: d\nplans:\n  a:\n  b: a\n  '': {unlimited: true}\n  c: {unit: hour}\n"),
        [
            "3:4: a plan is null: give a limit, or remove it",
            "4:6: a plan must be a limit such as {unit: minute, requests_per_unit: 60}, and this is \"a\"",
            "5:3: the name of a plan is empty: give it one",
            "6:6: requests_per_unit is missing: give a number, or unlimited: true",
        ]
    );
}

#[test]
fn a_tenant_must_be_able_to_match() {
    let plans = "domain: d\nplans: {p: {unit: hour, requests_per_unit: 1}}\ndescriptors:\n";
    assert_eq!(
        faults(&format!(
            "{plans}- key: t\n  tenants: {{acme: p, b: , c: [], 'e*': p, 'e**': p, '': p}}\n- {{key: t, value: acme}}\n\
             - {{key: u, value: 'w*', tenants: {{a: p, wa: p}}}}\n"
        )),
        [
            "5:13: the tenant \"acme\" is also the value of the descriptor at policy.yaml:6:3, which would go first: \
             remove one",
            "5:23: the limit of a tenant is null: give a limit, or remove it",
            "5:30: the limit of a tenant is an empty list: give a limit, or remove it",
            "5:43: duplicate of an earlier wildcard, \"e**\": remove one",
            "5:53: the name of a tenant is empty: give it one",
            "7:35: the tenant \"a\" does not match the value of its descriptor: move or remove it",
        ]
    );
    assert_eq!(
        faults(&format!(
            "{plans}- {{key: t, value: v, tenants: {{a: p}}}}\n\
             - {{key: t, value: 'v*', share_threshold: true, tenants: {{va: p}}}}\n"
        )),
        [
            "4:22: tenants do not go with the one value of this descriptor: remove value, or give the limit to the \
             descriptor itself",
            "5:48: tenants do not go with share_threshold, one bucket for all: remove one",
        ]
    );
}

#[test]
fn every_fault_of_every_file_is_told_at_once() {
    let texts = [
        ("a.yaml", "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: fortnight, requests_per_unit: -1}\n"),
        ("b.yaml", "domain: 'd\n"),
        ("c.yaml", "domain: d\ndescriptors:\n- value: c\n  descriptors: [{key: x}, {key: x}]\n- {key: a}\n"),
    ];
    let faults = load_texts(&texts, &Defaults::default()).unwrap_err().faults;
    let places: Vec<String> = faults.iter().map(|fault| format!("{}:{}", fault.file, fault.line)).collect();
    assert_eq!(places, ["a.yaml:4", "a.yaml:4", "b.yaml:1", "c.yaml:3", "c.yaml:4", "c.yaml:5"]);
}

#[test]
fn a_long_token_bucket_that_names_neither_burst_nor_algorithm_is_noted() {
    let text = "
domain: d
descriptors:
  - key: a
    rate_limit:
      - {unit: hour, requests_per_unit: 1}
      - {unit: day, requests_per_unit: 1}
      - {unit: hour, unit_multiplier: 24, requests_per_unit: 1}
      - {unit: week, requests_per_unit: 1, burst: 1}
      - {unit: month, requests_per_unit: 1, algorithm: token_bucket}
      - {unit: year, requests_per_unit: 0}
";
    let notes = load_texts(&[("p.yaml", text)], &Defaults::default()).unwrap().notes;
    let shown: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown[0],
        "p.yaml:7:16: note: this token bucket starts full, so it may admit twice its amount in its first period: if \
         that is too much give a lower burst or algorithm: fixed_window, else algorithm: token_bucket\n  \
           7 |       - {unit: day, requests_per_unit: 1}\n    \
             |                ^"
    );
    assert!(shown[1].starts_with("p.yaml:8:16: note: "));
    assert_eq!(shown.len(), 2);

    let windows = Defaults { algorithm: Algorithm::FixedWindow, overdraft: false };
    let silent = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]";
    assert!(load_texts(&[("p.yaml", silent)], &windows).unwrap().notes.is_empty());
}

#[test]
fn a_file_with_many_faults_is_told_all_of_them_with_its_lines() {
    let text = r#"domian: api
plans:
  free: {requests_per_unit: 60, unit: fortnight}
  gold: {request_per_unit: 6000, unit: minute, burst: 0}
  gold: {requests_per_unit: 1, unit: day}
descriptors:
  - key: tenant
    plan: silver
    shadow_mode: "true"
    rate_limit: {requests_per_unit: 007, unit: second}
  - value: x
    rate_limt: {unlimited: true}
  - key: path*
    value: /a
    tenants: {x: free}
    rate_limit: [{unlimited: true, unit: day}, {unit: day, requests_per_unit: 5, algorithm: leaky_bucket}]
    descriptors: {}
"#;
    insta::assert_snapshot!(load_texts(&[("api.yaml", text)], &Defaults::default()).unwrap_err());
}

#[test]
fn one_fault_more_than_are_told_is_said_to_be_there() {
    let unknown_keys = |count: u32| {
        let keys: Vec<String> = (0..count).map(|n| format!("xyzzy{n}: 1")).collect();
        let text = format!("domain: d\n{}", keys.join("\n"));
        load_texts(&[("p.yaml", &text)], &Defaults::default()).unwrap_err().to_string()
    };
    let more = "there are more faults than these: correct them and check again";
    assert!(!unknown_keys(1000).contains(more));
    assert!(unknown_keys(1001).ends_with(more));
}

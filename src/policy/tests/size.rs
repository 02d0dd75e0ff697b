use proptest::prelude::*;

use super::*;

/// The one fault of a text that no computer should take long over.
fn only_fault_within(seconds: u64, text: &str) -> String {
    let faults = within(seconds, || faults(text));
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    fault.clone()
}

#[test]
fn a_hundred_thousand_descriptors_are_loaded() {
    let mut text = String::from("domain: d\ndescriptors:\n");
    for n in 1..=100_000 {
        let limit = format!("{{unit: minute, requests_per_unit: {n}}}");
        writeln!(text, "  - key: tenant\n    value: tenant-{n}\n    rate_limit: {limit}").unwrap();
    }
    let policy = within(20, || policy(&text));
    assert_eq!(policy.rule_count(), 100_000);
    assert_eq!(answer(&policy, "tenant=tenant-77777"), "77777/minute");
}

#[test]
fn a_hundred_thousand_tenants_share_a_plan() {
    let mut text = String::from("domain: d\nplans: {p: {unit: hour, requests_per_unit: 1}}\ndescriptors:\n- key: t\n");
    text.push_str("  tenants:\n");
    for n in 1..=100_000 {
        writeln!(text, "    t{n}: p").unwrap();
    }
    assert_eq!(answer(&within(8, || policy(&text)), "t=t77777"), "1/hour");
}

#[test]
fn a_file_that_expands_to_billions_of_nodes_is_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..30 {
        let alias = format!("*a{}, ", n - 1).repeat(10);
        writeln!(text, "a{n}: &a{n} [{alias}]").unwrap();
    }
    assert_eq!(
        only_fault_within(1, &text),
        "7:9: the file has more than 5000000 keys and values with its aliases expanded: split it into several"
    );
}

#[test]
fn merges_of_merges_are_refused_before_they_grow() {
    let mut text = String::from("m: &m {");
    for n in 0..10_000 {
        write!(text, "k{n}: 1, ").unwrap();
    }
    text.push_str("}\nl:\n");
    text.push_str(&"- <<: *m\n".repeat(10_000));
    assert!(only_fault_within(20, &text).ends_with("split it into several"));
}

#[test]
fn nesting_is_bounded_as_written_and_as_expanded() {
    for deep in ["[", "{a: ", "- ", "? "] {
        let fault = only_fault_within(1, &deep.repeat(100_000));
        assert!(fault.ends_with("nested more than 255 deep: flatten it"), "{fault}");
    }
    let mut text = String::from("a0: &a0 [x]\n");
    for n in 1..100_000 {
        writeln!(text, "a{n}: &a{n} [*a{}]", n - 1).unwrap();
    }
    assert!(only_fault_within(1, &text).ends_with("nested more than 255 deep with its aliases expanded: flatten it"));
}

#[test]
fn the_deepest_policy_that_is_read_is_also_walked() {
    let mut text =
        String::from("domain: d\nplans: {p: &p0 {unlimited: true}}\ndescriptors:\n- &r0 {key: k, plan: p}\n");
    for n in 1..126 {
        writeln!(text, "- &r{n} {{key: k{n}, plan: p, metadata: {{n: [*p0]}}, descriptors: [*r{}]}}", n - 1).unwrap();
    }
    // 126 rules over another, each a list and a mapping deep, and below the n-th there are n.
    assert_eq!(within(2, || policy(&text)).rule_count(), 126 * 127 / 2);
}

#[test]
fn a_long_line_of_faults_is_told_quickly() {
    let mut text = String::from("domain: d\ndescriptors: [");
    for n in 0..100_000 {
        write!(text, "{{kay{n}: a}}, ").unwrap();
    }
    text.push(']');
    assert_eq!(within(10, || faults(&text)).len(), 1000);
}

/// Pieces of policies, whose mixtures reach further than arbitrary text does.
const PIECES: [&str; 32] = [
    "domain: d\n",
    "descriptors:\n",
    "- key: a\n",
    "  key: b\n",
    "  value: 'x*'\n",
    "  value: x\n",
    "plans:\n",
    "  p: ",
    "  plan: p\n",
    "  tenants: {a: p, 'b*': p}\n",
    "  rate_limit: ",
    "{unit: day, requests_per_unit: 1}\n",
    "  descriptors:\n",
    "  - key: c\n",
    "&a ",
    "*a ",
    "<<: ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ": ",
    "\n",
    "---\n",
    "!!str ",
    "'",
    "\"",
    "~",
    "unlimited: true",
    "  share_threshold: true\n",
    "\u{feff}",
];

#[test]
fn a_long_key_above_many_rules_is_not_written_out_for_each() {
    let child = |n| format!("      - {{key: k, value: v{n}, rate_limit: {{unit: day, requests_per_unit: 1}}}}\n");
    let children = (0..1_000).map(child).collect::<Vec<_>>().concat();
    let text = format!("domain: d\ndescriptors:\n  - key: x{}\n    descriptors:\n{children}", "y".repeat(500_000));
    let policy = load_texts(&[("policy.yaml", &text)], &Defaults::default()).unwrap().policy;
    let page = policy.rule_page(0, 1_000);
    let written: usize = page.rules.iter().map(|rule| rule.to_string().len()).sum();
    assert!(written < 1_000_000, "{written} bytes for {} rules", page.rules.len());
}

proptest! {
    #[test]
    fn no_text_makes_loading_panic(text in "\\PC{0,200}") {
        let _ = load_texts(&[("policy.yaml", &text)], &Defaults::default());
    }

    #[test]
    fn no_mixture_of_policies_makes_loading_panic(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60)
    ) {
        let text = pieces.concat();
        match load_texts(&[("one.yaml", &text), ("two.yaml", &text)], &Defaults::default()) {
            Ok(loaded) => prop_assert_eq!(loaded.policy.files().len(), 2),
            Err(faults) => prop_assert!(!faults.to_string().is_empty()),
        }
    }
}

use proptest::prelude::*;

use super::*;

/// The rules of one level and below, in few keys and values, so that requests often find something.
fn level(depth: u32) -> BoxedStrategy<Vec<String>> {
    let value = prop::sample::select(&["", "a", "b", "ab", "*", "a*", "*b", "a*b", "aa*"][..]);
    let limit = prop::sample::select(
        &[
            "",
            "plan: p",
            "rate_limit: {unit: day, requests_per_unit: 7}",
            "tenants: {ab: p, a*b*: {unlimited: true}, '*': {unit: day, requests_per_unit: 3}}",
        ][..],
    );
    let below = if depth == 0 { Just(Vec::new()).boxed() } else { level(depth - 1) };
    let rule = (prop::sample::select(&["j", "k"][..]), value, limit, any::<bool>(), below);
    let rules = prop::collection::btree_map((rule.0, rule.1), (rule.2, rule.3, rule.4), 0..6);
    rules
        .prop_map(|rules| {
            let rule = |((key, value), (limit, is_shared, below)): ((&str, &str), (&str, bool, Vec<String>))| {
                let takes_tenants = matches!(value, "" | "*" | "a*");
                let limit = if limit.starts_with("tenants") && !takes_tenants { "" } else { limit };
                let can_share = value.contains('*') && !limit.starts_with("tenants");
                let share = if is_shared && can_share { "share_threshold: true," } else { "" };
                let below = below.join(", ");
                // A tenant that is also a sibling's value, or does not match, is a fault.
                let limit = limit.replace("ab: p", if value == "a*" { "abb: p" } else { "abbb: p" });
                format!("{{key: {key}, value: '{value}', {share} descriptors: [{below}], {limit}}}")
            };
            rules.into_iter().map(rule).collect()
        })
        .boxed()
}

fn descriptor() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let value = prop::sample::select(&["", "a", "b", "ab", "abb", "abbb", "aab", "c"][..]);
    prop::collection::vec((prop::sample::select(&["j", "k", "l"][..]), value), 0..4)
}

proptest! {
    #[test]
    fn an_explanation_finds_what_a_request_finds(
        rules in level(2),
        descriptors in prop::collection::vec(descriptor(), 20),
    ) {
        let text = format!(
            "domain: d\nplans: {{p: {{unit: hour, requests_per_unit: 1}}}}\ndescriptors: [{}]", rules.join(", ")
        );
        let policy = policy(&text);
        let domain = policy.domain(b"d").unwrap();
        for descriptor in descriptors {
            let entries: Vec<_> = descriptor.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
            let mut path = Vec::new();
            let found = domain.find(entries.iter().copied(), |part| {
                path.push((part.key.to_vec(), part.value.to_vec(), part.is_shared));
            });
            let walk = domain.explain(&entries);
            let walked: Vec<_> =
                walk.path.iter().map(|part| (part.key.to_vec(), part.value.to_vec(), part.is_shared)).collect();
            prop_assert_eq!(walked, path);
            prop_assert_eq!(walk.end.is_some(), !entries.is_empty() && walk.path.len() == entries.len());

            let explained = walk.end.map(|end| end.limits).unwrap_or_default();
            let explained: Vec<_> = explained.iter().map(|(limit, _)| std::ptr::from_ref(*limit)).collect();
            let found_limits = found.map_or(&[][..], |found| found.limits);
            prop_assert_eq!(explained, found_limits.iter().map(std::ptr::from_ref).collect::<Vec<_>>());

            let last_rule = walk.levels.last().and_then(|level| level.matched.as_ref()).map(|matched| matched.rule.line);
            if let Some(found) = found {
                prop_assert_eq!(last_rule, Some(found.rule.line));
            }
        }
    }
}

#[test]
fn a_limit_knows_where_it_comes_from() {
    let policy = load_texts(
        &[
            ("plans.yaml", "domain: d\nplans:\n  gold: {unit: hour, requests_per_unit: 9, algorithm: token_bucket}\n"),
            (
                "rules.yaml",
                "domain: d\ndescriptors:\n- key: k\n  plan: gold\n  tenants:\n    t:\n      - overdraft: false\n        unit: \
                 day\n        requests_per_unit: 1\n",
            ),
        ],
        &Defaults::default(),
    );
    let policy = policy.unwrap().policy;
    let origin = |value: &str| {
        let walk = policy.domain(b"d").unwrap().explain(&[(b"k", value.as_bytes())]);
        let [(limit, description)] = &walk.end.unwrap().limits[..] else { panic!("one limit") };
        let origin = &limit.origin;
        let plan = origin.plan.as_ref().map(|plan| plan.name.to_string());
        let place = format!("{}:{}", description.file, description.line);
        (place, plan, origin.has_default_algorithm, origin.has_default_overdraft)
    };
    assert_eq!(origin("other"), ("plans.yaml:3".to_owned(), Some("gold".to_owned()), false, true));
    assert_eq!(origin("t"), ("rules.yaml:7".to_owned(), None, true, false));
}

#[test]
fn rules_are_listed_in_the_order_of_the_files_page_by_page() {
    let mut text = String::from("domain: d\nplans: {p: {unlimited: true}}\ndescriptors:\n");
    for n in 0..20 {
        writeln!(text, "- {{key: k{}, value: v{n}, plan: p, descriptors: [{{key: below}}]}}", n % 3).unwrap();
    }
    let policy = policy(&text);
    let paths = |offset, limit| -> Vec<String> {
        let page = policy.rule_page(offset, limit);
        assert_eq!((page.rule_count, page.offset), (40, offset));
        page.rules.iter().map(|rule| rule.to_string().lines().next().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(0, 3), ["d: k0=v0", "d: k0=v0 > below", "d: k1=v1"]);
    assert_eq!(paths(37, 100), ["d: k0=v18 > below", "d: k1=v19", "d: k1=v19 > below"]);
    assert_eq!(paths(40, 1), [""; 0]);
    assert_eq!(paths(usize::MAX, usize::MAX), [""; 0]);
    let all: Vec<String> = (0..8).flat_map(|page| paths(page * 5, 5)).collect();
    assert_eq!(all, paths(0, 1000));
}

#[test]
fn the_same_file_has_the_same_hash() {
    let hash = |text: &str| policy(text).hash().to_string();
    assert_eq!(hash("domain: d"), hash("domain: d"));
    assert_ne!(hash("domain: d"), hash("domain: d "));
}

//! The schema for editors says what the reader does: every policy that loads is valid, and most faults are not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::known::Level;
use super::super::limits::{ALGORITHMS, FAILURE_MODES, SCOPES};
use super::*;
use crate::limit::Unit;

/// Faulty conformance cases that no schema can tell from a policy, and why.
const BEYOND_A_SCHEMA: &[(&str, &str)] = &[
    ("two rules for the same key and value", "compares two items of a list"),
    ("the same rule in two files", "compares two files"),
    ("a rule may not replace itself", "compares two values"),
    ("an unknown plan", "compares a value with the keys of another mapping"),
    ("a tenant that is also a sibling's value", "compares a key with a value elsewhere"),
    ("a directory without a policy", "there is no file to look at"),
    ("the same key and value twice, deep in the tree", "compares two items of a list"),
    ("an empty value and no value are the same rule", "compares two items of a list"),
    ("one wildcard twice", "compares two items of a list"),
    ("the same rule in two files of a domain, deep in the tree", "compares two files"),
    ("a limit that replaces itself", "compares two values"),
    ("two equal limits on one rule are a fault", "compares two items of a list"),
];

/// Faulty conformance cases that an editor's YAML parser refuses, so that the schema is never asked.
const NOT_ONE_YAML_DOCUMENT: &[&str] = &[
    "broken YAML names its line",
    "YAML that ends too early",
    "YAML with a tab for indentation",
    "a second document, which would be ignored",
    "the same key twice in one mapping, of which one would be ignored",
];

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| jsonschema::draft7::new(&schema()).unwrap());

/// The document of a YAML text as an editor reads it, by YAML 1.2's core schema.
fn document(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// What the schema has against a YAML text.
fn complaints(text: &str) -> Vec<String> {
    let document = document(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    VALIDATOR.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// What of a conformance case matters here.
#[derive(Deserialize)]
struct Case {
    name: String,
    policy: Option<String>,
    policies: Option<Map<String, Value>>,
    check_error: Option<Value>,
}

impl Case {
    fn is_faulty(&self) -> bool {
        self.check_error.as_ref().is_some_and(|wanted| *wanted != json!(false))
    }

    /// The policy files of the case.
    fn texts(&self) -> Vec<&str> {
        let is_policy = |name: &str| !format!("/{name}").contains("/.") && name.to_lowercase().contains(".y");
        let several = self.policies.iter().flatten().filter(|(name, _)| is_policy(name));
        self.policy.as_deref().into_iter().chain(several.map(|(_, text)| text.as_str().unwrap())).collect()
    }
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn texts_in(folder: &str) -> Vec<String> {
    let files = fs::read_dir(in_repository(folder)).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    texts.map(|path| fs::read_to_string(path).unwrap()).collect()
}

fn cases() -> Vec<Case> {
    let files = texts_in("tests/conformance");
    files.iter().flat_map(|text| serde_saphyr::from_str::<Vec<Case>>(text).unwrap()).collect()
}

#[test]
fn the_schema_is_a_schema() {
    jsonschema::draft7::meta::validate(&schema()).unwrap();
}

#[test]
fn it_has_exactly_the_keys_of_the_reader_each_with_a_description() {
    let schema = schema();
    for (level, place) in [
        (Level::File, ""),
        (Level::Descriptor, "/definitions/descriptor"),
        (Level::Limit, "/definitions/limit"),
        (Level::Replaced, "/definitions/replaced"),
    ] {
        let mapping = schema.pointer(place).unwrap();
        assert_eq!(mapping["additionalProperties"], json!(false), "{level:?}");
        let properties = mapping["properties"].as_object().unwrap();
        let keys: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(keys, level.keys().iter().copied().collect(), "{level:?}");
        for (key, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| text.ends_with('.')), "{key}");
        }
    }
}

#[test]
fn it_has_exactly_the_words_of_the_reader() {
    let schema = schema();
    let words = |key: &str, list: &str| -> Vec<String> {
        let words = schema["definitions"]["limit"]["properties"][key][list].as_array().unwrap();
        words.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(words("unit", "examples"), Unit::ALL.map(Unit::name));
    assert_eq!(words("algorithm", "enum"), ALGORITHMS.map(|(word, _)| word));
    assert_eq!(words("failure_mode", "enum"), FAILURE_MODES.map(|(word, _)| word));
    assert_eq!(words("scope", "enum"), SCOPES.map(|(word, _)| word));
}

#[test]
fn every_policy_of_the_repository_is_valid() {
    let config = texts_in("config");
    let cases = cases();
    let of_cases = cases.iter().filter(|case| !case.is_faulty()).flat_map(Case::texts);
    let mut count = 0;
    for text in config.iter().map(String::as_str).chain(of_cases) {
        assert_eq!(complaints(text), [""; 0], "{text}");
        count += 1;
    }
    assert!(count > 50, "only {count} policies were found");
}

/// The YAML examples in a page that are whole policies.
fn examples_in(page: &str) -> Vec<String> {
    let text = fs::read_to_string(in_repository(page)).unwrap();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.filter(|block| block.contains("domain:")).map(str::to_owned).collect()
}

#[test]
fn every_policy_of_the_documentation_loads_and_is_valid() {
    for page in ["README.md", "docs/policy.md"] {
        let examples = examples_in(page);
        assert!(!examples.is_empty(), "{page}");
        for example in examples {
            assert_eq!(faults(&example), [""; 0], "{example}");
            assert_eq!(complaints(&example), [""; 0], "{example}");
        }
    }
}

#[test]
fn policy_md_has_a_row_for_every_key() {
    let page = fs::read_to_string(in_repository("docs/policy.md")).unwrap();
    for (level, title) in [
        (Level::File, "## Keys of a file"),
        (Level::Descriptor, "## Keys of a rule"),
        (Level::Limit, "## Keys of a limit"),
    ] {
        let section = page.split(title).nth(1).unwrap().split("\n## ").next().unwrap();
        let named: BTreeSet<&str> = section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next())
            .flat_map(|cell| cell.split(", "))
            .map(|key| key.trim_matches('`'))
            .collect();
        assert_eq!(named, level.keys().iter().copied().collect(), "{title}");
    }
}

#[test]
fn every_faulty_case_is_rejected_but_those_that_a_schema_cannot_know() {
    let (mut accepted, mut unreadable) = (BTreeSet::new(), BTreeSet::new());
    let cases = cases();
    for case in cases.iter().filter(|case| case.is_faulty()) {
        let documents: Vec<_> = case.texts().into_iter().map(document).collect();
        if documents.iter().any(Result::is_err) {
            unreadable.insert(&*case.name);
        } else if documents.iter().flatten().all(|document| VALIDATOR.is_valid(document)) {
            accepted.insert(&*case.name);
        }
    }
    assert_eq!(accepted, BEYOND_A_SCHEMA.iter().map(|(name, _)| *name).collect());
    assert_eq!(unreadable, NOT_ONE_YAML_DOCUMENT.iter().copied().collect());
}

/// One fault each, that both the schema and the reader know.
#[test]
fn what_the_schema_rejects_the_reader_rejects() {
    for fault in [
        "domain: d\ndescriptors: [{key: k, rate_limit: []}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: [{unit: day, requests_per_unit: 1}, null]}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: '1'}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: days, requests_per_unit: 1}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, algorithm: leaky}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, scope: zone}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 0, burst: 5}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, unit_multiplier: 4e9}}]",
        "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 9, algorithm: fixed_window, burst: 9}}",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: yes, unit: day, requests_per_unit: 9}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: false}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true, replaces: [{}]}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true, replaces: [{name: n, why: x}]}}]",
        "domain: d\ndescriptors: [{key: k, shadow_mode: 'true'}]",
        "domain: d\ndescriptors: [{key: k, metadata: [a]}]",
        "domain: d\ndescriptors: [{key: k, plan: }]",
        "domain: d\ndescriptors: [{key: k, value: v, tenants: }]",
        "domain: d\nplans: {p: {unlimited: true}}\ndescriptors: [{key: k, value: 7, tenants: {a: p}}]",
        "domain: d\nplans: {p: {unlimited: true}}\ndescriptors: [{key: k, tenants: {'': p}}]",
        "domain: d\nplans: {p: {unlimited: true}}\ndescriptors: [{key: k, tenants: {a: }}]",
        "domain: d\nplans: {p: {unlimited: true}}\ndescriptors: [{key: k, value: v*, share_threshold: on, tenants: {va: p}}]",
        "domain: d\nplans: {p: {unlimited: true}}\ndescriptors: [{key: k, value: 7, share_threshold: true}]",
        "domain: d\nplans: {'': {unlimited: true}}",
        "domain: d\nplans: {p: null}",
        "domain: d\nplans: [p]",
        "domain: ''",
        "domain:",
        "[]",
    ] {
        assert_ne!(complaints(fault), [""; 0], "the schema accepts\n{fault}");
        assert_ne!(faults(fault), [""; 0], "the reader accepts\n{fault}");
    }
}

/// Forms that are unusual and correct.
#[test]
fn what_the_reader_accepts_the_schema_accepts() {
    for policy in [
        "domain: 7",
        "domain: true\nplans:\ndescriptors:",
        "domain: d\ndescriptors: [{key: 00123, value: 1.10, metadata: }, {key: no, value: , tenants: }]",
        "domain: d\ndescriptors: [{key: k, value: '', tenants: {00123: {unlimited: true}, 5: [{unlimited: YES}]}}]",
        "domain: d\ndescriptors: [{key: k, value: v*, share_threshold: Off, tenants: {va: {unlimited: on}}}]",
        "domain: d\nplans: {1: {unlimited: True, name: 5, replaces: }}\ndescriptors: [{key: k, plan: 1}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: \"MiNuTe\", requests_per_unit: 4.294967295e+09}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1_000_000, burst: 0x3c}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 0b101, burst: +0o17}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 0x3_c, burst: 60.0}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 0, unit_multiplier: 315360000}}]",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, name: , unlimited: false}}]",
        "x: &day {unit: day, requests_per_unit: 1}\n",
    ] {
        // The last one is there so that this test is seen to compare.
        let is_policy = policy.starts_with("domain");
        assert_eq!(faults(policy).is_empty(), is_policy, "{:?} in\n{policy}", faults(policy));
        assert_eq!(complaints(policy).is_empty(), is_policy, "{:?}", complaints(policy));
    }
}

/// A few of the pairs, each there or not.
fn some_of(pairs: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let pairs: Vec<_> = pairs
        .into_iter()
        .map(|(key, value)| prop::option::weighted(0.3, value.prop_map(move |value| (key.to_owned(), value))).boxed())
        .collect();
    pairs.prop_map(|pairs| pairs.into_iter().flatten().collect::<Map<_, _>>().into()).boxed()
}

fn one_of(values: Vec<Value>) -> BoxedStrategy<Value> {
    select(values).boxed()
}

fn any_limit() -> BoxedStrategy<Value> {
    let flag = || one_of(vec![json!(true), json!(false), json!("true"), json!(null)]);
    let number = || one_of(vec![json!(0), json!(1), json!(5.0), json!(1.5), json!(-1), json!(1_u64 << 32), json!("5")]);
    let extras = some_of(vec![
        ("unit_multiplier", number()),
        ("burst", number()),
        ("algorithm", one_of(vec![json!("fixed_window"), json!("token_bucket"), json!("other")])),
        ("unlimited", flag()),
        ("name", one_of(vec![json!("n"), json!(5), json!(""), json!(null), json!([])])),
        ("replaces", one_of(vec![json!(null), json!([]), json!([{"name": "m"}]), json!([{}]), json!(["m"])])),
        ("failure_mode", one_of(vec![json!("open"), json!("Open")])),
        ("scope", one_of(vec![json!("replica"), json!(true)])),
        ("overdraft", flag()),
        ("other", flag()),
    ]);
    let quota = prop_oneof![
        2 => Just(json!({"unit": "Hour", "requests_per_unit": 60})),
        1 => Just(json!({})),
        1 => (one_of(vec![json!("day"), json!("eon")]), number())
            .prop_map(|(unit, amount)| json!({"unit": unit, "requests_per_unit": amount})),
    ];
    (quota, extras)
        .prop_map(|(quota, extras)| {
            let [Value::Object(mut quota), Value::Object(extras)] = [quota, extras] else { return json!(null) };
            quota.extend(extras);
            quota.into()
        })
        .boxed()
}

fn any_limits() -> BoxedStrategy<Value> {
    let list = prop::collection::vec(any_limit(), 0..2).prop_map(Value::from);
    prop_oneof![4 => any_limit(), 1 => list, 1 => one_of(vec![json!(null), json!("p"), json!(7), json!("")])].boxed()
}

fn any_descriptors() -> BoxedStrategy<Value> {
    let flag = || one_of(vec![json!(true), json!(false), json!("no")]);
    let tenants = prop_oneof![
        1 => one_of(vec![json!(null), json!([])]),
        4 => (select(vec!["a", "*", ""]), any_limits()).prop_map(|(name, limits)| json!({name: limits})),
    ];
    let leaf = one_of(vec![json!(null), json!([]), json!([{"key": "k"}]), json!({"key": "k"})]);
    leaf.prop_recursive(2, 4, 1, move |descriptors| {
        some_of(vec![
            ("key", one_of(vec![json!("k"), json!("k"), json!("k"), json!(4), json!(""), json!("k*")])),
            ("value", one_of(vec![json!("v"), json!("v*"), json!(4), json!(""), json!(null), json!([])])),
            ("rate_limit", any_limits()),
            ("plan", one_of(vec![json!("p"), json!(null), json!({})])),
            ("tenants", tenants.clone().boxed()),
            ("descriptors", descriptors),
            ("shadow_mode", flag()),
            ("share_threshold", flag()),
            ("metadata", one_of(vec![json!(null), json!({"a": [1]}), json!("text")])),
        ])
        .prop_map(|descriptor| json!([descriptor]))
        .boxed()
    })
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nothing_that_loads_is_rejected(descriptors in any_descriptors()) {
        let text = json!({"domain": "d", "plans": {"p": {"unlimited": true}}, "descriptors": descriptors}).to_string();
        if faults(&text).is_empty() {
            prop_assert_eq!(complaints(&text), [""; 0]);
        }
    }

    #[test]
    fn a_limit_is_valid_exactly_if_it_loads(limit in any_limits()) {
        let text = json!({"domain": "d", "descriptors": [{"key": "k", "rate_limit": limit}]}).to_string();
        prop_assert_eq!(complaints(&text).is_empty(), faults(&text).is_empty(), "{}", text);
    }
}

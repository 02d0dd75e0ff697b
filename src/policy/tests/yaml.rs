use super::*;

const LIMIT: &str = "{unit: hour, requests_per_unit: 1}";

#[test]
fn broken_yaml_is_told_with_its_place_and_what_to_do() {
    for (text, fault) in [
        (
            "domain: d\ndescriptors:\n  - key: 'a\n    value: b\n",
            "3:10: this is not YAML (unclosed quote): close the quotes that begin here",
        ),
        (
            "domain: d\ndescriptors:\n\t- key: a\n",
            "3:2: this is not YAML (tabs disallowed within this context (block indentation)): indent with spaces",
        ),
        (
            "domain: a: b",
            "1:10: this is not YAML (mapping values are not allowed in this context): put quotes around a text with a \
             colon in it, or mend the indentation",
        ),
        (
            "domain: *",
            "1:9: this is not YAML (while scanning an anchor or alias, did not find expected alphabetic or numeric \
             character): put quotes around a text that begins with * or &",
        ),
        ("domain: [d", "1:9: this is not YAML (unclosed bracket '['): mend the file from here"),
    ] {
        assert_eq!(faults(text), [fault], "{text}");
    }
}

#[test]
fn a_file_holds_one_document() {
    assert_eq!(
        faults("domain: d\n---\ndomain: e\n"),
        ["3:1: a second document: a file holds one, so give it a file of its own"]
    );
    assert_eq!(policy("---\n# nothing\n---\ndomain: d\n---\n").domain_count(), 1);
}

#[test]
fn a_key_stands_once_in_a_mapping() {
    assert_eq!(
        faults("domain: d\ndescriptors:\n- key: a\n  'key': b\n"),
        ["4:3: duplicate key \"key\", which is also at 3:3: remove one"]
    );
}

#[test]
fn a_key_is_a_text() {
    assert_eq!(
        faults("domain: d\n? [a]\n: b\n? {a: b}\n: c\n~: d\n"),
        [
            "2:3: a list or mapping cannot be a key: name one, or mend the brackets",
            "4:3: a list or mapping cannot be a key: name one, or mend the brackets",
            "6:1: a key is missing: name it, or put quotes around a name such as null",
        ]
    );
}

#[test]
fn anchors_and_aliases_stand_for_the_same_node() {
    let text = format!(
        "domain: &d d\ndescriptors:\n- &first\n  key: &key a\n  rate_limit: &limit {LIMIT}\n  descriptors: &below\n  \
         - {{key: *d, rate_limit: *limit}}\n- {{key: b, value: *key, descriptors: *below}}\n"
    );
    let policy = policy(&text);
    assert_eq!(answer(&policy, "a=x"), "1/hour");
    assert_eq!(answer(&policy, "a=x d=y"), "1/hour");
    assert_eq!(answer(&policy, "b=a d=y"), "1/hour");
}

#[test]
fn an_anchor_may_be_given_anew() {
    let text = "domain: d\ndescriptors:\n- {key: &a x, value: *a}\n\
                - {key: &a k, rate_limit: {unit: hour, requests_per_unit: 1}, value: *a}\n";
    assert_eq!(answer(&policy(text), "k=k"), "1/hour");
}

#[test]
fn a_fault_behind_an_anchor_is_told_once() {
    let text = "domain: d\ndescriptors:\n- {key: a, rate_limit: &l {unit: age, requests_per_unit: 1}}\n\
                - {key: b, rate_limit: *l}\n";
    assert_eq!(faults(text).len(), 1);
}

#[test]
fn an_alias_names_what_stands_before_it_and_not_around_it() {
    assert_eq!(
        faults("domain: d\ndescriptors:\n- &x {key: a, descriptors: [*x]}\n- {key: b, value: *foo}\n"),
        [
            "3:29: this alias stands inside the node that it names: remove it",
            "4:19: unknown alias \"*foo\": put an anchor, & and the same name, before what it should stand for, or \
             quotes around a text that begins with *",
        ]
    );
}

#[test]
fn a_merge_adds_what_is_not_there_and_the_earlier_wins() {
    let text = "
domain: d
plans:
  one: &one {unit: hour, requests_per_unit: 1, burst: 7}
  two: &two {unit: minute, requests_per_unit: 2, unit_multiplier: 3}
  three: {<<: *one, requests_per_unit: 3}
  four: {<<: [*two, *one]}
  five: {burst: 5, <<: [*one, *two]}
descriptors:
  - {key: a, plan: three}
  - {key: b, plan: four}
  - {key: k, plan: five}
";
    let policy = policy(text);
    assert_eq!(answer(&policy, "a=1"), "3/hour");
    assert_eq!(answer(&policy, "b=1"), "2 per 3 minute");
    let (_, five) = only_limit(&policy);
    assert_eq!((five.amount(), five.multiplier(), five.capacity()), (1, 3, 5));
}

#[test]
fn a_merge_takes_mappings_and_stands_once() {
    assert_eq!(
        faults(
            "domain: d\ndescriptors:\n- {key: a, <<: 3}\n- {key: b, <<: [3, {value: x}]}\n- {key: c, <<: {}, <<: {}}\n"
        ),
        [
            "3:16: << takes a mapping or a list of mappings, such as *name",
            "4:17: << takes a mapping or a list of mappings, such as *name",
            "5:24: a second << in one mapping: give one << a list, as in <<: [*a, *b]",
        ]
    );
    assert_eq!(faults("domain: d\n'<<': {descriptors: []}\n").len(), 1, "in quotes it is a key like any other");
}

#[test]
fn tags_that_change_nothing_are_fine_and_others_are_faults() {
    let text = "domain: !!str d\ndescriptors: !!seq\n- !!map {key: ! k, value: !!str null, rate_limit: &x\n    \
                {unit: hour, requests_per_unit: !!int 1}}\n";
    assert_eq!(answer(&policy(text), "k=null"), "1/hour");
    assert_eq!(
        faults("domain: !include x\ndescriptors: !!set {}\n"),
        [
            "1:18: the tag \"!include\" means nothing here: remove it",
            "2:20: the tag \"!!set\" means nothing here: remove it",
        ]
    );
    assert_eq!(
        faults("domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: !!str 1}}]"),
        ["2:74: requests_per_unit must be a number: remove the quotes"]
    );
}

#[test]
fn windows_files_are_read_like_others() {
    let text = "\u{feff}domain: d\r\ndescriptors:\r\n- key: k\r\n  rate_limit:\r\n    \
                unit: hour\r\n    requests_per_unit: 1\r\n";
    assert_eq!(answer(&policy(text), "k=v"), "1/hour");
    assert_eq!(faults("\u{feff}domain: d\r\nfoo: 1\r\n")[0].split(':').next(), Some("2"));
    assert_eq!(faults("\u{feff}foo: d\r\n")[0].split(": ").next(), Some("1:1"));
}

#[test]
fn json_is_yaml_too() {
    let text =
        r#"{"domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": "HOUR", "requests_per_unit": 1}}]}"#;
    assert_eq!(answer(&policy(text), "k=v"), "1/hour");
}

//! The policy is read anew while the service runs.

mod changes;
mod faults;
mod leases;
mod links;
mod load;

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Comporta, Setup, http, wait_for, write_file};

/// A change is in force within 2 s. A busy machine may take longer.
const LONGEST: Duration = Duration::from_secs(5);

/// Longer than a change takes to be seen.
const A_WHILE: Duration = Duration::from_millis(1500);

/// A policy that limits the key `a`.
fn policy(amount: &str) -> String {
    limiting("a", amount)
}

/// A file of a policy that limits a key.
fn limiting(key: &str, amount: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {{key: {key}, rate_limit: {{requests_per_unit: {amount}, unit: day}}}}\n")
}

fn metric(comporta: &Comporta, name: &str) -> Option<String> {
    let page = http::get(comporta.addresses.admin, "/metrics").unwrap().body;
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned)
}

fn loads(comporta: &Comporta, outcome: &str) -> String {
    metric(comporta, &format!("comporta_policy_loads_total{{outcome=\"{outcome}\"}}")).unwrap()
}

fn passing(comporta: &Comporta) -> usize {
    let body = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "a", "value": "x"}]}]}"#;
    (0..9).filter(|_| http::post_json(comporta.addresses.http, "/json", body).unwrap().status == 200).count()
}

/// The amount of a key's limit that is in force. Takes nothing.
fn amount(comporta: &Comporta, key: &str) -> Option<u64> {
    let descriptor = format!(r#"{{"entries": [{{"key": "{key}", "value": "x"}}], "hitsAddend": "0"}}"#);
    let body = format!(r#"{{"domain": "d", "descriptors": [{descriptor}]}}"#);
    let answer = http::post_json(comporta.addresses.http, "/json", &body).unwrap().json();
    answer["statuses"][0]["currentLimit"]["requestsPerUnit"].as_u64()
}

/// Makes a change and waits until the limit of a key has this amount, or is gone.
fn change(comporta: &Comporta, what: &str, make: impl FnOnce(), key: &str, expected: Option<u64>) {
    assert_ne!(amount(comporta, key), expected, "{what}: it is in force before the change");
    let start = Instant::now();
    make();
    wait_for(what, || (amount(comporta, key) == expected).then_some(()));
    let time = start.elapsed();
    eprintln!("{what}: in force after {} ms", time.as_millis());
    assert!(time < LONGEST, "{what}: only after {time:?}");
}

/// Gives a file a new content as most editors do.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    write_file(&new, text);
    std::fs::rename(new, path).unwrap();
}

#[test]
fn on_sighup_a_good_policy_is_taken_and_a_bad_one_is_told_and_left() {
    let setup = Setup::new(&policy("2"));
    let comporta = setup.start();
    assert_eq!(passing(&comporta), 2);
    let reload = |text: &str| {
        write_file(setup.policy_path().join("policy.yaml").as_path(), text);
        comporta.signal(Signal::HUP);
    };
    reload(&policy("five"));
    wait_for("the fault", || (metric(&comporta, "comporta_policy_ok")? == "0").then_some(()));
    assert_eq!(metric(&comporta, "comporta_policy_faults").as_deref(), Some("1"));
    assert_eq!(loads(&comporta, "error"), "1");
    assert!(comporta.log().contains("policy.yaml:3:") && comporta.log().contains("five"), "{}", comporta.log());
    let page = http::get(comporta.addresses.admin, "/policy").unwrap().body;
    assert!(page.contains("last fault:") && page.contains("five"), "{page}");
    assert_eq!(passing(&comporta), 0, "the old one is in force, and its bucket is empty");

    reload(&policy("5"));
    wait_for("the new policy", || (metric(&comporta, "comporta_policy_ok")? == "1").then_some(()));
    assert_eq!(metric(&comporta, "comporta_policy_faults").as_deref(), Some("0"));
    assert_eq!(passing(&comporta), 3, "what is spent stays spent");
    let page = http::get(comporta.addresses.admin, "/policy").unwrap().body;
    assert!(page.contains("last fault: none"), "{page}");
}

#[test]
fn on_sighup_a_policy_that_has_not_changed_is_said_to_be_the_same() {
    let setup = Setup::new(&policy("2"));
    let comporta = setup.start();
    comporta.signal(Signal::HUP);
    wait_for("the answer", || comporta.log().contains("has not changed").then_some(()));
    assert_eq!(loads(&comporta, "ok"), "2");
}

#[test]
fn rules_that_stay_go_on_counting() {
    let setup = Setup::new(&policy("2"));
    let comporta = setup.start();
    assert_eq!(passing(&comporta), 2);
    let refused = r#"comporta_decisions_total{domain="d",rule="a",code="over_limit",source="local",shadow="false"}"#;
    assert_eq!(metric(&comporta, refused).as_deref(), Some("7"));
    let other = setup.policy_path().join("other.yaml");
    change(&comporta, "another rule", || write_file(&other, &limiting("b", "1")), "b", Some(1));
    assert_eq!(metric(&comporta, refused).as_deref(), Some("7"), "the rule has stayed");
    assert_eq!(passing(&comporta), 0);
    assert_eq!(metric(&comporta, refused).as_deref(), Some("16"));
}

#[test]
fn a_rule_with_a_long_name_keeps_its_series_when_its_place_changes() {
    let key = "k".repeat(300);
    let setup = Setup::new(&limiting(&key, "2"));
    let comporta = setup.start();
    let series = || {
        amount(&comporta, &key).expect("a limit");
        let page = http::get(comporta.addresses.admin, "/metrics").unwrap().body;
        let line = page.lines().find(|line| line.starts_with("comporta_hits_total{domain=\"d\",rule=\"kkk")).unwrap();
        line.split_once('}').unwrap().0.to_owned()
    };
    let before = series();
    assert!(before.len() < 300, "it is cut: {before}");
    let other = setup.policy_path().join("other.yaml");
    change(&comporta, "a rule before it", || write_file(&other, &policy("1")), "a", Some(1));
    assert_eq!(series(), before);
}

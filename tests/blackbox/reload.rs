//! The policy is read anew.

use rustix::process::Signal;

use crate::harness::{Comporta, Setup, http, wait_for, write_file};

fn policy(amount: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {{key: a, rate_limit: {{requests_per_unit: {amount}, unit: day}}}}\n")
}

fn metric(comporta: &Comporta, name: &str) -> Option<String> {
    let page = http::get(comporta.addresses.admin, "/metrics").unwrap().body;
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned)
}

fn passing(comporta: &Comporta) -> usize {
    let body = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "a", "value": "x"}]}]}"#;
    (0..9).filter(|_| http::post_json(comporta.addresses.http, "/json", body).unwrap().status == 200).count()
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
    assert_eq!(metric(&comporta, r#"comporta_policy_loads_total{outcome="error"}"#).as_deref(), Some("1"));
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

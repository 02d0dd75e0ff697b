//! A policy with faults never replaces a good one.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread::sleep;

use super::{A_WHILE, amount, change, limiting, loads, metric, policy};
use crate::harness::{Comporta, Setup, http, wait_for, write_file};

fn is_ok(comporta: &Comporta) -> bool {
    metric(comporta, "comporta_policy_ok").unwrap() == "1"
}

/// Waits until a fault is told, and returns what `/policy` says of it.
fn fault(comporta: &Comporta) -> String {
    wait_for("the fault", || (!is_ok(comporta)).then_some(()));
    let page = http::get(comporta.addresses.admin, "/policy?format=json").unwrap().json();
    page["last_fault"].as_str().unwrap().to_owned()
}

fn count_in_log(comporta: &Comporta, text: &str) -> usize {
    comporta.log().matches(text).count()
}

#[test]
fn a_fault_is_told_once_and_forgotten_when_it_is_mended() {
    let setup = Setup::new(&policy("1"));
    let comporta = setup.start();
    let file = setup.policy_path().join("policy.yaml");
    write_file(&file, &policy("many"));
    let told = fault(&comporta);
    assert!(told.contains("policy.yaml:3:") && told.contains("many"), "{told}");
    // The same content, written again, is no news.
    write_file(&file, &policy("many"));
    sleep(A_WHILE);
    assert_eq!(count_in_log(&comporta, "the one in force stays"), 1, "{}", comporta.log());
    assert_eq!(loads(&comporta, "error"), "1");
    assert_eq!(amount(&comporta, "a"), Some(1));

    write_file(&file, &policy("more"));
    wait_for("the other fault", || (loads(&comporta, "error") == "2").then_some(()));
    change(&comporta, "a mended policy", || write_file(&file, &policy("2")), "a", Some(2));
    assert!(is_ok(&comporta));
    assert_eq!(loads(&comporta, "ok"), "2");
}

#[test]
fn a_policy_that_goes_back_to_what_it_was_is_good_again() {
    let setup = Setup::new(&policy("1"));
    let comporta = setup.start();
    let file = setup.policy_path().join("policy.yaml");
    write_file(&file, &policy("many"));
    fault(&comporta);
    write_file(&file, &policy("1"));
    wait_for("the policy to be good again", || is_ok(&comporta).then_some(()));
    assert_eq!(count_in_log(&comporta, "is again the one in force"), 1, "{}", comporta.log());
    assert_eq!(amount(&comporta, "a"), Some(1));
}

#[test]
fn what_is_written_again_as_it_was_is_no_news() {
    let setup = Setup::new(&policy("1"));
    let comporta = setup.start();
    let before = comporta.log();
    write_file(&setup.policy_path().join("policy.yaml"), &policy("1"));
    write_file(&setup.policy_path().join("notes.txt"), "not a policy");
    sleep(A_WHILE);
    assert_eq!(comporta.log(), before);
    assert_eq!(loads(&comporta, "ok"), "1");
}

#[test]
fn when_all_files_are_gone_the_policy_stays() {
    let setup = Setup::new(&policy("1"));
    let comporta = setup.start();
    let file = setup.policy_path().join("policy.yaml");
    fs::remove_file(&file).unwrap();
    let told = fault(&comporta);
    assert!(told.contains("no policy in this directory"), "{told}");
    assert_eq!(amount(&comporta, "a"), Some(1));
    fs::remove_dir(setup.policy_path()).unwrap();
    wait_for("the other fault", || (loads(&comporta, "error") == "2").then_some(()));
    assert!(fault(&comporta).contains("cannot be read"));
    assert_eq!(amount(&comporta, "a"), Some(1));
    change(&comporta, "a file after none", || write_file(&file, &policy("2")), "a", Some(2));
    assert!(is_ok(&comporta));
}

#[test]
fn a_file_that_cannot_be_read_keeps_the_others_as_they_were() {
    let setup = Setup::with_files([("a.yaml", policy("1").as_str()), ("b.yaml", limiting("b", "1").as_str())]);
    let comporta = setup.start();
    let file = setup.policy_path().join("b.yaml");
    // Rights would not do: the tests may run as root.
    fs::remove_file(&file).unwrap();
    symlink("b.yaml", &file).unwrap();
    let told = fault(&comporta);
    assert!(told.contains("b.yaml: this cannot be read"), "{told}");
    write_file(&setup.policy_path().join("a.yaml"), &policy("2"));
    sleep(A_WHILE);
    assert_eq!((amount(&comporta, "a"), amount(&comporta, "b")), (Some(1), Some(1)));
    fs::remove_file(&file).unwrap();
    let mend = || write_file(&file, &limiting("b", "3"));
    change(&comporta, "a file that can be read again", mend, "b", Some(3));
    assert_eq!(amount(&comporta, "a"), Some(2));
}

//! Files are edited, added and removed.

use std::fs;
use std::thread::sleep;

use super::{A_WHILE, change, limiting, loads, policy, replace};
use crate::harness::{Setup, write_file};

#[test]
fn a_file_that_is_edited_in_place_is_read_anew() {
    let setup = Setup::new(&policy("1"));
    let comporta = setup.start();
    let file = setup.policy_path().join("policy.yaml");
    for amount in 2..6 {
        let edit = || write_file(&file, &policy(&amount.to_string()));
        change(&comporta, "in place", edit, "a", Some(amount));
    }
}

#[test]
fn a_file_that_is_replaced_by_another_is_read_anew() {
    let setup = Setup::new(&policy("1"));
    let comporta = setup.start();
    let file = setup.policy_path().join("policy.yaml");
    for amount in 2..6 {
        change(&comporta, "rename over", || replace(&file, &policy(&amount.to_string())), "a", Some(amount));
    }
}

#[test]
fn files_and_directories_come_and_go() {
    let setup = Setup::new(&policy("1"));
    let comporta = setup.start();
    let added = setup.policy_path().join("added.yaml");
    change(&comporta, "a file added", || write_file(&added, &limiting("b", "2")), "b", Some(2));
    change(&comporta, "a file removed", || fs::remove_file(&added).unwrap(), "b", None);
    let below = setup.policy_path().join("below");
    let file = below.join("deep/c.yaml");
    change(&comporta, "a directory added", || write_file(&file, &limiting("c", "3")), "c", Some(3));
    change(&comporta, "in place, in it", || write_file(&file, &limiting("c", "4")), "c", Some(4));
    change(&comporta, "the directory removed", || fs::remove_dir_all(&below).unwrap(), "c", None);
    change(&comporta, "the directory made again", || write_file(&file, &limiting("c", "5")), "c", Some(5));
    change(&comporta, "in place, in it again", || write_file(&file, &limiting("c", "6")), "c", Some(6));
}

#[test]
fn a_single_file_is_followed_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.yaml");
    write_file(&file, &policy("1"));
    let setup = Setup::with_path(file.clone());
    let comporta = setup.start();
    change(&comporta, "a single file, in place", || write_file(&file, &policy("2")), "a", Some(2));
    change(&comporta, "a single file, rename over", || replace(&file, &policy("3")), "a", Some(3));
    change(&comporta, "a single file, rename over again", || replace(&file, &policy("4")), "a", Some(4));
    write_file(&directory.path().join("other.yaml"), "no policy at all");
    sleep(A_WHILE);
    assert_eq!(loads(&comporta, "error"), "0", "its neighbours are nothing to it");
}

#[test]
fn a_directory_that_is_replaced_is_followed_by_its_name() {
    let setup = Setup::new(&policy("1"));
    let comporta = setup.start();
    let file = setup.policy_path().join("policy.yaml");
    let away = setup.policy_path().with_extension("away");
    let swap = || {
        fs::rename(setup.policy_path(), &away).unwrap();
        write_file(&file, &policy("2"));
    };
    change(&comporta, "another directory", swap, "a", Some(2));
    change(&comporta, "in place, in the other directory", || write_file(&file, &policy("3")), "a", Some(3));
    fs::remove_dir_all(&away).unwrap();
    sleep(A_WHILE);
    change(&comporta, "when the first one is gone", || write_file(&file, &policy("4")), "a", Some(4));
    assert!(!comporta.log().contains("not watched"), "{}", comporta.log());
}

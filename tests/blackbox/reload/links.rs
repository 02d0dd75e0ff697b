//! What is read is behind symbolic links.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{change, limiting, policy};
use crate::harness::{Comporta, Setup, write_file};

/// A mounted `ConfigMap` as the kubelet keeps it: files are links through `..data`, which leads to a directory of the
/// version; a new version is a new directory, to which `..data` is moved in one step.
struct ConfigMap {
    mount: TempDir,
    version: u32,
}

impl ConfigMap {
    fn mount(files: &[(&str, String)]) -> Self {
        let mut map = Self { mount: TempDir::new().unwrap(), version: 0 };
        map.update(files);
        map
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mount.path().join(name)
    }

    fn update(&mut self, files: &[(&str, String)]) {
        let old = fs::read_link(self.path("..data"));
        self.version += 1;
        let new = format!("..2026_12_01_00_00_00.{}", self.version);
        for (name, text) in files {
            write_file(&self.path(&new).join(name), text);
        }
        symlink(&new, self.path("..data_tmp")).unwrap();
        fs::rename(self.path("..data_tmp"), self.path("..data")).unwrap();
        for (name, _) in files {
            if !self.path(name).is_symlink() {
                symlink(Path::new("..data").join(name), self.path(name)).unwrap();
            }
        }
        if let Ok(old) = old {
            let removed = |name: &String| !files.iter().any(|(kept, _)| kept == name);
            let names = fs::read_dir(self.path(old.to_str().unwrap())).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            for name in names.filter(removed).collect::<Vec<_>>() {
                fs::remove_file(self.path(&name)).unwrap();
            }
            fs::remove_dir_all(self.mount.path().join(old)).unwrap();
        }
    }
}

fn assert_well(comporta: &Comporta) {
    let log = comporta.log();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}

#[test]
fn a_config_map_is_followed_through_all_its_versions() {
    let mut map = ConfigMap::mount(&[("policy.yaml", policy("1"))]);
    let comporta = Setup::with_path(map.mount.path().to_owned()).start();
    for amount in 2..7 {
        let files = [("policy.yaml", policy(&amount.to_string()))];
        change(&comporta, "a swap of ..data", || map.update(&files), "a", Some(amount));
    }
    let more = [("policy.yaml", policy("7")), ("more.yaml", limiting("b", "8"))];
    change(&comporta, "a swap that brings a file", || map.update(&more), "b", Some(8));
    change(&comporta, "a swap that takes it away", || map.update(&[("policy.yaml", policy("9"))]), "b", None);
    let swaps = || (10..15).for_each(|amount| map.update(&[("policy.yaml", policy(&amount.to_string()))]));
    change(&comporta, "several swaps at once", swaps, "a", Some(14));
    assert_well(&comporta);
}

#[test]
fn a_single_file_of_a_config_map_is_followed_too() {
    let mut map = ConfigMap::mount(&[("policy.yaml", policy("1"))]);
    let comporta = Setup::with_path(map.path("policy.yaml")).start();
    for amount in 2..5 {
        let files = [("policy.yaml", policy(&amount.to_string()))];
        change(&comporta, "a swap of ..data above a single file", || map.update(&files), "a", Some(amount));
    }
    assert_well(&comporta);
}

#[test]
fn a_file_elsewhere_is_followed_through_its_link() {
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("linked.yaml");
    write_file(&file, &limiting("b", "1"));
    let setup = Setup::new(&policy("1"));
    symlink(&file, setup.policy_path().join("link.yaml")).unwrap();
    let comporta = setup.start();
    change(&comporta, "in place, behind a link", || write_file(&file, &limiting("b", "2")), "b", Some(2));
    change(&comporta, "the same again", || write_file(&file, &limiting("b", "3")), "b", Some(3));
    assert_well(&comporta);
}

#[test]
fn a_directory_is_followed_through_the_link_that_names_it() {
    let root = tempfile::tempdir().unwrap();
    let version = |name: &str, amount: &str| write_file(&root.path().join(name).join("policy.yaml"), &policy(amount));
    let link = |to: &str| {
        symlink(to, root.path().join("next")).unwrap();
        fs::rename(root.path().join("next"), root.path().join("current")).unwrap();
    };
    version("one", "1");
    version("two", "2");
    link("one");
    let comporta = Setup::with_path(root.path().join("current")).start();
    change(&comporta, "a link to another directory", || link("two"), "a", Some(2));
    change(&comporta, "in place, in that directory", || version("two", "3"), "a", Some(3));
    change(&comporta, "a link back", || link("one"), "a", Some(1));
    assert_well(&comporta);
}

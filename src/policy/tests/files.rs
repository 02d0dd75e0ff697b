use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const POLICY: &str = "domain: d\n";

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

/// The files that are loaded from a directory, by their paths in it.
fn loaded(directory: &TempDir) -> Vec<String> {
    let loaded = load(directory.path(), &Defaults::default()).unwrap();
    let root = format!("{}/", directory.path().display());
    loaded.policy.files().iter().map(|file| file.strip_prefix(&root).unwrap().to_owned()).collect()
}

/// The faults of a path, without the directory's own path.
fn refused(directory: &TempDir, path: &str) -> String {
    let path: PathBuf = if path.is_empty() { directory.path().to_owned() } else { directory.path().join(path) };
    let faults = load(&path, &Defaults::default()).unwrap_err().to_string();
    faults.replace(&directory.path().display().to_string(), "DIR")
}

#[test]
fn policies_are_found_at_every_depth_in_byte_order() {
    let files = [
        ("b.yaml", POLICY),
        ("a/z.yml", POLICY),
        ("a.yaml", POLICY),
        ("B.YAML", POLICY),
        ("a/b/c.yaml", POLICY),
        ("README.md", "no"),
        ("yaml", "no"),
        (".hidden.yaml", "no"),
        (".git/x.yaml", "no"),
        ("a.yaml.bak", "no"),
    ];
    assert_eq!(loaded(&directory(&files)), ["B.YAML", "a.yaml", "a/b/c.yaml", "a/z.yml", "b.yaml"]);
}

#[test]
fn a_mounted_config_map_is_read_once() {
    let directory = directory(&[("..2026_01_01/one.yaml", POLICY), ("..2026_01_01/two.yaml", POLICY)]);
    symlink("..2026_01_01", directory.path().join("..data")).unwrap();
    symlink("..data/one.yaml", directory.path().join("one.yaml")).unwrap();
    symlink("..data/two.yaml", directory.path().join("two.yaml")).unwrap();
    assert_eq!(loaded(&directory), ["one.yaml", "two.yaml"]);
}

#[test]
fn links_are_followed_and_loops_end() {
    let directory = directory(&[("real/one.yaml", POLICY)]);
    symlink("real", directory.path().join("also")).unwrap();
    symlink("..", directory.path().join("real/up")).unwrap();
    symlink("self.yaml", directory.path().join("self.yaml.not")).unwrap();
    symlink("real/one.yaml", directory.path().join("zz.yaml")).unwrap();
    assert_eq!(loaded(&directory), ["also/one.yaml"]);
}

#[test]
fn a_path_that_is_a_file_is_read_whatever_its_name() {
    let directory = directory(&[(".limits.conf", POLICY)]);
    let loaded = load(&directory.path().join(".limits.conf"), &Defaults::default()).unwrap();
    assert_eq!(loaded.policy.domain_count(), 1);
}

#[test]
fn what_cannot_be_read_is_a_fault_that_says_what_to_do() {
    let directory = directory(&[("empty/README", ""), ("bad/one.yaml", POLICY)]);
    assert_eq!(
        refused(&directory, "missing"),
        "DIR/missing: this cannot be read (No such file or directory (os error 2)): give the path of a policy file, or \
         of a directory of them"
    );
    assert_eq!(
        refused(&directory, "empty"),
        "DIR/empty: no policy in this directory: put a file into it whose name ends in .yaml or .yml"
    );
    symlink("nowhere", directory.path().join("bad/two.yaml")).unwrap();
    assert!(refused(&directory, "bad").starts_with("DIR/bad/two.yaml: this cannot be read (No such file"));
}

#[test]
fn a_file_that_is_not_utf8_is_a_fault_with_its_place() {
    let directory = directory(&[("one.yaml", "")]);
    fs::write(directory.path().join("one.yaml"), b"domain: d\r\n\r# caf\xe9\n").unwrap();
    assert_eq!(
        refused(&directory, ""),
        "DIR/one.yaml:3:6: this is not UTF-8: save the file as UTF-8\n  3 | # caf\u{fffd}\n    |      ^"
    );
}

#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let faults = load(std::path::Path::new("/dev/zero"), &Defaults::default()).unwrap_err();
    assert_eq!(faults.to_string(), "/dev/zero: the file is larger than 64 MiB: split it into several");
}

#[test]
fn a_files_name_cannot_write_to_a_terminal() {
    let directory = directory(&[("a\u{1b}[31m.yaml", "x: 1\n")]);
    assert!(refused(&directory, "").starts_with("DIR/a\\u{1b}[31m.yaml:1:1: "));
}

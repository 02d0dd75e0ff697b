//! `.github` and `scripts/release-notes`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use regex::Regex;
use tempfile::TempDir;

use super::{list, read, read_yaml, text};
use crate::harness::{project_path, succeed, tool, write_file};

const WORKFLOWS: [&str; 3] =
    [".github/workflows/ci.yml", ".github/workflows/release.yml", ".github/workflows/fuzz.yml"];

#[test]
fn the_workflows_are_what_github_takes() {
    let check = |schema: &str| {
        let mut check = Command::new(tool("check-jsonschema"));
        check.args(["--builtin-schema", schema]);
        check
    };
    succeed(check("vendor.github-workflows").args(WORKFLOWS.map(project_path)));
    succeed(check("vendor.dependabot").arg(project_path(".github/dependabot.yml")));
}

/// A tag can be moved to something else; a commit cannot.
#[test]
fn every_action_is_pinned_by_its_commit_and_has_one_version() {
    let pinned = Regex::new(r"^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$").unwrap();
    let mut actions = BTreeSet::new();
    for workflow in WORKFLOWS {
        let workflow = read(workflow);
        let used = workflow.lines().filter_map(|line| line.split_once("uses: ")).map(|(_, action)| action.to_owned());
        actions.extend(used.filter(|action| !action.starts_with("./")));
    }
    assert!(actions.len() >= 6, "{actions:?}");
    for action in &actions {
        assert!(pinned.is_match(action), "{action}");
    }
    let names: BTreeSet<_> = actions.iter().map(|action| action.split('@').next()).collect();
    assert_eq!(names.len(), actions.len(), "{actions:?}");
}

#[test]
fn the_workflow_runs_what_must_hold_before_a_merge_and_looks_at_dependencies() {
    let jobs = &read_yaml(WORKFLOWS[0])["jobs"];
    let runs = |job: &str, command: &str| list(&jobs[job]["steps"]).iter().any(|step| step["run"] == command);
    assert!(runs("check", ".ci/run"));
    assert!(runs("dependencies", "cargo deny --locked check"));
    assert!(read(".ci/run").contains("cargo doc --no-deps --locked"));
}

/// What is tested, released and put into the image is made by one compiler.
#[test]
fn the_workflows_build_with_the_compiler_of_the_image() {
    let dockerfile = read("Dockerfile");
    let version = Regex::new(r"FROM rust:([\d.]+)-slim-(\w+) AS build").unwrap();
    let found = version.captures(&dockerfile).unwrap();
    let jobs = &read_yaml(WORKFLOWS[0])["jobs"];
    for job in ["check", "binaries"] {
        assert_eq!(text(&jobs[job]["container"]), format!("rust:{}-{}", &found[1], &found[2]), "{job}");
    }
}

/// A copy of what the script reads, of another version.
fn notes_of(version: &str, changelog: &str) -> Output {
    let folder = TempDir::new().unwrap();
    for file in ["scripts/release-notes", "Cargo.toml", "deploy/helm/comporta/Chart.yaml"] {
        let own = env!("CARGO_PKG_VERSION");
        write_file(&folder.path().join(file), &read(file).replace(own, "1.2.3"));
    }
    write_file(&folder.path().join("CHANGELOG.md"), changelog);
    Command::new("bash").arg(folder.path().join("scripts/release-notes")).arg(version).output().unwrap()
}

#[test]
fn release_notes_are_what_the_changelog_tells_of_the_version_and_no_other() {
    let changelog = "# Changelog\n\n## Unreleased\n\n* new\n\n## 1.2.3 (2026-12-01)\n\n* this\n\n## 1.2.2\n\n* old\n";
    let notes = notes_of("1.2.3", changelog);
    assert!(notes.status.success(), "{notes:?}");
    assert_eq!(String::from_utf8_lossy(&notes.stdout).trim(), "* this");
    for (version, changelog, why) in [
        ("1.2.2", changelog, "Cargo.toml is not of version 1.2.2"),
        ("1.2.3", "# Changelog\n\n## Unreleased\n\n* new\n", "tells nothing of version 1.2.3"),
        ("1.2.3", "# Changelog\n\n## 1.2.3\n\n## 1.2.2\n\n* old\n", "tells nothing of version 1.2.3"),
    ] {
        let refused = notes_of(version, changelog);
        assert!(!refused.status.success(), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
    assert!(fs::read_to_string(project_path("CHANGELOG.md")).unwrap().contains("\n## "), "versions are headings");
}

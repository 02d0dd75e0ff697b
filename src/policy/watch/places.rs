use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::policy::PolicyFiles;

/// Linux follows no more links than these on the way to a file.
const MOST_LINKS: usize = 40;

/// Where a change of a policy would show: directories by their real paths, and the names that count in each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places(BTreeMap<PathBuf, Names>);

#[derive(Debug, PartialEq, Eq)]
enum Names {
    All,
    Only(BTreeSet<OsString>),
}

impl Places {
    /// All directories that were looked into, and those that decide where the paths of the policy lead: they have the name of
    /// a link on the way, of a file that links lead to, or of the policy itself.
    pub(super) fn of(files: &PolicyFiles) -> Self {
        let mut places = Self::default();
        places.add_way(files.root());
        for directory in files.directories() {
            if let Some(real) = places.add_way(directory) {
                places.0.insert(real, Names::All);
            }
        }
        for file in files.paths().iter().filter(|file| file.is_symlink()) {
            places.add_way(file);
        }
        places
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Whether something that happened to this path may have changed the policy.
    pub(super) fn concern(&self, path: &Path) -> bool {
        let is_named = |directory: &Path| match self.0.get(directory) {
            None => false,
            Some(Names::All) => true,
            Some(Names::Only(names)) => path.file_name().is_some_and(|name| names.contains(name)),
        };
        self.0.contains_key(path) || path.parent().is_some_and(is_named)
    }

    /// Adds where each link on the way to a path stands, and what the path leads to in the end. Returns its real path if there
    /// is something.
    fn add_way(&mut self, path: &Path) -> Option<PathBuf> {
        let mut here = PathBuf::new();
        let mut rest = Vec::new();
        push_steps(&std::path::absolute(path).ok()?, &mut rest);
        let mut links = 0;
        while let Some(step) = rest.pop() {
            match step {
                Step::Root => here = PathBuf::from("/"),
                Step::Up => drop(here.pop()),
                Step::Down(name) => {
                    let next = here.join(&name);
                    if let Ok(target) = fs::read_link(&next) {
                        self.add_name(&here, name);
                        links += 1;
                        if links > MOST_LINKS {
                            return None;
                        }
                        push_steps(&target, &mut rest);
                    } else if next.exists() {
                        if rest.is_empty() {
                            self.add_name(&here, name);
                        }
                        here = next;
                    } else {
                        self.add_name(&here, name);
                        return None;
                    }
                }
            }
        }
        Some(here)
    }

    fn add_name(&mut self, directory: &Path, name: OsString) {
        let names = self.0.entry(directory.to_owned()).or_insert_with(|| Names::Only(BTreeSet::new()));
        if let Names::Only(names) = names {
            names.insert(name);
        }
    }
}

enum Step {
    Root,
    Up,
    Down(OsString),
}

/// Puts the steps of a path on top, the first of them last.
fn push_steps(path: &Path, steps: &mut Vec<Step>) {
    steps.extend(path.components().rev().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The places of a policy below a directory, each with the names that count in it.
    fn places(root: &Path, policy: &str) -> Vec<String> {
        let Places(places) = Places::of(&PolicyFiles::read(&root.join(policy)));
        let shown = |path: &Path| path.strip_prefix(root).map(|path| format!("/{}", path.display()));
        let names = |names: &Names| match names {
            Names::All => vec!["*".to_owned()],
            Names::Only(names) => names.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
        };
        places
            .iter()
            .filter_map(|(path, named)| Some(format!("{}: {}", shown(path).ok()?, names(named).join(" "))))
            .collect()
    }

    /// A directory without links on the way to it, with a file in it.
    fn root(file: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        write(&root.join(file));
        (directory, root)
    }

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "domain: d\n").unwrap();
    }

    #[test]
    fn of_a_directory_all_below_it_counts_and_its_own_name() {
        let (_kept, root) = root("policy/below/a.yaml");
        assert_eq!(places(&root, "policy"), ["/: policy", "/policy: *", "/policy/below: *"]);
    }

    #[test]
    fn of_a_file_only_its_name_counts() {
        let (_kept, root) = root("policy/a.yaml");
        assert_eq!(places(&root, "policy/a.yaml"), ["/policy: a.yaml"]);
        assert_eq!(places(&root, "policy/gone.yaml"), ["/policy: gone.yaml"]);
        assert_eq!(places(&root, "gone/a.yaml"), ["/: gone"]);
    }

    #[test]
    fn links_are_followed_step_by_step() {
        let (_kept, root) = root("real/deep/a.yaml");
        fs::create_dir(root.join("policy")).unwrap();
        symlink("../by/a.yaml", root.join("policy/a.yaml")).unwrap();
        symlink("real/deep", root.join("by")).unwrap();
        assert_eq!(places(&root, "policy"), ["/: by policy", "/policy: *", "/real/deep: a.yaml"]);
        symlink("circle.yaml", root.join("policy/circle.yaml")).unwrap();
        symlink("../nowhere/b.yaml", root.join("policy/broken.yaml")).unwrap();
        assert_eq!(places(&root, "policy"), ["/: by nowhere policy", "/policy: *", "/real/deep: a.yaml"]);
    }

    #[test]
    fn what_counts_is_told_from_what_does_not() {
        let (_kept, root) = root("policy/a.yaml");
        let places = Places::of(&PolicyFiles::read(&root.join("policy/a.yaml")));
        assert!(places.concern(&root.join("policy/a.yaml")) && places.concern(&root.join("policy")));
        assert!(!places.concern(&root.join("policy/b.yaml")) && !places.concern(&root));
        let places = Places::of(&PolicyFiles::read(&root.join("policy")));
        assert!(places.concern(&root.join("policy/b.yaml")) && !places.concern(&root.join("policy/below/c.yaml")));
    }
}

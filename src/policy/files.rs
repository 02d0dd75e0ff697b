use std::path::{Path, PathBuf};

use super::fault::Faults;
use super::hash::Fingerprint;
use super::rule::Defaults;
use super::source::{self, Reading};
use super::{Loaded, load_sources};

/// The files of a policy, as they were read at one time.
#[derive(Debug)]
pub struct PolicyFiles {
    root: PathBuf,
    reading: Reading,
    fingerprint: Fingerprint,
}

impl PolicyFiles {
    /// Reads the policy file at `path`, or all `.yaml` and `.yml` files in the directory at `path` and below it. What cannot
    /// be read is a fault when they are loaded.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let reading = source::read(path);
        Self { root: path.to_owned(), fingerprint: Fingerprint::of(&reading.sources), reading }
    }

    /// Tells whether files that were read at another time are the same.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Makes a policy of them.
    ///
    /// # Errors
    ///
    /// All faults of all files.
    pub fn load(&self, defaults: &Defaults) -> Result<Loaded, Faults> {
        load_sources(&self.reading.sources, *defaults)
    }

    /// What has the name of a policy and is no regular file, such as a pipe, by its paths: it may have no end.
    #[must_use]
    pub fn passed_over(&self) -> &[PathBuf] {
        &self.reading.passed_over
    }

    /// The path that they were read from.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The files that were found, by their paths.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.reading.files
    }

    /// The directories that were looked into, by their paths.
    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.reading.directories
    }
}

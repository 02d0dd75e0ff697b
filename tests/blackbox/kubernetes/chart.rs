//! `helm template` and `helm lint`.

use std::process::{Command, Output};

use serde_json::Value;

use super::split;
use crate::harness::{project_path, tool};

const PATH: &str = "deploy/helm/comporta";

/// The chart with some values.
pub(crate) struct Chart {
    release: &'static str,
    options: Vec<String>,
}

impl Chart {
    /// With its defaults, and a release of this name.
    pub(crate) fn new(release: &'static str) -> Self {
        Self { release, options: Vec::new() }
    }

    /// With the values of `ci/NAME.yaml`.
    pub(super) fn with_values(name: &str) -> Self {
        Self::new("comporta").values(&format!("{PATH}/ci/{name}.yaml"))
    }

    /// With the values of a file.
    pub(crate) fn values(self, path: &str) -> Self {
        self.options(["--values", path])
    }

    pub(crate) fn namespace(self, name: &str) -> Self {
        self.options(["--namespace", name])
    }

    /// A value that is the text of a file.
    pub(crate) fn set_file(self, value: &str, path: &str) -> Self {
        self.options(["--set-file", &format!("{value}={path}")])
    }

    /// A value in JSON.
    pub(super) fn set(self, value: &str, json: &str) -> Self {
        self.options(["--set-json", &format!("{value}={json}")])
    }

    fn options<const N: usize>(mut self, options: [&str; N]) -> Self {
        self.options.extend(options.map(str::to_owned));
        self
    }

    /// What it renders.
    pub(crate) fn render(&self) -> Vec<Value> {
        split(&self.text())
    }

    /// The same as text.
    pub(super) fn text(&self) -> String {
        let output = self.template();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Why it renders nothing.
    pub(super) fn refusal(&self) -> String {
        let output = self.template();
        assert!(!output.status.success(), "{:?} are taken", self.options);
        String::from_utf8(output.stderr).unwrap()
    }

    pub(super) fn lint(&self) -> Command {
        let mut command = helm();
        command.args(["lint", "--strict", PATH]).args(&self.options);
        command
    }

    fn template(&self) -> Output {
        helm().args(["template", self.release, PATH]).args(&self.options).output().unwrap()
    }
}

fn helm() -> Command {
    let mut command = Command::new(tool("helm"));
    command.current_dir(project_path(""));
    command
}

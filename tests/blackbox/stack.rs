//! What stands around Comporta: `docker-compose.yml`, the dashboard, rules and configurations in `deploy/`, and the workflows.

mod busy;
mod compose;
mod dashboard;
mod prometheus;
mod workflows;

use std::fs;

use serde_json::Value;

use crate::harness::project_path;

/// A file of the project.
fn read(path: &str) -> String {
    fs::read_to_string(project_path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A YAML file of the project.
fn read_yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The elements of a list, none if it is no list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value that must be text.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

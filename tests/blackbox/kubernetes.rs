//! The Helm chart, what it renders, and whether that is what Kubernetes takes and Comporta understands.

mod chart;
mod documented;
mod pod;
mod refused;
mod rendered;
mod wired;

use std::fs;

use serde_json::Value;

pub(crate) use chart::Chart;

use crate::harness::project_path;

/// Values for as many ways to install it.
const VALUES: [&str; 5] = ["existing-configmap", "minimal", "no-network-policy", "production", "tls"];

/// What the chart renders with one of them.
fn rendering(values: &str) -> Vec<Value> {
    Chart::with_values(values).render()
}

/// The documents of a YAML file of the project.
pub(crate) fn documents(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(project_path(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    split(&text)
}

/// The documents of a YAML text, without those that hold nothing but comments.
fn split(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    let documents = documents
        .map(|document| serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{error} in:\n{document}")));
    documents.filter(|document: &Value| !document.is_null()).collect()
}

/// The objects of one kind.
pub(crate) fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

/// The only object of a kind.
fn only<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let objects = of_kind(documents, kind);
    assert_eq!(objects.len(), 1, "{kind}");
    objects[0]
}

/// The elements of a list, none if it is no list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value that must be text.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// What the pods of a rendering are made of.
fn pod(documents: &[Value]) -> &Value {
    &only(documents, "Deployment")["spec"]["template"]["spec"]
}

/// The only container of the pods.
fn container(documents: &[Value]) -> &Value {
    let containers = list(&pod(documents)["containers"]);
    assert_eq!(containers.len(), 1, "{containers:?}");
    &containers[0]
}

/// The container's flags, each with its value.
fn flags(documents: &[Value]) -> Vec<(&str, &str)> {
    let arguments = list(&container(documents)["args"]);
    assert_eq!(arguments[0], "serve");
    let flags = arguments[1..].iter().map(|argument| text(argument).strip_prefix("--").unwrap());
    flags.map(|flag| flag.split_once('=').unwrap()).collect()
}

/// The value of a flag that must be there.
fn flag<'a>(documents: &'a [Value], name: &str) -> &'a str {
    let flags = flags(documents);
    flags.iter().find(|(flag, _)| *flag == name).unwrap_or_else(|| panic!("no --{name} among {flags:?}")).1
}

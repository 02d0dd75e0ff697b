//! What is rendered is what Kubernetes takes.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{Chart, VALUES, documents, list, only, rendering, split, text};
use crate::harness::{project_path, succeed, tool, write_file};

const PLAIN: &str = "deploy/kubernetes/comporta.yaml";

#[test]
fn all_values_that_are_there_to_be_tested_are() {
    let files = fs::read_dir(project_path("deploy/helm/comporta/ci")).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, VALUES.map(|name| format!("{name}.yaml")));
}

#[test]
fn helm_finds_no_fault_with_the_chart() {
    for values in VALUES {
        succeed(&mut Chart::with_values(values).lint());
    }
}

/// Against the schemas of the newest Kubernetes, and of the oldest that the chart says it is for.
#[test]
fn kubernetes_knows_every_field_of_what_is_rendered() {
    let chart = &documents("deploy/helm/comporta/Chart.yaml")[0];
    let oldest = text(&chart["kubeVersion"]).trim_start_matches(">=").trim_end_matches(".0-0").to_owned();
    let folder = TempDir::new().unwrap();
    for values in VALUES {
        let path = folder.path().join(format!("{values}.yaml"));
        let rendered = Chart::with_values(values).text();
        write_file(&path, &rendered);
        let foreign = split(&rendered).iter().filter(|object| text(&object["apiVersion"]).contains("coreos")).count();
        for version in ["1.37", &oldest] {
            let passed = validate(&path, version).matches(" passed for resource ").count();
            assert_eq!(passed, split(&rendered).len() - foreign, "{values}, {version}");
        }
    }
}

/// One that is not known must be noticed, or the test above holds nothing.
#[test]
fn a_field_that_kubernetes_does_not_know_is_found() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("wrong.yaml");
    write_file(&path, &Chart::with_values("minimal").text().replace("maxUnavailable: 1", "maxUnavailble: 1"));
    let output = command(&path, "1.37").output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("maxUnavailble"), "{output:?}");
}

fn command(path: &Path, version: &str) -> Command {
    let mut command = Command::new(tool("kubernetes-validate"));
    command.args(["--strict", "--kubernetes-version", version]).arg(path);
    command
}

fn validate(path: &Path, version: &str) -> String {
    succeed(&mut command(path, version))
}

#[test]
fn what_is_committed_for_those_without_helm_is_what_the_chart_renders() {
    let mut script = Command::new("bash");
    script.arg(project_path("scripts/render-kubernetes")).arg("-");
    let rendered = succeed(&mut script);
    let committed = fs::read_to_string(project_path(PLAIN)).unwrap();
    assert!(rendered == committed, "{PLAIN} is old: run scripts/render-kubernetes");
    validate(&project_path(PLAIN), "1.37");
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = &documents("deploy/helm/comporta/Chart.yaml")[0];
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn prometheus_and_grafana_get_what_deploy_has_for_them() {
    let rendered = rendering("production");
    let mut groups = Vec::new();
    for rules in ["recording", "alerts"] {
        groups.extend_from_slice(list(&documents(&format!("deploy/prometheus/rules/{rules}.yml"))[0]["groups"]));
    }
    assert_eq!(list(&only(&rendered, "PrometheusRule")["spec"]["groups"]), groups);

    let maps = super::of_kind(&rendered, "ConfigMap");
    let dashboard = maps.iter().find(|map| map["metadata"]["labels"]["grafana_dashboard"] == "1").unwrap();
    let rendered: serde_json::Value = serde_json::from_str(text(&dashboard["data"]["comporta.json"])).unwrap();
    let file = fs::read_to_string(project_path("deploy/grafana/dashboards/comporta.json")).unwrap();
    assert_eq!(rendered, serde_json::from_str::<serde_json::Value>(&file).unwrap());
}

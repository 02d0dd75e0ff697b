//! `README.md`, `values.yaml` and `values.schema.json` of the chart tell the same, and what the documentation shows works.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::{Chart, documents};
use crate::harness::{project_path, write_file};

fn read(name: &str) -> String {
    fs::read_to_string(project_path("deploy/helm/comporta").join(name)).unwrap()
}

/// A value's path, its default, and what it is for.
type Row = (String, String, String);

/// The rows that the schema and the values make. An object with fields of its own is not a value but a group.
fn collect(schema: &Value, values: &Value, path: &str, rows: &mut Vec<Row>) {
    let properties = schema["properties"].as_object().unwrap();
    for name in values.as_object().unwrap().keys() {
        assert!(properties.contains_key(name), "{path}{name} is not in the schema");
    }
    assert_eq!(schema["additionalProperties"], false, "{path}");
    for (name, schema) in properties.iter().filter(|(name, _)| *name != "global") {
        let path = format!("{path}{name}");
        let default = values.get(name).unwrap_or_else(|| panic!("{path} is not in values.yaml"));
        if schema.get("properties").is_some() {
            collect(schema, default, &format!("{path}."), rows);
        } else {
            rows.push((path, shown(default), schema["description"].as_str().unwrap().to_owned()));
        }
    }
}

/// JSON in one line, with a space after each comma and colon.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| format!("{key:?}: {}", shown(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn the_chart_s_readme_has_every_value_with_its_default_and_its_meaning() {
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values = &documents("deploy/helm/comporta/values.yaml")[0];
    let mut rows = Vec::new();
    collect(&schema, values, "", &mut rows);
    let expected: Vec<_> =
        rows.into_iter().map(|(path, default, meaning)| format!("| `{path}` | `{default}` | {meaning} |")).collect();
    let readme = read("README.md");
    let shown: Vec<_> = readme.lines().filter(|line| line.starts_with("| `")).collect();
    for (shown, expected) in shown.iter().zip(&expected) {
        assert_eq!(shown, expected);
    }
    assert_eq!(shown.len(), expected.len());
}

/// Values that a page shows: its blocks of YAML that are no objects of Kubernetes.
fn shown_values(page: &str) -> Vec<String> {
    let text = fs::read_to_string(project_path(page)).unwrap();
    let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.filter(|block| !block.contains("kind:")).collect()
}

#[test]
fn the_chart_takes_the_values_that_the_documentation_shows() {
    let mut count = 0;
    for page in ["docs/kubernetes.md", "deploy/helm/comporta/README.md"] {
        for block in shown_values(page) {
            let folder = TempDir::new().unwrap();
            let path = folder.path().join("values.yaml");
            write_file(&path, &block);
            let mut chart = Chart::new("comporta").values(path.to_str().unwrap());
            if !block.contains("policies:") {
                chart = chart.set("policiesConfigMap", r#""limits""#);
            }
            if !block.contains("redis:") {
                chart = chart.set("redis.url", r#""redis://redis""#);
            }
            assert!(chart.render().len() >= 5, "{block}");
            count += 1;
        }
    }
    assert_eq!(count, 4);
}

//! The dashboard of `deploy/grafana`.

use std::collections::HashSet;
use std::process::Command;

use serde_json::Value;

use super::{list, read, read_yaml, text};
use crate::harness::{Prometheus, project_path, succeed, tool};

const DASHBOARD: &str = "deploy/grafana/dashboards/comporta.json";

pub(super) fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).unwrap()
}

/// The queries of all panels, each with the title of its panel.
pub(super) fn queries(dashboard: &Value) -> Vec<(&str, &str)> {
    let panels = list(&dashboard["panels"]).iter();
    let queries = panels
        .flat_map(|panel| list(&panel["targets"]).iter().map(|target| (text(&panel["title"]), text(&target["expr"]))));
    queries.collect()
}

/// A query as Grafana sends it when everything is selected.
pub(super) fn with_variables(query: &str) -> String {
    let values =
        [("$domain", ".*"), ("$rule", ".*"), ("$instance", ".*"), ("$__rate_interval", "20s"), ("$__range", "30m")];
    values.iter().fold(query.to_owned(), |text, (variable, value)| text.replace(variable, value))
}

/// Grafana's own library reads the dashboard into its types and writes it again. What it does not know gets lost then.
#[test]
fn grafana_knows_every_field_of_the_dashboard() {
    let mut check = Command::new("python3");
    check.arg(project_path("tests/blackbox/stack/unknown_fields.py")).arg(project_path(DASHBOARD));
    check.env("PYTHONPATH", tool("grafana_foundation_sdk").parent().unwrap());
    succeed(&mut check);
}

#[test]
fn each_query_of_the_dashboard_is_one_for_prometheus() {
    let prometheus = Prometheus::start(&[]);
    let dashboard = dashboard();
    let queries = queries(&dashboard);
    assert!(queries.len() >= 50, "{}", queries.len());
    for (title, query) in queries {
        let query = with_variables(query);
        assert!(!query.contains('$'), "{title}: a variable without a value: {query}");
        if let Err(error) = prometheus.count(&query) {
            panic!("{title}: {error}: {query}");
        }
    }
}

#[test]
fn panels_have_an_identity_and_say_what_they_show() {
    let dashboard = dashboard();
    let panels = list(&dashboard["panels"]);
    let identities: HashSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(identities.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(!text(&panel["description"]).is_empty(), "{}", panel["title"]);
    }
}

/// By their identities, which are the defaults of the dashboard's variables.
#[test]
fn the_stack_provides_the_data_sources_that_the_dashboard_looks_for() {
    let provided = read_yaml("deploy/grafana/provisioning/datasources/comporta.yaml");
    let dashboard = dashboard();
    let variables = list(&dashboard["templating"]["list"]).iter();
    let looked_for: Vec<_> = variables.filter(|variable| variable["type"] == "datasource").collect();
    assert_eq!(looked_for.len(), 2);
    for variable in looked_for {
        let mut sources = list(&provided["datasources"]).iter();
        let is_provided =
            sources.any(|source| source["type"] == variable["query"] && source["uid"] == variable["current"]["value"]);
        assert!(is_provided, "{}", variable["name"]);
    }
}

#[test]
fn the_panels_of_times_lead_to_traces() {
    let dashboard = dashboard();
    for title in ["Decision time", "Redis calls"] {
        let panel = list(&dashboard["panels"]).iter().find(|panel| panel["title"] == title).unwrap();
        let links = list(&panel["fieldConfig"]["defaults"]["links"]);
        assert!(links.iter().any(|link| text(&link["url"]).contains("${traces}")), "{title}: {links:?}");
    }
}

//! What the dashboard, the rules and the alerts ask for is what the binary tells.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use regex::Regex;

use super::dashboard::{dashboard, queries, with_variables};
use super::{list, read, read_yaml, text};
use crate::harness::{Comporta, Prometheus, Redis, Setup, http};

const POLICY: &str = "
domain: d
descriptors:
  - {key: tenant, detailed_metric: true, rate_limit: {requests_per_unit: 5, unit: hour}}
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}
";

/// What looks like one of our metrics in an expression. The names of recorded series have colons.
fn named_metrics(expression: &str) -> Vec<String> {
    let word = Regex::new("[A-Za-z_:][A-Za-z0-9_:]*").unwrap();
    let words = word.find_iter(expression).map(|word| word.as_str());
    let ours = words.filter(|word| word.starts_with("comporta_") || word.starts_with("process_"));
    ours.filter(|word| !word.contains(':')).map(str::to_owned).collect()
}

/// All that is asked of Prometheus: queries and variables of the dashboard, rules and alerts.
fn expressions() -> Vec<String> {
    let dashboard = dashboard();
    let panels = queries(&dashboard).into_iter().map(|(_, query)| query.to_owned());
    let variables = list(&dashboard["templating"]["list"]).iter().filter(|variable| variable["type"] == "query");
    let variables = variables.map(|variable| text(&variable["query"]["query"]).to_owned());
    let rules = ["recording", "alerts"].map(|name| read_yaml(&format!("deploy/prometheus/rules/{name}.yml")));
    let rules = rules.iter().flat_map(|file| list(&file["groups"])).flat_map(|group| list(&group["rules"]));
    let rules = rules.map(|rule| text(&rule["expr"]).to_owned());
    panels.chain(variables).chain(rules).collect()
}

fn ask(comporta: &Comporta, domain: &str, entry: (&str, &str)) {
    let (key, value) = entry;
    let body = format!(
        r#"{{"domain": "{domain}", "descriptors": [{{"entries": [{{"key": "{key}", "value": "{value}"}}]}}]}}"#
    );
    http::post_json(comporta.addresses.http, "/json", &body).unwrap();
}

/// Some seconds of requests that pass, are refused, or would be; with Redis, and then without it.
fn keep_busy(comporta: &Comporta, redis: &mut Redis) {
    for round in 0..80 {
        if round == 40 {
            redis.kill();
        }
        ask(comporta, "d", ("tenant", "acme"));
        ask(comporta, "d", ("tenant", &format!("tenant {round}")));
        ask(comporta, "d", ("shadow", "acme"));
        ask(comporta, "elsewhere", ("tenant", "acme"));
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn after_a_busy_time_every_metric_that_is_named_is_there_and_every_panel_shows_something() {
    let mut redis = Redis::start();
    let setup = Setup::new(POLICY).flags(["--redis-url".to_owned(), redis.url()]);
    let comporta = setup.start();
    let prometheus = Prometheus::start(&[comporta.addresses.admin]);
    keep_busy(&comporta, &mut redis);

    let page = http::get(comporta.addresses.admin, "/metrics").unwrap().body;
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let there: BTreeSet<_> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
    let named: BTreeSet<_> = expressions().iter().flat_map(|expression| named_metrics(expression)).collect();
    assert!(named.len() >= 35, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !there.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?} are not in:\n{page}");

    // A label that a query asks for and that the metric does not have leaves a panel empty.
    let dashboard = dashboard();
    let empty: Vec<_> = queries(&dashboard)
        .into_iter()
        .filter(|(_, query)| prometheus.count(&with_variables(query)) == Ok(0))
        .collect();
    assert!(empty.is_empty(), "these panels show nothing: {empty:#?}\n{page}");
}

#[test]
fn each_alert_has_a_runbook() {
    let page = read("docs/observability.md");
    let alerts = read_yaml("deploy/prometheus/rules/alerts.yml");
    for rule in list(&alerts["groups"][0]["rules"]) {
        let heading = format!("\n#### {}\n", text(&rule["alert"]));
        assert!(page.contains(&heading), "{heading}");
    }
}

//! What Prometheus is told of Comporta, and what it makes of it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{list, read, read_yaml, text};
use crate::harness::{Prometheus, Setup, http, project_path, succeed, tool, wait_for};

const RECORDING: &str = "deploy/prometheus/rules/recording.yml";
const ALERTS: &str = "deploy/prometheus/rules/alerts.yml";
const ALERT_TESTS: &str = "deploy/prometheus/tests/alerts.yml";

fn promtool(arguments: &[&str]) -> Command {
    let mut command = Command::new(tool("promtool"));
    command.args(arguments).current_dir(project_path(""));
    command
}

#[test]
fn prometheus_takes_the_configuration_and_the_rules() {
    succeed(&mut promtool(&["check", "config", "deploy/prometheus/prometheus.yml"]));
    succeed(&mut promtool(&["check", "rules", "--lint=all", "--lint-fatal", RECORDING, ALERTS]));
}

#[test]
fn each_alert_fires_when_it_should() {
    succeed(&mut promtool(&["test", "rules", ALERT_TESTS]));
    let tests = read(ALERT_TESTS);
    let alerts = read_yaml(ALERTS);
    let rules = list(&alerts["groups"][0]["rules"]);
    assert!(rules.len() >= 13, "{rules:?}");
    for rule in rules {
        let name = text(&rule["alert"]);
        assert!(tests.contains(name), "{name} has no test");
        assert!(["critical", "warning"].contains(&text(&rule["labels"]["severity"])), "{name}");
        assert!(!text(&rule["annotations"]["summary"]).is_empty(), "{name}");
        assert!(!text(&rule["annotations"]["description"]).is_empty(), "{name}");
        let runbook = format!("docs/observability.md#{}", name.to_lowercase());
        assert_eq!(text(&rule["annotations"]["runbook"]), runbook);
    }
}

#[test]
fn prometheus_scrapes_the_metrics() {
    let (_setup, comporta) = crate::harness::Comporta::with_policy("domain: d");
    http::post_json(comporta.addresses.http, "/json", r#"{"domain": "d", "descriptors": [{}]}"#).unwrap();
    let prometheus = Prometheus::start(&[comporta.addresses.admin]);
    wait_for("prometheus to scrape", || (prometheus.count(r#"up{job="comporta"} == 1"#) == Ok(1)).then_some(()));
    assert_eq!(prometheus.count("comporta_requests_total > 0"), Ok(1));
    assert_eq!(prometheus.count(r#"comporta_decisions_total{rule="{none}",source="unlimited"}"#), Ok(1));
    assert_eq!(prometheus.count("comporta_decision_seconds_count"), Ok(1));
}

#[test]
fn promtool_finds_no_fault_with_the_metrics() {
    let setup = Setup::with_path(project_path("config"));
    let comporta = setup.start();
    http::post_json(comporta.addresses.http, "/json", r#"{"domain": "api", "descriptors": [{}]}"#).unwrap();
    let page = http::get(comporta.addresses.admin, "/metrics").unwrap().body;

    let mut check = promtool(&["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(older_format(&page).as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{page}", String::from_utf8_lossy(&output.stderr));
}

/// The page in the format before `OpenMetrics`, the only one that `promtool check metrics` reads. There a counter is
/// described by the name of its samples, with `_total`, and neither units nor an end are written down.
fn older_format(page: &str) -> String {
    let counters: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    page.lines().filter(|line| !line.starts_with("# UNIT") && *line != "# EOF").fold(String::new(), |mut text, line| {
        let described = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        let name = described.and_then(|rest| rest.split(' ').next()).filter(|name| counters.contains(name));
        let line = name.map_or_else(|| line.to_owned(), |name| line.replacen(name, &format!("{name}_total"), 1));
        writeln!(text, "{line}").unwrap();
        text
    })
}

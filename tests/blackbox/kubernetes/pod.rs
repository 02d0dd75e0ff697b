//! What a pod runs is what the binary understands.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::{VALUES, container, flag, flags, list, only, pod, rendering, text};
use crate::harness::{Setup, command, http, project_path, succeed, write_file};

/// Those of the binary, not of the documentation.
#[test]
fn the_chart_sets_what_comporta_knows() {
    let help = succeed(command().args(["serve", "--help"]));
    let mut unknown = BTreeSet::new();
    for values in VALUES {
        let rendered = rendering(values);
        let variables = list(&container(&rendered)["env"]).iter().map(|variable| text(&variable["name"]));
        let variables = variables.filter(|name| name.starts_with("COMPORTA_")).map(str::to_owned);
        let variables: Vec<_> = variables.filter(|name| !help.contains(&format!("[env: {name}"))).collect();
        let flags: Vec<_> = flags(&rendered).into_iter().map(|(flag, _)| format!("--{flag}")).collect();
        assert!(flags.len() >= 3, "{flags:?}");
        // A switch is shown as `--switch[=<BOOL>]`.
        let is_there = |flag: &&String| help.split([' ', '\n', '[']).any(|word| word == flag.as_str());
        unknown.extend(flags.iter().filter(|flag| !is_there(flag)).cloned());
        unknown.extend(variables);
    }
    assert!(unknown.is_empty(), "comporta serve does not know {unknown:?}");
}

/// A command line that is wrong ends with 2, and a policy that is not there with 1.
#[test]
fn comporta_takes_the_values_that_the_chart_gives_to_flags() {
    let nowhere = TempDir::new().unwrap();
    for values in ["existing-configmap", "minimal", "no-network-policy"] {
        let rendered = rendering(values);
        let arguments = list(&container(&rendered)["args"]).iter().map(text);
        let mut command = command();
        command.args(arguments.filter(|argument| !argument.starts_with("--policy=")));
        let output = command.arg("--policy").arg(nowhere.path().join("policies")).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{values}: {printed}");
        assert!(printed.contains("policies"), "{values}: {printed}");
    }
}

#[test]
fn probes_ask_what_is_there() {
    let (_setup, comporta) = crate::harness::Comporta::with_policy("domain: d");
    let rendered = rendering("minimal");
    let container = container(&rendered);
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!((&get["port"], &get["scheme"]), (&"http".into(), &"HTTP".into()), "{probe}");
        assert_eq!(http::get(comporta.addresses.http, text(&get["path"])).unwrap().status, 200, "{probe}");
    }
    let with_tls = rendering("tls");
    assert_eq!(super::container(&with_tls)["readinessProbe"]["httpGet"]["scheme"], "HTTPS");
}

/// Kubernetes mounts a `ConfigMap` as links to links.
#[test]
fn comporta_serves_the_policies_as_they_are_mounted() {
    let rendered = rendering("minimal");
    let maps = only(&rendered, "ConfigMap");
    let folder = TempDir::new().unwrap();
    let mounted = |name: &str| folder.path().join(name);
    for (file, policy) in maps["data"].as_object().unwrap() {
        write_file(&mounted("..2026_12_01").join(file), text(policy));
        symlink(format!("..data/{file}"), mounted(file)).unwrap();
    }
    symlink("..2026_12_01", mounted("..data")).unwrap();

    let comporta = Setup::with_path(folder.path().to_owned()).start();
    let policy = http::get(comporta.addresses.admin, "/policy").unwrap().body;
    assert!(policy.contains("10 per minute"), "{policy}");
    assert_eq!(flag(&rendered, "policy"), text(&super::list(&container(&rendered)["volumeMounts"])[0]["mountPath"]));
}

#[test]
fn a_whole_number_stays_one() {
    assert_eq!(flag(&rendering("production"), "max-buckets"), "2000000");
}

#[test]
fn kubernetes_waits_for_longer_than_the_end_takes() {
    for values in VALUES {
        let rendered = rendering(values);
        let seconds = |name| flag(&rendered, name).parse::<u64>().unwrap();
        let (delay, timeout) = (seconds("drain-delay"), seconds("drain-timeout"));
        let grace = pod(&rendered)["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(delay < timeout && timeout < grace, "{values}: {delay} {timeout} {grace}");
    }
}

#[test]
fn pods_have_no_more_rights_than_they_need() {
    let dockerfile = fs::read_to_string(project_path("Dockerfile")).unwrap();
    for values in VALUES {
        let rendered = rendering(values);
        let pod = pod(&rendered);
        let context = &pod["securityContext"];
        assert_eq!(context["runAsNonRoot"], true);
        let user = format!("\nUSER {}:{}\n", context["runAsUser"], context["runAsGroup"]);
        assert!(dockerfile.contains(&user), "{user} is not the image's");
        assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["enableServiceLinks"], false);
        let context = &container(&rendered)["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"]["drop"], serde_json::json!(["ALL"]));
    }
}

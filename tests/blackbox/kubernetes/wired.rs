//! Objects that refer to each other find each other.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Chart, VALUES, container, flags, list, of_kind, only, pod, rendering, text};

/// Whether an object with these labels is selected.
fn selects(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().unwrap();
    assert!(!selector.is_empty());
    selector.iter().all(|(key, value)| labels[key] == *value)
}

#[test]
fn whatever_selects_pods_selects_those_of_the_deployment() {
    for values in VALUES {
        let rendered = rendering(values);
        let deployment = only(&rendered, "Deployment");
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        assert!(selects(&deployment["spec"]["selector"]["matchLabels"], labels));
        for service in of_kind(&rendered, "Service") {
            assert!(selects(&service["spec"]["selector"], labels), "{service}");
        }
        for (kind, selector) in [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")] {
            for object in of_kind(&rendered, kind) {
                assert!(selects(&object["spec"][selector]["matchLabels"], labels), "{object}");
            }
        }
        for constraint in list(&pod(&rendered)["topologySpreadConstraints"]) {
            assert!(selects(&constraint["labelSelector"]["matchLabels"], labels), "{constraint}");
        }
    }
}

#[test]
fn the_autoscaler_scales_the_deployment_which_then_has_no_number_of_its_own() {
    let rendered = rendering("production");
    let deployment = only(&rendered, "Deployment");
    let target = &only(&rendered, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"];
    assert_eq!((&target["kind"], &target["name"]), (&deployment["kind"], &deployment["metadata"]["name"]));
    assert_eq!(deployment["spec"]["replicas"], Value::Null);
    assert_eq!(only(&rendering("tls"), "Deployment")["spec"]["replicas"], 3);
}

#[test]
fn the_monitor_finds_one_service_and_its_port_for_metrics() {
    let rendered = rendering("production");
    let monitor = only(&rendered, "ServiceMonitor");
    let selector = &monitor["spec"]["selector"]["matchLabels"];
    let services = of_kind(&rendered, "Service").into_iter();
    let found: Vec<_> = services.filter(|service| selects(selector, &service["metadata"]["labels"])).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let port = &monitor["spec"]["endpoints"][0]["port"];
    assert!(list(&found[0]["spec"]["ports"]).iter().any(|service| service["name"] == *port));
    // The rules of deploy/prometheus are for the job `comporta`.
    let job = text(&monitor["spec"]["jobLabel"]);
    assert_eq!(found[0]["metadata"]["labels"][job], "comporta");
}

/// The ports where the binary listens, the container's, the Services' and those of the network policy.
#[test]
fn ports_are_the_same_everywhere() {
    for values in VALUES {
        let rendered = rendering(values);
        let names = |ports: &Value, name: &str| -> BTreeSet<String> {
            list(ports).iter().map(|port| text(&port[name]).to_owned()).collect()
        };
        let ports = &container(&rendered)["ports"];
        let of_container = names(ports, "name");
        for port in list(ports) {
            let default = match text(&port["name"]) {
                "grpc" => 8081,
                "http" => 8080,
                "admin" => 6070,
                other => panic!("{other}"),
            };
            assert_eq!(port["containerPort"], default);
        }
        let is_exposed = flags(&rendered).contains(&("admin-addr", "[::]:6070"));
        assert_eq!(of_container.contains("admin"), is_exposed, "{values}");

        for service in of_kind(&rendered, "Service") {
            let targets = names(&service["spec"]["ports"], "targetPort");
            let is_headless = service["spec"]["clusterIP"] == "None";
            let expected: BTreeSet<_> =
                of_container.iter().filter(|name| is_headless || *name != "admin").cloned().collect();
            assert_eq!(targets, expected, "{service}");
            for port in list(&service["spec"]["ports"]) {
                let same = list(ports).iter().find(|other| other["name"] == port["targetPort"]).unwrap();
                assert_eq!(port["port"], same["containerPort"], "{service}");
            }
        }
        for policy in of_kind(&rendered, "NetworkPolicy") {
            let rules = list(&policy["spec"]["ingress"]);
            let allowed: BTreeSet<_> = rules.iter().flat_map(|rule| names(&rule["ports"], "port")).collect();
            assert!(allowed.is_subset(&of_container), "{allowed:?}");
        }
    }
}

/// In a network policy, a rule without `from` lets everybody in.
#[test]
fn who_is_not_named_is_not_let_in() {
    let rendered = Chart::with_values("existing-configmap")
        .set("admin.exposed", "true")
        .set("networkPolicy.httpFrom", "[]")
        .render();
    let rules = list(&only(&rendered, "NetworkPolicy")["spec"]["ingress"]);
    assert_eq!(rules.len(), 1, "{rules:?}");
    assert_eq!(rules[0]["ports"][0]["port"], "grpc");
    assert!(!list(&rules[0]["from"]).is_empty());
    assert_eq!(of_kind(&rendering("no-network-policy"), "NetworkPolicy").len(), 0);
}

#[test]
fn pods_may_reach_names_redis_and_the_collector_only() {
    let ports = |values| -> Vec<u64> {
        let rendered = rendering(values);
        let rules = list(&only(&rendered, "NetworkPolicy")["spec"]["egress"]).to_vec();
        rules.iter().flat_map(|rule| list(&rule["ports"])).map(|port| port["port"].as_u64().unwrap()).collect()
    };
    assert_eq!(ports("minimal"), [53, 53]);
    assert_eq!(ports("tls"), [53, 53, 6379]);
    assert_eq!(ports("production"), [53, 53, 6380, 4317, 26379]);
}

#[test]
fn files_that_flags_name_are_mounted() {
    let mut count = 0;
    for values in VALUES {
        let rendered = rendering(values);
        let mounts = list(&container(&rendered)["volumeMounts"]);
        let volumes = list(&pod(&rendered)["volumes"]);
        assert_eq!(mounts.len(), volumes.len());
        for (name, path) in flags(&rendered).into_iter().filter(|(_, value)| value.starts_with("/secrets/")) {
            let (folder, file) = path.rsplit_once('/').unwrap();
            let mount = mounts.iter().find(|mount| mount["mountPath"] == folder).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((&mount["readOnly"], &mount["subPath"]), (&true.into(), &Value::Null), "{mount}");
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            assert!(list(&volume["secret"]["items"]).iter().any(|item| item["path"] == file), "{path}: {volume}");
            count += 1;
        }
        let policies = volumes.iter().find(|volume| volume["name"] == "policies").unwrap();
        let map = text(&policies["configMap"]["name"]);
        let is_own = of_kind(&rendered, "ConfigMap").iter().any(|own| own["metadata"]["name"] == map);
        assert!(is_own || map == "limits", "{map}");
    }
    assert!(count >= 9, "{count}");
}

//! A real Envoy as Istio would set it up by `examples/istio`: the patches of the `EnvoyFilters`, put into the configuration
//! that Istio makes of a Gateway and a `VirtualService`.

mod gateway;
mod patches;

use serde_json::Value;

use self::gateway::Gateway;
use crate::harness::http;
use crate::kubernetes::{Chart, documents, of_kind};

/// What `examples/istio/README.md` tells to install.
fn installed() -> Vec<Value> {
    Chart::new("comporta")
        .namespace("limits")
        .values("examples/istio/values.yaml")
        .set_file(r"policies.api\.yaml", "config/api.yaml")
        .render()
}

#[test]
fn the_gateway_asks_the_service_that_the_chart_installs() {
    let installed = installed();
    let services = of_kind(&installed, "Service");
    let service = services.iter().find(|service| service["spec"]["clusterIP"] != "None").unwrap();
    let host = format!("{}.limits.svc.cluster.local", service["metadata"]["name"].as_str().unwrap());
    let port = service["spec"]["ports"].as_array().unwrap().iter().find(|port| port["name"] == "grpc").unwrap();

    let filters = documents("examples/istio/envoyfilter.yaml");
    let asked = &filters[0]["spec"]["configPatches"][0]["patch"]["value"]["typed_config"]["rate_limit_service"];
    let envoy_grpc = &asked["grpc_service"]["envoy_grpc"];
    assert_eq!(envoy_grpc["cluster_name"], format!("outbound|{}||{host}", port["port"]));
    assert_eq!(envoy_grpc["authority"], host);

    let rules = documents("examples/istio/destinationrule.yaml");
    assert_eq!((&rules[0]["spec"]["host"], &rules[0]["metadata"]["namespace"]), (&host.into(), &"limits".into()));
}

#[test]
fn the_patches_are_for_the_pods_of_the_gateway_alone() {
    let gateway = &documents("examples/istio/gateway.yaml")[0];
    let filters = documents("examples/istio/envoyfilter.yaml");
    assert_eq!(filters.len(), 2);
    for filter in &filters {
        assert_eq!(filter["spec"]["workloadSelector"]["labels"], gateway["spec"]["selector"]);
        assert_eq!(filter["metadata"]["namespace"], gateway["metadata"]["namespace"]);
        for patch in filter["spec"]["configPatches"].as_array().unwrap() {
            assert_eq!(patch["match"]["context"], "GATEWAY");
        }
    }
    // The chart's network policy must let exactly these pods in.
    let installed = installed();
    let policy = &of_kind(&installed, "NetworkPolicy")[0]["spec"]["ingress"];
    assert_eq!(policy.as_array().unwrap().len(), 1, "{policy}");
    let peer = &policy[0]["from"][0];
    assert_eq!(peer["podSelector"]["matchLabels"], gateway["spec"]["selector"]);
    assert_eq!(
        peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
        gateway["metadata"]["namespace"]
    );
}

#[test]
fn envoy_finds_no_fault_with_the_patches() {
    let log = Gateway::validate();
    assert!(!log.contains("[warning]"), "an example to learn from needs no warning: {log}");
}

#[test]
fn requests_pass_until_the_limits_of_host_and_route_and_are_refused_after_them() {
    let gateway = Gateway::start();
    let newcomer = gateway.get("/", "newcomer");
    assert_eq!(newcomer.status, 200);
    assert_eq!(newcomer.header("x-ratelimit-limit"), Some("10, 10;w=60, 50;w=1"), "the tenant's and the address's");
    assert_eq!(gateway.statuses(10, "/", "newcomer").pop(), Some(429));
    assert_eq!(gateway.statuses(4, "/export?month=1", "acme"), [200, 200, 200, 429]);
    assert_eq!(gateway.statuses(6, "/payments/new", "acme"), [200, 200, 200, 200, 200, 429]);
    assert_eq!(gateway.statuses(6, "/", "acme"), [200; 6], "another route, another limit");
    let shown = gateway.get("/payments", "initech").header("x-ratelimit-limit").unwrap().to_owned();
    assert!(
        ["5;w=60", "10;w=60", "50;w=1"].iter().all(|limit| shown.contains(limit)),
        "the host's count, too: {shown}"
    );
    let nobody = http::get(gateway.public, "/").unwrap();
    assert_eq!(nobody.header("x-ratelimit-limit"), Some("50, 50;w=1"), "without a tenant there is the address");
}

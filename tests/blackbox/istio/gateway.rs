//! An Envoy with the configuration of Istio's ingress gateway, as far as the example needs it.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::patches;
use crate::harness::http::{self, Response};
use crate::harness::{Comporta, Envoy, Setup, envoy_command, free_address, project_path, succeed, write_file};
use crate::kubernetes::documents;

const TYPES: &str = "type.googleapis.com/envoy.extensions";

pub(super) struct Gateway {
    _comporta: Comporta,
    _setup: Setup,
    _envoy: Envoy,
    /// Where it listens for clients.
    pub(super) public: SocketAddr,
}

impl Gateway {
    pub(super) fn start() -> Self {
        let setup = Setup::with_path(project_path("config"));
        let comporta = setup.start();
        let (public, admin) = (free_address(), free_address());
        let configuration = configuration(public, admin, comporta.addresses.grpc, comporta.addresses.http);
        let envoy = Envoy::start(&configuration.to_string(), admin);
        Self { _comporta: comporta, _setup: setup, _envoy: envoy, public }
    }

    /// What Envoy says when it only looks at the configuration.
    pub(super) fn validate() -> String {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("envoy.json");
        let [public, admin, grpc, service] = [(); 4].map(|()| free_address());
        write_file(&path, &configuration(public, admin, grpc, service).to_string());
        succeed(envoy_command(&path).args(["--mode", "validate"]))
    }

    pub(super) fn get(&self, path: &str, tenant: &str) -> Response {
        http::get_with(self.public, path, &[("x-tenant", tenant.as_bytes())]).unwrap()
    }

    /// The statuses of so many requests, one after the other.
    pub(super) fn statuses(&self, count: usize, path: &str, tenant: &str) -> Vec<u16> {
        (0..count).map(|_| self.get(path, tenant).status).collect()
    }
}

/// The whole configuration. `service` stands for all that the routes lead to: an HTTP server that answers `/readyz`.
fn configuration(public: SocketAddr, admin: SocketAddr, grpc: SocketAddr, service: SocketAddr) -> Value {
    let filters = documents("examples/istio/envoyfilter.yaml");
    let mut manager = connection_manager(&documents("examples/istio/gateway.yaml"));
    patches::apply(&filters, &mut manager);
    for filter in manager["http_filters"].as_array_mut().unwrap() {
        if filter["name"] == "envoy.filters.http.ratelimit" {
            // A machine that runs many tests at once may pause for longer than users should wait.
            filter["typed_config"]["timeout"] = json!("10s");
        }
    }
    let asked = &filters[0]["spec"]["configPatches"][0]["patch"]["value"]["typed_config"]["rate_limit_service"];
    let mut comporta = cluster(asked["grpc_service"]["envoy_grpc"]["cluster_name"].as_str().unwrap(), grpc);
    // Istio does so for a port that is called `grpc`.
    comporta["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": format!("{TYPES}.upstreams.http.v3.HttpProtocolOptions"),
        "explicit_http_config": {"http2_protocol_options": {}},
    }});
    json!({
        "admin": {"address": address(admin)},
        "static_resources": {
            "listeners": [{
                "name": "public",
                "address": address(public),
                "filter_chains": [{"filters": [
                    {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
                ]}],
            }],
            "clusters": [comporta, cluster("service", service)],
        },
    })
}

/// What Istio makes of a Gateway and a `VirtualService`: a virtual host for each host and port, and routes with their names.
fn connection_manager(documents: &[Value]) -> Value {
    let [gateway, service] = documents else { panic!("{documents:?}") };
    let server = &gateway["spec"]["servers"][0];
    assert_eq!(service["spec"]["hosts"], server["hosts"]);
    assert_eq!(service["spec"]["gateways"], json!([gateway["metadata"]["name"]]));
    let routes: Vec<_> = service["spec"]["http"].as_array().unwrap().iter().map(route).collect();
    json!({
        "@type": format!("{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "public",
        "use_remote_address": true,
        "normalize_path": true,
        "route_config": {"virtual_hosts": [{
            "name": format!("{}:{}", server["hosts"][0].as_str().unwrap(), server["port"]["number"]),
            "domains": ["*"],
            "routes": routes,
        }]},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": format!("{TYPES}.filters.http.router.v3.Router")},
        }],
    })
}

fn route(route: &Value) -> Value {
    let prefix = route["match"][0]["uri"]["prefix"].as_str().unwrap_or("/");
    json!({
        "name": route["name"],
        "match": {"prefix": prefix},
        "route": {"cluster": "service", "regex_rewrite": {"pattern": {"regex": ".*"}, "substitution": "/readyz"}},
    })
}

fn cluster(name: &str, target: SocketAddr) -> Value {
    json!({
        "name": name,
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(target)}}]}],
        },
    })
}

fn address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

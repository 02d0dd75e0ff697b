//! Limits that a request brings with it: Envoy takes them from its configuration, or from what a filter has found out.

use super::gateway::{Change, Gateway};
use crate::harness::Setup;

const POLICY: &str = "{domain: api, descriptors: [{key: tenant, rate_limit: {requests_per_unit: 9, unit: hour}}]}";

const ACTIONS: &str = "- request_headers: {header_name: x-tenant, descriptor_key: tenant}
              - actions:                              # (\"tenant\", \"acme\"), (";

/// The limit is taken from the dynamic metadata of the request.
const LIMIT_FROM_METADATA: Change = (
    ACTIONS,
    "- request_headers: {header_name: x-tenant, descriptor_key: tenant}
                limit: {dynamic_metadata: {metadata_key: {key: subscription, path: [{key: limit}]}}}
              - actions:                              # (\"tenant\", \"acme\"), (",
);

/// A filter that stands for one that knows what a client has paid for.
const METADATA: Change = (
    "http_filters:
          - name: envoy.filters.http.ratelimit\n",
    r#"http_filters:
          - name: envoy.filters.http.set_metadata
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
              metadata:
              - metadata_namespace: subscription
                value: {limit: {requests_per_unit: 2, unit: DAY}}
          - name: envoy.filters.http.ratelimit
"#,
);

#[test]
fn a_limit_from_the_metadata_of_a_request_replaces_the_one_of_the_policy() {
    let gateway = Gateway::start(Setup::new(POLICY), &[LIMIT_FROM_METADATA, METADATA]);
    for status in [200, 200, 429] {
        let response = gateway.get("/", b"acme");
        assert_eq!((response.status, response.header("x-ratelimit-limit")), (status, Some("2, 2;w=86400")));
    }
    assert_eq!(gateway.get("/", b"globex").status, 200, "each tenant has a bucket of its own");
}

#[test]
fn without_such_metadata_the_limit_of_the_policy_holds() {
    let gateway = Gateway::start(Setup::new(POLICY), &[LIMIT_FROM_METADATA]);
    let response = gateway.get("/", b"acme");
    assert_eq!(response.header("x-ratelimit-limit"), Some("9, 9;w=3600"));
}

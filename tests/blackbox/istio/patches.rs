//! What Istio does with the patches of an `EnvoyFilter`. A patch that finds nothing to change fails the test, where Istio
//! would be silent.

use serde_json::{Value, json};

/// Applies all patches to a connection manager with its routes.
pub(super) fn apply(filters: &[Value], connection_manager: &mut Value) {
    for patch in filters.iter().flat_map(|filter| filter["spec"]["configPatches"].as_array().unwrap()) {
        let (found, operation) = (&patch["match"], patch["patch"]["operation"].as_str().unwrap());
        let value = &patch["patch"]["value"];
        match (patch["applyTo"].as_str().unwrap(), operation) {
            ("HTTP_FILTER", "INSERT_BEFORE") => insert_before(connection_manager, found, value),
            ("VIRTUAL_HOST", "MERGE") => merge(virtual_host(connection_manager, found), value),
            ("HTTP_ROUTE", "MERGE") => merge(route(connection_manager, found), value),
            other => panic!("{other:?} is not known to this test: {patch}"),
        }
    }
}

fn insert_before(connection_manager: &mut Value, found: &Value, value: &Value) {
    let filter = &found["listener"]["filterChain"]["filter"];
    assert_eq!(filter["name"], "envoy.filters.network.http_connection_manager", "{filter}");
    let filters = connection_manager["http_filters"].as_array_mut().unwrap();
    let place = filters.iter().position(|other| other["name"] == filter["subFilter"]["name"]);
    filters.insert(place.unwrap_or_else(|| panic!("no {filter}")), value.clone());
}

fn virtual_host<'a>(connection_manager: &'a mut Value, found: &Value) -> &'a mut Value {
    let name = &found["routeConfiguration"]["vhost"]["name"];
    let mut hosts = connection_manager["route_config"]["virtual_hosts"].as_array_mut().unwrap().iter_mut();
    hosts.find(|host| host["name"] == *name).unwrap_or_else(|| panic!("no virtual host {name}"))
}

fn route<'a>(connection_manager: &'a mut Value, found: &Value) -> &'a mut Value {
    let name = &found["routeConfiguration"]["vhost"]["route"]["name"];
    let mut routes = virtual_host(connection_manager, found)["routes"].as_array_mut().unwrap().iter_mut();
    routes.find(|route| route["name"] == *name).unwrap_or_else(|| panic!("no route {name}"))
}

/// As protobuf messages are merged: fields are set, messages merged, lists become longer.
fn merge(target: &mut Value, value: &Value) {
    match (target, value) {
        (Value::Object(target), Value::Object(value)) => {
            for (key, value) in value {
                merge(target.entry(key).or_insert(json!(null)), value);
            }
        }
        (Value::Array(target), Value::Array(value)) => target.extend(value.iter().cloned()),
        (target, value) => *target = value.clone(),
    }
}

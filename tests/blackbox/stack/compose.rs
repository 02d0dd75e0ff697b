//! `docker-compose.yml`, the `Dockerfile`, and what they bring along.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use super::{list, read, read_yaml, text};
use crate::harness::{Comporta, Envoy, Redis, Setup, envoy_command, fill_in, free_address, http};
use crate::harness::{project_path, succeed, tool};

const COMPOSE: &str = "docker-compose.yml";
const ENVOY: &str = "deploy/compose/envoy.yaml";

/// The services of the stack with their names.
fn services(stack: &Value) -> impl Iterator<Item = (&String, &Value)> {
    stack["services"].as_object().expect("a Compose file has services").iter()
}

#[test]
fn the_stack_is_what_compose_files_are_specified_to_be() {
    succeed(
        Command::new(tool("check-jsonschema"))
            .args(["--builtin-schema", "vendor.compose-spec"])
            .arg(project_path(COMPOSE)),
    );
}

/// A tag that says at least a major and a minor version, or a digest.
#[test]
fn every_image_has_a_version() {
    let versioned = Regex::new(r":v?\d+\.\d+[\w.-]*$|@sha256:[0-9a-f]{64}$").unwrap();
    let stack = read_yaml(COMPOSE);
    for (name, service) in services(&stack).filter(|(_, service)| service.get("build").is_none()) {
        let image = text(&service["image"]);
        assert!(versioned.is_match(image), "{name}: {image}");
    }
    let dockerfile = read("Dockerfile");
    let images: Vec<_> = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")).collect();
    assert_eq!(images.len(), 2, "{images:?}");
    for image in images {
        assert!(versioned.is_match(image.split(' ').next().unwrap()), "{image}");
    }
}

#[test]
fn nothing_of_the_stack_is_published_beyond_this_machine() {
    let stack = read_yaml(COMPOSE);
    let ports: Vec<_> = services(&stack).flat_map(|(_, service)| list(&service["ports"])).map(text).collect();
    assert!(ports.len() >= 5, "{ports:?}");
    for port in ports {
        assert!(port.starts_with("127.0.0.1:"), "{port}");
    }
}

#[test]
fn what_the_stack_mounts_is_there() {
    let stack = read_yaml(COMPOSE);
    let mounts = services(&stack).flat_map(|(_, service)| list(&service["volumes"])).map(text);
    let own: Vec<_> = mounts.filter(|mount| mount.starts_with('.')).collect();
    assert!(own.len() >= 6, "{own:?}");
    for mount in own {
        let (path, _) = mount.split_once(':').unwrap();
        assert!(project_path(path).exists(), "{mount}");
        assert!(mount.ends_with(":ro"), "{mount}");
    }
}

/// A typing error in a setting's name would go unnoticed: Comporta does not look at variables that it does not know.
#[test]
fn the_stack_sets_what_comporta_knows() {
    let help = succeed(crate::harness::command().args(["serve", "--help"]));
    let stack = read_yaml(COMPOSE);
    let environment = stack["services"]["comporta"]["environment"].as_object().unwrap();
    let own: Vec<_> = environment.keys().filter(|name| name.starts_with("COMPORTA_")).collect();
    assert!(own.len() >= 2, "{own:?}");
    for name in own {
        let shown = [format!("[env: {name}="), format!("[env: {name}]")];
        assert!(shown.iter().any(|setting| help.contains(setting)), "{name}");
    }
}

#[test]
fn envoy_finds_no_fault_with_its_configuration() {
    let log = succeed(envoy_command(&project_path(ENVOY)).args(["--mode", "validate"]));
    assert!(!log.contains("[warning]"), "{log}");
}

/// The stack's Envoy and load with two replicas and a Redis, all on this machine, for some seconds.
#[test]
fn the_load_reaches_every_replica_and_meets_limits() {
    let redis = Redis::start();
    let replica = || Setup::with_path(project_path("config")).flags(["--redis-url".to_owned(), redis.url()]);
    let setups = [replica(), replica()];
    let replicas = setups.each_ref().map(Setup::start);
    let (public, admin) = (free_address(), free_address());
    let _envoy = Envoy::start(&envoy_configuration(public, admin, &replicas), admin);

    let mut load = Command::new("sh");
    load.arg(project_path("deploy/compose/load.sh")).env("TARGET", format!("http://{public}")).env("DURATION", "6");
    succeed(&mut load);

    for replica in &replicas {
        let page = http::get(replica.addresses.admin, "/metrics").unwrap().body;
        for counted in [
            r#"comporta_decisions_total{domain="api",rule="tenant","#,
            r#"comporta_decisions_total{domain="api",rule="remote_address","#,
            r#"comporta_would_be_refusals_total{domain="api",rule="tenant|path~/search*","#,
        ] {
            assert!(page.contains(counted), "{counted} is not in:\n{page}");
        }
    }
}

/// The stack's configuration with addresses of this machine. What is protected is Comporta's own HTTP port, which answers;
/// nobody takes the traces.
fn envoy_configuration(public: SocketAddr, admin: SocketAddr, replicas: &[Comporta; 2]) -> String {
    let at = |address: SocketAddr| format!("address: {}, port_value: {}}}", address.ip(), address.port());
    let endpoint = |address: SocketAddr| format!("- endpoint: {{address: {{socket_address: {{{}}}}}", at(address));
    let [first, second] = replicas.each_ref().map(|replica| replica.addresses);
    let both = format!("{}\n        {}", endpoint(first.grpc), endpoint(second.grpc));
    let values = [
        ("address: 0.0.0.0, port_value: 10000}", at(public)),
        ("address: 0.0.0.0, port_value: 9901}", at(admin)),
        ("address: service, port_value: 80}", at(first.http)),
        ("address: otel-collector, port_value: 4317}", at(free_address())),
        ("- endpoint: {address: {socket_address: {address: comporta, port_value: 8081}}}", both),
        // A machine that runs many tests at once may pause for longer than users should wait.
        ("timeout: 0.1s", "timeout: 10s".to_owned()),
    ];
    fill_in(&read(ENVOY), &values)
}

/// What is not in the build's context cannot be copied into the image.
#[test]
fn the_image_is_built_from_what_its_context_has() {
    let kept = read(".dockerignore");
    let kept: Vec<_> = kept.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for copied in ["Cargo.toml", "Cargo.lock", "config", "lua", "src"] {
        assert!(kept.contains(&copied) && Path::new(&project_path(copied)).exists(), "{copied}");
    }
    let dockerfile = read("Dockerfile");
    let sources: Vec<_> = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY ")).collect();
    assert!(sources.len() >= 4, "{sources:?}");
    for source in sources.iter().filter(|source| !source.starts_with("--from")) {
        let (paths, _) = source.rsplit_once(' ').unwrap();
        assert!(paths.split(' ').all(|path| kept.contains(&path)), "{source}");
    }
}

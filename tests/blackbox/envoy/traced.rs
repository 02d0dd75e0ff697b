//! A trace that begins in Envoy, set up as `docs/observability.md` shows it, and goes on through Comporta to Redis.

use std::fs;

use super::gateway::Gateway;
use crate::harness::{Collector, Redis, Setup, Span, http, project_path};

const POLICY: &str = "{domain: api, descriptors: [{key: tenant, rate_limit: {unit: hour, requests_per_unit: 100}}]}";

/// The blocks of YAML in the documentation: the connection manager's, and the cluster.
fn documented() -> [String; 2] {
    let page = fs::read_to_string(project_path("docs/observability.md")).unwrap();
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [manager, cluster] = blocks[..] else { panic!("two blocks of YAML, not {}", blocks.len()) };
    [manager, cluster].map(str::to_owned)
}

fn indented(block: &str, spaces: usize) -> String {
    let margin = " ".repeat(spaces);
    let lines: Vec<String> = block.lines().map(|line| format!("{margin}{line}\n")).collect();
    lines.concat()
}

fn gateway(collector: &Collector, redis: &Redis, percent: u32) -> Gateway {
    let [manager, cluster] = documented();
    let collector_port = format!("address: {}, port_value: {}}}", collector.address.ip(), collector.address.port());
    let change = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "the documentation has no {from}");
        text.replace(from, to)
    };
    let manager = change(&manager, "{value: 1}", &format!("{{value: {percent}}}"));
    let cluster = change(&cluster, "address: 127.0.0.1, port_value: 4317}", &collector_port);
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let manager = leak(format!("stat_prefix: public\n{}", indented(&manager, 10)));
    let cluster = leak(format!("  clusters:\n{}", indented(&cluster, 2)));
    let flags = [
        format!("--otlp-endpoint={}", collector.url()),
        "--otlp-protocol=grpc".to_owned(),
        "--redis-url".to_owned(),
        redis.url(),
        "--redis-timeout=1s".to_owned(),
    ];
    Gateway::start(Setup::new(POLICY).flags(flags), &[("stat_prefix: public\n", manager), ("  clusters:\n", cluster)])
}

#[test]
fn one_trace_leads_from_envoy_through_comporta_to_redis() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let gateway = gateway(&collector, &redis, 100);
    assert_eq!(gateway.get("/", b"acme").status, 200);
    let call = collector.wait_for("the call", |spans| spans.iter().find(|span| span.name == "store.acquire").cloned());
    let find = |id: &str| -> Span {
        collector.wait_for("the span above", |spans| spans.iter().find(|span| span.id == id).cloned())
    };
    let request = find(&call.parent);
    let question = find(&request.parent);
    let whole = find(&question.parent);
    assert_eq!((&*request.name, &request.resource["service.name"]), ("ShouldRateLimit", &"comporta".into()));
    assert_eq!((question.kind, &question.resource["service.name"]), (Collector::CLIENT, &"envoy".into()));
    assert_eq!((whole.kind, &*whole.parent), (Collector::SERVER, ""));
    for span in [&call, &request, &question] {
        assert_eq!(span.trace, whole.trace);
    }
}

#[test]
fn what_envoy_does_not_trace_comporta_does_not() {
    let (collector, redis) = (Collector::grpc(), Redis::start());
    let gateway = gateway(&collector, &redis, 0);
    for _ in 0..20 {
        assert_eq!(gateway.get("/", b"acme").status, 200);
    }
    // What is sent is sent in order, so anything else would be there before this.
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traceparent = format!("00-{trace}-00f067aa0ba902b7-01");
    let body = br#"{"domain": "api", "descriptors": [{"entries": [{"key": "tenant", "value": "acme"}]}]}"#;
    let headers: [(&str, &[u8]); 1] = [("traceparent", traceparent.as_bytes())];
    http::request(gateway.comporta.addresses.http, "POST", "/json", &headers, body).unwrap();
    collector.wait_for_trace(trace, 1);
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == trace), "{spans:#?}");
}

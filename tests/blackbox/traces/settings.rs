//! What settings and OpenTelemetry's variables say of traces.

use super::{POLICY, ask_in_trace, trace};
use crate::harness::{Collector, Setup, command};

#[tokio::test]
async fn the_variables_of_opentelemetry_are_honoured() {
    let collector = Collector::http();
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let setup = Setup::new(POLICY).environment([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", leak(collector.url())),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20c2VjcmV0"),
        ("OTEL_SERVICE_NAME", "limits"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.instance.id=replica-7"),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_on"),
    ]);
    let comporta = setup.start();
    super::ask(&mut comporta.client(), "own=x", &[]).await.unwrap();
    super::ask(&mut comporta.client(), "own=x", &[("traceparent", super::traceparent(1, "00"))]).await.unwrap();
    ask_in_trace(&mut comporta.client(), "own=x", 2).await;
    collector.wait_for_trace(&trace(2), 1);
    let spans = collector.wait_for("both", |spans| (spans.len() >= 2).then(|| spans.to_vec()));
    assert!(spans.iter().all(|span| span.trace != trace(1)), "its caller does not trace it");
    let resource = &spans[0].resource;
    assert_eq!(
        (&resource["service.name"], &resource["deployment.environment.name"]),
        (&"limits".into(), &"test".into())
    );
    assert_eq!(
        (&resource["service.instance.id"], spans[0].get("comporta.replica")),
        (&"replica-7".into(), &"replica-7".into())
    );
    assert_eq!(collector.header("authorization").as_deref(), Some("Basic c2VjcmV0"));
    assert!(!comporta.log().contains("c2VjcmV0"), "{}", comporta.log());
}

#[test]
fn a_setting_that_cannot_be_is_a_clear_error_at_the_start() {
    let endpoint = "--otlp-endpoint=http://127.0.0.1:4317";
    for (flags, variable, expected) in [
        (&["--otlp-endpoint=collector:4317"][..], ("A", ""), "give the URL of a collector"),
        (&[endpoint, "--otlp-protocol=http/json"], ("A", ""), "possible values: grpc, http/protobuf"),
        (&[endpoint, "--trace-ratio=2"], ("A", ""), "give a number from 0 to 1"),
        (&["--trace-ratio=0.5"], ("A", ""), "--trace-ratio is of no use without --otlp-endpoint"),
        (&[endpoint], ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"), "OTEL_EXPORTER_OTLP_TIMEOUT: give milliseconds"),
        (&[endpoint], ("OTEL_EXPORTER_OTLP_HEADERS", "hush"), "OTEL_EXPORTER_OTLP_HEADERS: give NAME=VALUE"),
        (&[], ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector"), "OTEL_EXPORTER_OTLP_ENDPOINT: give the URL"),
        (&[endpoint], ("OTEL_TRACES_SAMPLER", "xray"), "OTEL_TRACES_SAMPLER: give always_on"),
    ] {
        let output = command().arg("serve").args(flags).env(variable.0, variable.1).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?} {variable:?}: {said}");
        assert!(said.contains(expected), "{flags:?} {variable:?}: {said}");
        assert!(!said.contains("hush"), "{said}");
    }
}

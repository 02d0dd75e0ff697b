use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::Engine;

/// The content type of what [`Metrics::encode`] writes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the decision times that are told apart, in seconds: 10 µs to 20 ms.
const DECISION_SECONDS: [f64; 11] = [10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 20e-3];

/// Every metric of the service, defined here and nowhere else.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    decision_seconds: Histogram,
}

/// Reads the engine's counts when they are asked for, so that counting costs one atomic addition.
#[derive(Debug)]
struct EngineCollector {
    engine: Arc<Engine>,
    clock: Arc<Clock>,
}

impl Metrics {
    #[must_use]
    pub fn new(engine: Arc<Engine>, clock: Arc<Clock>) -> Self {
        let mut registry = Registry::with_prefix("comporta");
        let decision_seconds = Histogram::new(DECISION_SECONDS);
        registry.register("decision_seconds", "Time to decide a request", decision_seconds.clone());
        registry.register_collector(Box::new(EngineCollector { engine, clock }));
        Self { registry, decision_seconds }
    }

    /// Takes note of how long a request took to decide.
    pub fn observe_decision(&self, time: Duration) {
        self.decision_seconds.observe(time.as_secs_f64());
    }

    /// All metrics in the `OpenMetrics` text format.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

impl Collector for EngineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.encode_counts(&mut encoder)?;
        self.encode_policy(&mut encoder)
    }
}

impl EngineCollector {
    fn encode_counts(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (counts, table) = (self.engine.counts(), self.engine.table());

        let mut requests =
            encoder.encode_descriptor("requests", "Requests decided, by overall code", None, MetricType::Counter)?;
        for (code, count) in [("ok", &counts.ok), ("over_limit", &counts.over_limit)] {
            ConstCounter::new(count.get()).encode(requests.encode_family(&[("code", code)])?)?;
        }

        let mut would_be = encoder.encode_descriptor(
            "would_be_refusals",
            "Refusals that shadow mode or another quota of the request prevented",
            None,
            MetricType::Counter,
        )?;
        for (reason, count) in [
            ("shadow_mode", &counts.would_refuse_in_shadow),
            ("quota_mode", &counts.would_refuse_in_quota),
            ("service_shadow_mode", &counts.would_refuse_in_service_shadow),
        ] {
            ConstCounter::new(count.get()).encode(would_be.encode_family(&[("reason", reason)])?)?;
        }

        encode_counter(
            encoder,
            "unknown_domains",
            "Requests for a domain that no policy file names",
            counts.unknown_domain.get(),
        )?;
        encode_counter(
            encoder,
            "buckets_evicted",
            "Buckets dropped because there were --max-buckets",
            table.evicted(),
        )?;
        encode_gauge(encoder, "buckets", "Buckets in memory", table.len() as u64)
    }

    fn encode_policy(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let active = self.engine.active();
        let mut decisions = encoder.encode_descriptor(
            "decisions",
            "Descriptors decided since the policy was loaded, by rule; (none) found no limit, (request) brought its own",
            None,
            MetricType::Counter,
        )?;
        for tally in active.tallies.used() {
            for (source, code, count) in tally.decisions() {
                let labels = [
                    ("domain", tally.domain()),
                    ("rule", tally.rule()),
                    ("code", code.name()),
                    ("source", source.name()),
                ];
                ConstCounter::new(count).encode(decisions.encode_family(&labels)?)?;
            }
        }
        let policy = &active.policy;
        encode_gauge(encoder, "policy_files", "Files of the policy", policy.files().len() as u64)?;
        encode_gauge(encoder, "policy_rules", "Rules of the policy", policy.rule_count() as u64)?;
        let age = policy.load_time().map_or(0, |loaded| (self.clock.now().monotonic - loaded).0 / 1_000_000);
        encode_gauge(encoder, "policy_age_seconds", "Time since the policy was loaded", age)
    }
}

fn encode_counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), fmt::Error> {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn encode_gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

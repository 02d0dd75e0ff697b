use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::engine::Engine;

/// The content type of what [`Metrics::encode`] writes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Every metric of the service, defined here and nowhere else.
#[derive(Debug)]
pub struct Metrics(Registry);

/// Reads the engine's counts when they are asked for, so that counting costs one atomic addition.
#[derive(Debug)]
struct EngineCollector(Arc<Engine>);

impl Metrics {
    #[must_use]
    pub fn new(engine: Arc<Engine>) -> Self {
        let mut registry = Registry::with_prefix("comporta");
        registry.register_collector(Box::new(EngineCollector(engine)));
        Self(registry)
    }

    /// All metrics in the `OpenMetrics` text format.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.0)?;
        Ok(page)
    }
}

impl Collector for EngineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (counts, table) = (self.0.counts(), self.0.table());

        let mut decisions =
            encoder.encode_descriptor("decisions", "Requests decided, by overall code", None, MetricType::Counter)?;
        for (code, count) in [("ok", &counts.ok), ("over_limit", &counts.over_limit)] {
            ConstCounter::new(count.get()).encode(decisions.encode_family(&[("code", code)])?)?;
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

        let mut counter = |name, help, value: u64| {
            let metric = ConstCounter::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
        };
        counter("unknown_domains", "Requests for a domain that no policy file names", counts.unknown_domain.get())?;
        counter("buckets_evicted", "Buckets dropped because there were --max-buckets", table.evicted())?;

        let buckets = ConstGauge::new(i64::try_from(table.len()).unwrap_or(i64::MAX));
        buckets.encode(encoder.encode_descriptor("buckets", "Buckets in memory", None, MetricType::Gauge)?)
    }
}

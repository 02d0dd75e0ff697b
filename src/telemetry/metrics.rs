use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::histogram::{Snapshot, TimeHistogram};
use crate::engine::{ActivePolicy, Tally};
use crate::replica::Replica;

/// The content type of what [`Metrics::encode`] writes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The longest path of a rule in a label, in bytes; longer ones are cut and end with the number of the rule.
const LONGEST_RULE: usize = 200;

/// Every metric of the service, defined here and nowhere else.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    decision_times: Arc<TimeHistogram>,
}

/// Reads what has been counted when it is asked for, so that counting costs an atomic addition.
#[derive(Debug)]
struct EngineCollector {
    replica: Arc<Replica>,
    decision_times: Arc<TimeHistogram>,
}

impl Metrics {
    #[must_use]
    pub fn new(replica: Arc<Replica>) -> Self {
        let mut registry = Registry::with_prefix("comporta");
        let decision_times = Arc::<TimeHistogram>::default();
        let collector = EngineCollector { replica, decision_times: Arc::clone(&decision_times) };
        registry.register_collector(Box::new(collector));
        Self { registry, decision_times }
    }

    /// Takes note of how long a request took to decide.
    pub fn observe_decision(&self, time: Duration) {
        self.decision_times.observe(time);
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
        let (counts, table) = (self.replica.engine.counts(), self.replica.engine.table());

        let mut requests =
            encoder.encode_descriptor("requests", "Requests decided, by overall code", None, MetricType::Counter)?;
        for (code, count) in [("ok", &counts.ok), ("over_limit", &counts.over_limit)] {
            ConstCounter::new(count.get()).encode(requests.encode_family(&[("code", code)])?)?;
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
        encode_gauge(encoder, "buckets", "Buckets in memory", table.len() as u64)?;

        let mut calls =
            encoder.encode_descriptor("store_calls", "Calls to the store, by outcome", None, MetricType::Counter)?;
        for (outcome, count) in [("ok", &counts.store_calls), ("error", &counts.store_errors)] {
            ConstCounter::new(count.get()).encode(calls.encode_family(&[("outcome", outcome)])?)?;
        }
        encode_counter(
            encoder,
            "lost_refunds",
            "Calls to give hits back that the store did not answer; the hits stay spent",
            counts.lost_refunds.get(),
        )?;
        encode_gauge(encoder, "replicas", "Replicas that share the store", self.replica.engine.replicas().into())?;

        let Snapshot { sum, count, buckets } = self.decision_times.snapshot();
        encoder
            .encode_descriptor("decision_seconds", "Time to decide a request", None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn encode_policy(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let active = self.replica.engine.active();
        let help = "Descriptors decided since the policy was loaded, by rule; {none} found no limit, {request} brought its own";
        let mut decisions = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        for_each_tally(&active, |domain, rule, tally| {
            for (source, code, count) in tally.decisions() {
                let labels = [("domain", domain), ("rule", rule), ("code", code.name()), ("source", source.name())];
                ConstCounter::new(count).encode(decisions.encode_family(&labels)?)?;
            }
            Ok(())
        })?;
        let help = "Descriptors that were over their limit and not refused for it, by rule and by what prevented it";
        let mut would_be = encoder.encode_descriptor("would_be_refusals", help, None, MetricType::Counter)?;
        for_each_tally(&active, |domain, rule, tally| {
            for (prevention, count) in tally.prevented() {
                let labels = [("domain", domain), ("rule", rule), ("reason", prevention.name())];
                ConstCounter::new(count).encode(would_be.encode_family(&labels)?)?;
            }
            Ok(())
        })?;

        let policy = &active.policy;
        encode_gauge(encoder, "policy_files", "Files of the policy", policy.files().len() as u64)?;
        encode_gauge(encoder, "policy_rules", "Rules of the policy", policy.rule_count() as u64)?;
        let age = (self.replica.clock.now().monotonic - active.since).0 / 1_000_000;
        encode_gauge(encoder, "policy_age_seconds", "Time since the policy was loaded", age)
    }
}

/// Shows every tally with its domain and its rule. What is not of a rule has a name that no rule can have: in the path of
/// a rule braces are escaped, and no domain has an empty name.
fn for_each_tally(active: &ActivePolicy, mut visit: impl FnMut(&str, &str, &Tally) -> fmt::Result) -> fmt::Result {
    for domain in active.policy.domains() {
        let of_domain = active.tallies.domain(domain);
        visit(domain.name(), "{none}", &of_domain.no_limit)?;
        visit(domain.name(), "{request}", &of_domain.own_limit)?;
        let mut visited = Ok(());
        domain.for_each_rule(|path, rule| {
            let path = if path.len() <= LONGEST_RULE {
                Cow::Borrowed(path)
            } else {
                Cow::Owned(format!("{}...{}", &path[..LONGEST_RULE], rule.index))
            };
            visited = visited.and_then(|()| visit(domain.name(), &path, active.tallies.rule(rule)));
        });
        visited?;
    }
    visit("", "{none}", &active.tallies.unknown_domain)
}

fn encode_counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), fmt::Error> {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn encode_gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

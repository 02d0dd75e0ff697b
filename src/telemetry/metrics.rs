//! Every metric of the service, its help and its labels, defined here and nowhere else. What it shows is counted where it
//! happens, with an atomic addition, and read when somebody asks.

mod family;
mod ports;
mod process;
mod rules;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use self::family::Families;
pub use self::ports::{ConnectionRefusal, PortCounts, RequestRefusal};
use crate::measure::TimeHistogram;
use crate::replica::Replica;

/// The content type of what [`Metrics::encode`] writes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug)]
pub struct Metrics {
    /// Ours, and those of the process, whose names are the same everywhere.
    registries: [Registry; 2],
    decision_times: Arc<TimeHistogram>,
}

#[derive(Debug)]
struct ServiceCollector {
    replica: Arc<Replica>,
    ports: Vec<Arc<PortCounts>>,
    decision_times: Arc<TimeHistogram>,
}

impl Metrics {
    #[must_use]
    pub fn new(replica: Arc<Replica>, ports: Vec<Arc<PortCounts>>) -> Self {
        let decision_times = Arc::<TimeHistogram>::default();
        let (mut ours, mut of_process) = (Registry::with_prefix("comporta"), Registry::with_prefix("process"));
        let collector = ServiceCollector { replica, ports, decision_times: Arc::clone(&decision_times) };
        ours.register_collector(Box::new(collector));
        of_process.register_collector(Box::new(process::ProcessCollector));
        Self { registries: [ours, of_process], decision_times }
    }

    /// Takes note of how long a request took to decide.
    pub fn observe_decision(&self, time: Duration) {
        self.decision_times.observe(time);
    }

    /// All metrics in the `OpenMetrics` text format.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        for registry in &self.registries {
            text::encode_registry(&mut page, registry)?;
        }
        text::encode_eof(&mut page)?;
        Ok(page)
    }
}

impl Collector for ServiceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut families = Families(&mut encoder);
        self.requests(&mut families)?;
        ports::encode(&self.ports, &mut families)?;
        rules::encode(&self.replica.engine, &mut families)?;
        store::encode(&self.replica, &mut families)?;
        self.buckets(&mut families)?;
        self.policy(&mut families)?;
        let lost = super::log::lost_lines();
        families.counter("log_lines_lost", "Lines of the log that nobody read in time")?.only(lost)?;
        let mut info = families.gauge("build_info", "The version that runs; always 1")?;
        info.of(&[("version", env!("CARGO_PKG_VERSION"))], 1)
    }
}

impl ServiceCollector {
    fn requests(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        let counts = self.replica.engine.counts();
        let mut requests = families.counter("requests", "Requests answered, by overall code")?;
        for (code, count) in [
            ("ok", &counts.ok),
            ("over_limit", &counts.over_limit),
            ("unavailable", &counts.unavailable),
            ("invalid", &counts.invalid),
        ] {
            requests.of(&[("code", code)], count.get())?;
        }
        let unknown = counts.unknown_domain.get();
        families.counter("unknown_domains", "Requests for a domain that no policy file names")?.only(unknown)?;
        let times = self.decision_times.snapshot();
        families.histogram("decision_seconds", "Time to decide a request, without gRPC or HTTP")?.only(&times)?;
        let waiting = self.replica.waiting() as u64;
        families.gauge("waiting_requests", "Requests that wait for Redis now")?.only(waiting)
    }

    fn buckets(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        let engine = &self.replica.engine;
        families.gauge("buckets", "Buckets in memory")?.only(engine.table().len() as u64)?;
        let evicted = engine.table().evicted();
        families.counter("buckets_evicted", "Buckets dropped because there were --max-buckets")?.only(evicted)?;
        let held = engine.leases() as u64;
        families.gauge("leases", "Buckets that hold hits borrowed from Redis, or have held some lately")?.only(held)?;
        let mut hits = families.counter("lease_hits", "Hits borrowed ahead of need, by what became of them")?;
        let leased = &engine.counts().leased;
        for (event, count) in [
            ("granted", &leased.granted),
            ("spent", &leased.spent),
            ("returned", &leased.returned),
            ("expired", &leased.expired),
        ] {
            hits.of(&[("event", event)], count.get())?;
        }
        Ok(())
    }

    fn policy(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        let active = self.replica.engine.active();
        let (policy, loads) = (&active.policy, self.replica.engine.loads());
        families.gauge("policy_files", "Files of the policy")?.only(policy.files().len() as u64)?;
        families.gauge("policy_rules", "Rules of the policy")?.only(policy.rule_count() as u64)?;
        let age = (self.replica.clock.now().monotonic - active.since).0 / 1_000_000;
        families.gauge("policy_age_seconds", "Time since the policy was loaded")?.only(age)?;
        let mut info = families.gauge("policy_info", "The hash of the policy's content; always 1")?;
        info.of(&[("hash", &policy.hash().to_string())], 1)?;
        let mut counts = families.counter("policy_loads", "Attempts to load the policy, by outcome")?;
        counts.of(&[("outcome", "ok")], loads.good.get())?;
        counts.of(&[("outcome", "error")], loads.bad.get())?;
        let faults = loads.last_fault().map_or(0, |fault| fault.count as u64);
        families
            .gauge("policy_ok", "1 if the last attempt to load the policy succeeded")?
            .only(u64::from(faults == 0))?;
        families.gauge("policy_faults", "Faults that the last attempt to load the policy found")?.only(faults)
    }
}

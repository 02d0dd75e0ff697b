//! Replicas that share a Redis, or should.

use std::collections::BTreeMap;

use rustix::process::Signal;

use super::limit::{Limit, policy};
use super::load::Target;
use crate::harness::{Comporta, Redis, Setup, http};

/// Long enough that a busy machine is not taken for a failure of Redis.
const REDIS_TIMEOUT: &str = "10s";

#[derive(Debug)]
pub(super) struct Fleet {
    redis: Option<Redis>,
    /// What all replicas are told besides their policy.
    flags: Vec<String>,
    policy: String,
    replicas: Vec<Replica>,
}

/// A replica that has been started. What is stopped has no process any more.
#[derive(Debug)]
struct Replica {
    _setup: Setup,
    process: Option<Comporta>,
}

impl Fleet {
    /// Starts so many replicas on a Redis of their own.
    pub(super) fn start(replicas: usize, limits: &[Limit]) -> Self {
        let redis = Redis::start();
        let flags = ["--redis-url".to_owned(), redis.url()];
        Self { redis: Some(redis), ..Self::on(flags, replicas, limits) }
    }

    /// Replicas that do not know of each other.
    pub(super) fn without_redis(replicas: usize, limits: &[Limit]) -> Self {
        Self::with(Vec::new(), replicas, limits)
    }

    /// Replicas that share the Redis of these flags, of whatever kind.
    pub(super) fn on(flags: impl IntoIterator<Item = String>, replicas: usize, limits: &[Limit]) -> Self {
        Self::with_timeout(REDIS_TIMEOUT, flags, replicas, limits)
    }

    /// The same, with failure modes that decide after so long.
    pub(super) fn with_timeout(
        timeout: &str,
        flags: impl IntoIterator<Item = String>,
        replicas: usize,
        limits: &[Limit],
    ) -> Self {
        let patience = ["--redis-timeout", timeout].map(str::to_owned);
        Self::with(flags.into_iter().chain(patience).collect(), replicas, limits)
    }

    fn with(flags: Vec<String>, replicas: usize, limits: &[Limit]) -> Self {
        // What is told of a change is not to be lost among refusals.
        let quiet = "--log-level=info,comporta::decisions=warn".to_owned();
        let flags = flags.into_iter().chain([quiet]).collect();
        let mut fleet = Self { redis: None, flags, policy: policy(limits), replicas: Vec::new() };
        for _ in 0..replicas {
            fleet.add();
        }
        fleet
    }

    /// Replicas with this policy, of which each has its own flags.
    pub(super) fn of_each(policy: String, flags: impl IntoIterator<Item = Vec<String>>) -> Self {
        let mut fleet = Self { redis: None, flags: Vec::new(), policy, replicas: Vec::new() };
        for flags in flags {
            fleet.add_with(flags);
        }
        fleet
    }

    /// Starts one more replica.
    pub(super) fn add(&mut self) {
        self.add_with(self.flags.clone());
    }

    fn add_with(&mut self, flags: Vec<String>) {
        let setup = Setup::new(&self.policy).flags(flags);
        let process = Some(setup.start());
        self.replicas.push(Replica { _setup: setup, process });
    }

    /// Kills a replica as the kernel would, and waits until it is gone.
    pub(super) fn kill(&mut self, replica: usize) {
        self.end(replica, Signal::KILL);
    }

    /// Asks a replica to end, and waits until it has.
    pub(super) fn stop(&mut self, replica: usize) {
        self.end(replica, Signal::TERM);
    }

    fn end(&mut self, replica: usize, signal: Signal) {
        let mut process = self.replicas[replica].process.take().expect("a replica that runs");
        process.signal(signal);
        process.wait_for_exit();
    }

    pub(super) fn has_redis(&self) -> bool {
        self.redis.is_some()
    }

    pub(super) fn redis(&self) -> &Redis {
        self.redis.as_ref().expect("a fleet with a Redis")
    }

    /// Those that run.
    pub(super) fn targets(&self) -> Vec<Target> {
        let numbered = (0..).zip(&self.replicas);
        let target = |(replica, process): (u16, &Comporta)| Target { replica, address: process.addresses.grpc };
        numbered.filter_map(|(number, replica)| Some(target((number, replica.process.as_ref()?)))).collect()
    }

    /// How often the scripts of the buckets have run since Redis was started.
    pub(super) fn store_calls(&self) -> u64 {
        let counts = self.redis().command_counts();
        let count = |command| counts.get(command).copied().unwrap_or_default();
        // A heartbeat is a script too. It alone adds to a sorted set, once.
        count("evalsha") + count("eval") - count("zadd")
    }

    /// What Redis has of the only bucket, if that is a token bucket.
    pub(super) fn bucket(&self) -> BTreeMap<String, u64> {
        let keys = self.redis().keys();
        let key = keys.iter().find(|key| key.contains('{')).expect("a bucket");
        self.redis().command(&["HGETALL", key])
    }

    /// How many decisions the replicas that run have made, by their source.
    pub(super) fn decisions(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (source, count) in self.decisions_of_each().into_iter().flatten() {
            *all.entry(source).or_default() += count;
        }
        all
    }

    /// The same, of each replica that runs.
    pub(super) fn decisions_of_each(&self) -> Vec<BTreeMap<String, u64>> {
        self.running().map(|replica| decisions(replica, "")).collect()
    }

    /// How many decisions failure modes have made on the limits of a rule.
    pub(super) fn fallback_of(&self, rule: &str) -> u64 {
        let label = format!("rule=\"{rule}\"");
        self.running().filter_map(|replica| decisions(replica, &label).remove("fallback")).sum()
    }

    /// What each replica that runs has printed.
    pub(super) fn logs(&self) -> Vec<String> {
        self.running().map(Comporta::log).collect()
    }

    fn running(&self) -> impl Iterator<Item = &Comporta> {
        self.replicas.iter().filter_map(|replica| replica.process.as_ref())
    }
}

/// By their source; of those that have this label.
fn decisions(replica: &Comporta, label: &str) -> BTreeMap<String, u64> {
    let mut decisions = BTreeMap::new();
    let page = http::get(replica.addresses.admin, "/metrics").unwrap().body;
    for line in page.lines().filter(|line| line.starts_with("comporta_decisions_total{") && line.contains(label)) {
        let (labels, count) = line.rsplit_once("} ").unwrap();
        let source = labels.split_once("source=\"").unwrap().1.split_once('"').unwrap().0;
        *decisions.entry(source.to_owned()).or_default() += count.parse::<u64>().unwrap();
    }
    decisions
}

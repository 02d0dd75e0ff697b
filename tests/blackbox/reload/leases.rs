//! Limits change while their hits are borrowed.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;

use super::{amount, limiting, replace};
use crate::harness::grpc::{Client, code};
use crate::harness::{Comporta, Redis, Setup, wait_for};

/// Two that share a Redis.
struct Replicas {
    _redis: Redis,
    setups: [Setup; 2],
    processes: [Comporta; 2],
}

impl Replicas {
    fn start(text: &str) -> Self {
        let redis = Redis::start();
        let flags = ["--redis-url".to_owned(), redis.url(), "--redis-timeout=10s".to_owned()];
        let setups = [(); 2].map(|()| Setup::new(text).flags(flags.clone()));
        let processes = [setups[0].start(), setups[1].start()];
        Self { _redis: redis, setups, processes }
    }

    /// Lets both replicas limit `a` to another amount.
    fn limit(&self, to: u64) {
        for setup in &self.setups {
            replace(&setup.policy_path().join("policy.yaml"), &limiting("a", &to.to_string()));
        }
        for replica in &self.processes {
            wait_for("the new limit", || (amount(replica, "a") == Some(to)).then_some(()));
        }
    }

    /// How many of so many requests pass, which ask one replica after the other.
    async fn passing(&self, requests: usize) -> usize {
        let mut clients: [Client; 2] = [self.processes[0].client(), self.processes[1].client()];
        let mut passing = 0;
        for turn in 0..requests {
            passing += usize::from(code(&mut clients[turn % 2], ["a=x"]).await == Code::Ok);
        }
        passing
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_limit_opens_by_what_it_was_raised_over_all_replicas() {
    let replicas = Replicas::start(&limiting("a", "100"));
    assert_eq!(replicas.passing(150).await, 100);
    replicas.limit(200);
    assert_eq!(replicas.passing(250).await, 100, "what is spent stays spent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lowered_limit_refuses_at_once_even_where_hits_are_borrowed() {
    let replicas = Replicas::start(&limiting("a", "200"));
    assert_eq!(replicas.passing(60).await, 60, "and more is borrowed than that");
    replicas.limit(50);
    assert_eq!(replicas.passing(40).await, 0);
    replicas.limit(200);
    assert_eq!(replicas.passing(200).await, 140, "what was borrowed has gone back");
}

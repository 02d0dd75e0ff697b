//! A primary becomes a replica behind the one address that Comporta knows, as a proxy or a managed service does it.

use std::thread::sleep;
use std::time::Duration;

use super::change::Change;
use super::limit::Limit;
use crate::harness::{Forwarder, RedisSetup, Replicated};

const LIMIT: Limit = Limit::tokens(150, 1);

/// How soon the new primary is used once the address leads to it.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The address leads to the demoted server for so long, and then to the new primary. No connection is ever closed.
fn demote(name: &str, misled: Duration) {
    let mut servers = Replicated::start([RedisSetup::new(), RedisSetup::new()]);
    let forwarder = Forwarder::start(servers.primary().address());
    let url = format!("redis://{}", forwarder.address);
    let change = Change::begin(name, ["--redis-url".to_owned(), url], LIMIT);
    servers.switch();
    sleep(misled);
    forwarder.lead_to(servers.primary().address());
    let changed = change.end(servers.primary());

    changed.assert_survived(AT_ONCE);
    changed.assert_one_burst_more_at_most();
    for log in &changed.logs {
        assert!(log.contains("replica"), "the reason is not told: {log}");
    }
}

#[test]
fn a_demoted_server_is_left_at_once_for_the_new_primary() {
    demote("demoted", Duration::ZERO);
}

#[test]
fn a_server_that_stays_read_only_is_not_told_of_again_and_again() {
    demote("read-only for 3 s", Duration::from_secs(3));
}

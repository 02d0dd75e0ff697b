//! Sentinels make a replica the primary, and Comporta follows.

use std::time::Duration;

use super::change::{Change, TIMEOUT};
use super::changed::Changed;
use super::fleet::Fleet;
use super::healthy::callers;
use super::history::Answer;
use super::limit::Limit;
use super::load::Load;
use super::timeline::Timeline;
use crate::harness::{Flavour, SERVICE, SentinelSetup, Sentinels, free_address, wait_for};

const LIMIT: Limit = Limit::tokens(150, 1);

/// How soon a new primary is used. Of this the Sentinels take a second or two to tell each other.
const SOON: Duration = Duration::from_secs(5);

/// Kills the primary under load.
fn kill_primary(name: &str, sentinels: &mut Sentinels, flags: Vec<String>, limit: Limit) -> Changed {
    let change = Change::begin(name, flags, limit);
    sentinels.servers.kill_primary();
    sentinels.servers.wait_for_new_primary();
    let changed = change.end(sentinels.servers.primary());
    changed.assert_survived(SOON);
    assert!(changed.fallback_meanwhile > 0, "nothing was decided without a primary: {}", changed.all.figures);
    changed
}

#[test]
fn a_redis_that_is_killed_is_replaced() {
    let mut sentinels = SentinelSetup::new(Flavour::Redis).start();
    let flags = sentinels.flags();
    kill_primary("Redis, killed", &mut sentinels, flags, LIMIT.or_local());
}

#[test]
fn an_old_redis_that_is_killed_is_replaced() {
    let mut sentinels = SentinelSetup::new(Flavour::OldRedis).start();
    let flags = sentinels.flags();
    let changed = kill_primary("old Redis, killed", &mut sentinels, flags, LIMIT);
    changed.assert_one_burst_more_at_most();
}

#[test]
fn a_valkey_that_is_killed_is_replaced() {
    let mut sentinels = SentinelSetup::new(Flavour::Valkey).password("secret").sentinel_password("hush").start();
    let flags = sentinels.flags();
    let changed = kill_primary("Valkey with passwords, killed", &mut sentinels, flags, LIMIT);
    changed.assert_one_burst_more_at_most();
}

#[test]
fn a_primary_that_hangs_is_replaced() {
    let mut sentinels = SentinelSetup::new(Flavour::Redis).start();
    let change = Change::begin("hangs", sentinels.flags(), LIMIT);
    sentinels.servers.primary().pause();
    sentinels.servers.wait_for_new_primary();
    let changed = change.end(sentinels.servers.primary());
    changed.assert_survived(SOON);
    changed.assert_one_burst_more_at_most();
}

#[test]
fn a_planned_failover_is_followed() {
    let mut sentinels = SentinelSetup::new(Flavour::Redis).start();
    let change = Change::begin("planned failover", sentinels.flags(), LIMIT);
    sentinels.fail_over();
    sentinels.servers.wait_for_new_primary();
    let changed = change.end(sentinels.servers.primary());
    changed.assert_survived(SOON);
    // The old one can be written to until the Sentinels tell that it is no more the primary, and some seconds longer.
    changed.assert_two_primaries_at_most();
}

#[test]
fn an_old_primary_that_comes_back_is_noticed_by_nobody() {
    let mut sentinels = SentinelSetup::new(Flavour::Redis).start();
    sentinels.servers.kill_primary();
    sentinels.servers.wait_for_new_primary();
    sentinels.wait_until_told([0, 1, 2]);
    let change = Change::begin("the old primary comes back", sentinels.flags(), LIMIT);
    sentinels.servers.restart_killed();
    // It holds itself for the primary at first.
    sentinels.servers.wait_until_in_sync();
    let changed = change.end(sentinels.servers.primary());
    changed.assert_unnoticed();
}

#[test]
fn a_sentinel_that_is_behind_leads_nobody_back() {
    let mut sentinels = SentinelSetup::new(Flavour::Redis).start();
    sentinels.watcher(2).kill();
    sentinels.servers.kill_primary();
    sentinels.servers.wait_for_new_primary();
    sentinels.wait_until_told([0, 1]);
    let change = Change::begin("the only Sentinel that answers is behind", sentinels.flags(), LIMIT);
    sentinels.watcher(0).pause();
    sentinels.watcher(1).pause();
    sentinels.watcher(2).restart();
    let changed = change.end(sentinels.servers.primary());
    assert!(!sentinels.is_up_to_date(2), "nobody has told it of the new primary");
    changed.assert_unnoticed();
}

#[test]
fn one_sentinel_that_hangs_and_one_that_is_not_there_are_passed_over() {
    let setup = SentinelSetup::new(Flavour::Redis);
    let url = setup.url(&[vec![free_address()], setup.sentinel_addresses()].concat(), SERVICE);
    let mut sentinels = setup.start();
    sentinels.watcher(0).pause();
    let flags = vec!["--redis-url".to_owned(), url];
    kill_primary("two of four Sentinels answer", &mut sentinels, flags, LIMIT);
}

#[test]
fn a_service_that_the_sentinels_do_not_know_is_told() {
    let setup = SentinelSetup::new(Flavour::Redis).password("secret").sentinel_password("hush");
    let mut flags = setup.flags();
    flags[1] = setup.url(&setup.sentinel_addresses(), "nobody");
    let _sentinels = setup.start();
    let warnings = warnings_in_vain(flags);
    assert!(warnings.contains("nobody"), "the service is not named: {warnings}");
    assert!(!warnings.contains("secret") && !warnings.contains("hush"), "a password is told: {warnings}");
}

#[test]
fn sentinels_that_want_a_password_are_told_apart_from_the_primary() {
    let setup = SentinelSetup::new(Flavour::Redis).sentinel_password("hush");
    let url = setup.url(&setup.sentinel_addresses(), SERVICE);
    let _sentinels = setup.start();
    let warnings = warnings_in_vain(vec!["--redis-url".to_owned(), url]);
    assert!(warnings.contains("--redis-sentinel-auth"), "the setting is not named: {warnings}");
}

/// Asks a replica that finds no primary. Its failure mode decides, and it tells why, but not again and again.
fn warnings_in_vain(flags: Vec<String>) -> String {
    let fleet = Fleet::with_timeout(TIMEOUT, flags, 1, &[LIMIT.or_local()]);
    let load = Load::start(Timeline::begin(), fleet.targets(), callers(50).to_vec(), Duration::from_secs(2));
    let history = load.history();
    assert_eq!(history.count(Answer::Failed), 0);
    assert!(history.admitted(|_| true) > 0, "the failure mode admits");
    let logs = fleet.logs();
    let warnings: Vec<_> = logs[0].lines().filter(|line| line.contains(" WARN ")).collect();
    let hindrances = warnings.iter().filter(|line| line.contains("Sentinel")).count();
    // By who connects, and by who decides.
    assert!((1..=2).contains(&hindrances), "it is told {hindrances} times: {}", logs[0]);
    warnings.join("\n")
}

#[test]
fn sentinels_that_come_late_are_used_without_a_restart() {
    let setup = SentinelSetup::new(Flavour::Redis).password("secret").sentinel_password("hush");
    // As envoyproxy/ratelimit has it.
    let addresses: Vec<_> = setup.sentinel_addresses().iter().map(ToString::to_string).collect();
    let list = format!("{SERVICE},{}", addresses.join(","));
    let flags = ["--redis-type", "sentinel", "--redis-url", &list];
    let logins = ["--redis-auth", "secret", "--redis-sentinel-auth", "hush"];
    let flags = flags.into_iter().chain(logins).map(str::to_owned);
    let _fleet = Fleet::with_timeout(TIMEOUT, flags, 1, &[LIMIT]);
    let sentinels = setup.start();
    wait_for("Comporta to use the primary", || (sentinels.servers.primary().script_users() == 1).then_some(()));
}

//! A shard without a replica dies, and comes back empty.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use super::super::figures::Figures;
use super::super::fleet::Fleet;
use super::super::history::{Asked, History};
use super::super::load::Load;
use super::super::timeline::{Timeline, micros};
use super::{LIMIT, PATIENCE, assert_no_call_crossed_slots, busiest_shard, callers_of_all_keys, flags};
use crate::harness::{ClusterSetup, Flavour};

/// So soon after the Cluster is whole again it must be used.
const USED_AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// What was asked before, while and after a node was away.
struct Outcome {
    history: History,
    /// The keys of the one that was away.
    dead: BTreeSet<u32>,
    killed: u64,
    /// From now on all must be served.
    healed: u64,
    /// Of the limit, over the whole run, for the keys of the other shards.
    figures_of_others: Figures,
}

fn run_while_one_node_is_away(name: &str, setup: ClusterSetup) -> Outcome {
    let mut cluster = setup.soon_missed().start();
    let fleet = Fleet::with_timeout(PATIENCE, flags(cluster.setup()), 2, &[LIMIT]);
    let (victim, dead) = busiest_shard(&cluster);
    let timeline = Timeline::begin();
    let load = Load::start(timeline, fleet.targets(), callers_of_all_keys(250), Duration::from_secs(60));
    sleep(Duration::from_millis(1500));
    let killed = timeline.rounded_down();
    cluster.kill_node(victim);
    cluster.wait_until_missed(victim);
    // So long that no request waits any more that came before, and that nothing borrowed is left.
    sleep(Duration::from_secs(2));
    let restarted = timeline.rounded_down();
    cluster.restart_node(victim);
    cluster.wait_until_whole();
    let healed = timeline.rounded_up() + micros(USED_AGAIN_WITHIN);
    sleep(USED_AGAIN_WITHIN + Duration::from_secs(1));
    let history = load.stop();

    let is_dead = |asked: &Asked| dead.contains(&asked.key);
    let figures_of_others =
        Figures::of(format!("{name}, the others"), &history.part(|a| !is_dead(a)), &[LIMIT], &fleet);
    figures_of_others.assert_exact();
    // The shard has forgotten what was used, so its limits are judged anew.
    for (when, part) in [
        ("before", history.part(|asked| is_dead(asked) && asked.answered <= killed)),
        ("after", history.part(|asked| is_dead(asked) && asked.sent >= restarted)),
    ] {
        let figures = Figures::of(format!("{name}, the dead shard {when}"), &part, &[LIMIT], &fleet);
        figures.assert_exact();
        assert!(figures.hits_admitted > 50, "the shard was used: {figures}");
    }
    assert_no_call_crossed_slots(&cluster);
    Outcome { history, dead, killed, healed, figures_of_others }
}

impl Outcome {
    fn failed(&self, which: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let failed = |asked: &Asked| asked.answer.is_failure() && which(asked);
        self.history.part(failed).asked
    }

    /// All was well before the node died, and some time after it came back.
    fn assert_failed_only_meanwhile(&self) {
        let strange = self.failed(|asked| asked.answered <= self.killed || asked.sent >= self.healed);
        assert!(strange.is_empty(), "{} requests had no reason to fail, the last: {:?}", strange.len(), strange.last());
    }
}

#[test]
fn a_dead_shard_takes_nothing_from_the_others_if_these_go_on() {
    let outcome =
        run_while_one_node_is_away("partial coverage", ClusterSetup::new(Flavour::Redis).with_partial_coverage());
    outcome.assert_failed_only_meanwhile();
    assert_eq!(outcome.figures_of_others.failed, 0, "{}", outcome.figures_of_others);
    let of_dead = outcome.failed(|asked| outcome.dead.contains(&asked.key));
    assert!(of_dead.len() > 20, "the keys of the dead shard follow their failure mode");
}

#[test]
fn a_cluster_that_stops_for_a_dead_shard_is_used_again_when_it_is_whole() {
    let outcome = run_while_one_node_is_away("full coverage", ClusterSetup::new(Flavour::Valkey));
    outcome.assert_failed_only_meanwhile();
    let of_others = outcome.failed(|asked| !outcome.dead.contains(&asked.key));
    assert!(of_others.len() > 20, "all keys follow their failure mode while the Cluster is down");
}

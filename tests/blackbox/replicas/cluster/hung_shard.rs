//! A shard says nothing for a while, and keeps its connections.

use std::thread::sleep;
use std::time::Duration;

use super::super::figures::Figures;
use super::super::fleet::Fleet;
use super::super::history::Asked;
use super::super::load::Load;
use super::super::timeline::{Timeline, micros};
use super::{LIMIT, PATIENCE, busiest_shard, callers_of_all_keys, flags};
use crate::harness::{Cluster, Flavour};

/// What waits for the shard when it goes on is answered by then.
const USED_AGAIN_WITHIN: Duration = Duration::from_secs(1);

#[test]
fn a_shard_that_hangs_takes_nothing_from_the_others_and_forgets_nothing() {
    let cluster = Cluster::start(Flavour::Redis);
    let fleet = Fleet::with_timeout(PATIENCE, flags(cluster.setup()), 2, &[LIMIT]);
    let (victim, hung) = busiest_shard(&cluster);
    let timeline = Timeline::begin();
    let load = Load::start(timeline, fleet.targets(), callers_of_all_keys(250), Duration::from_secs(60));
    sleep(Duration::from_secs(1));
    let paused = timeline.rounded_down();
    cluster.node(victim).pause();
    sleep(Duration::from_millis(2500));
    cluster.node(victim).resume();
    let used_again = timeline.rounded_up() + micros(USED_AGAIN_WITHIN);
    sleep(USED_AGAIN_WITHIN + Duration::from_secs(1));
    let history = load.stop();

    // Calls that were given up for their requests are done later all the same, and each of them once.
    Figures::of("a shard hangs", &history, &[LIMIT], &fleet).assert_exact();
    let is_hung = |asked: &Asked| hung.contains(&asked.key);
    let failed = |which: &dyn Fn(&Asked) -> bool| history.part(which).failures();
    assert_eq!(failed(&|asked| !is_hung(asked)), 0, "the other shards were there all the time");
    assert_eq!(failed(&|asked| asked.answered <= paused || asked.sent >= used_again), 0);
    assert!(failed(&is_hung) > 20, "the keys of the hung shard follow their failure mode");
}

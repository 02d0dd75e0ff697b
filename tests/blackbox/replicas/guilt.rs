//! The checker must find who breaks the limit: replicas that do not share one.

use std::time::Duration;

use super::figures::Figures;
use super::fleet::Fleet;
use super::limit::Limit;
use super::load::{Caller, Load};
use super::timeline::Timeline;

fn figures_without_redis(replicas: usize, limit: Limit) -> Figures {
    let fleet = Fleet::without_redis(replicas, &[limit]);
    let load = Load::start(Timeline::begin(), fleet.targets(), vec![Caller::open(400)], Duration::from_secs(2));
    Figures::of(format!("{replicas} alone, {limit:?}"), &load.history(), &[limit], &fleet)
}

#[test]
fn replicas_that_each_count_alone_are_found_guilty() {
    for limit in [Limit::tokens(100, 1), Limit::window(100, 1)] {
        let figures = figures_without_redis(2, limit);
        assert!(figures.excess() > 40.0, "each admits the whole limit: {figures}");
    }
}

#[test]
fn a_replica_that_is_alone_keeps_the_limit() {
    for limit in [Limit::tokens(100, 1), Limit::window(100, 1)] {
        let figures = figures_without_redis(1, limit);
        figures.assert_exact();
        assert!(figures.excess() > -10.0, "the checker is not blind: {figures}");
    }
}

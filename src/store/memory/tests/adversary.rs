//! Attacks on the token bucket that all replicas share: random calls with arbitrary delays, facts that come late and out
//! of order, edges of epochs, clocks that go back, limits that change, replicas that want all there is and spend it in the
//! last instant of its lease.
//!
//! What must hold whatever they do: in every interval, no more is admitted than the burst and what flows back meanwhile.
//! Three stores that are known to be wrong show that the attack would find it.

mod admissions;
mod trial;
mod wrong;

use std::env;

use trial::{Faults, Trial};
use wrong::{FactsFirst, NoPieces, TimeKept};

use super::super::MemoryStore;
use crate::limit::Micros;
use crate::store::{Reply, StoreCall};

/// A store under attack, with one bucket.
trait Store: Default {
    fn serve(&mut self, call: &StoreCall, now: Micros) -> Reply;
}

impl Store for MemoryStore {
    fn serve(&mut self, call: &StoreCall, now: Micros) -> Reply {
        self.serve(call, now)
    }
}

/// Attacks a new store in each of many trials. Returns in how many of them too much was admitted.
fn attack<S: Store>(name: &str, faults: Faults) -> u32 {
    let trials: u32 = if env::var_os("COMPORTA_SOAK").is_some() { 20_000 } else { 2_000 };
    let (mut found, mut worst) = (0, i128::MIN);
    for seed in 0..trials {
        let excess = Trial::<S>::new(seed.into(), faults).run();
        found += u32::from(excess > 0);
        worst = worst.max(excess);
    }
    eprintln!("{name}, {faults:?}: too much in {found} of {trials} trials, at worst {worst} millionths");
    found
}

#[test]
fn no_attack_gets_more_than_the_burst_and_what_flows_back() {
    let none = Faults::default();
    let all = Faults { clock: true, limit: true, special: true };
    for faults in
        [none, Faults { clock: true, ..none }, Faults { limit: true, ..none }, Faults { special: true, ..none }, all]
    {
        assert_eq!(attack::<MemoryStore>("the store", faults), 0, "{faults:?}");
    }
}

#[test]
fn a_store_that_settles_in_one_piece_is_found_out() {
    assert!(attack::<NoPieces>("no pieces", Faults::default()) > 0);
}

#[test]
fn a_store_that_learns_before_it_settles_is_found_out() {
    assert!(attack::<FactsFirst>("facts first", Faults::default()) > 0);
}

#[test]
fn a_store_that_keeps_the_time_in_which_nothing_could_flow_back_is_found_out() {
    assert!(attack::<TimeKept>("time kept", Faults::default()) > 0);
}

//! Many replicas, one store, and a virtual clock: the engine's real code in a world in which everything goes wrong that
//! can, and in which every run can be repeated from its seed.
//!
//! A [`World`](world::World) is what a replica's process, its network and its store's server are in production. What it
//! finds is held against [one central bucket](measure::Central), and against the promise that no interval admits more
//! than the limit allows ([`Record`](measure::Record)).

mod cases;
mod faults;
mod layout;
mod ledger;
mod measure;
mod network;
mod plan;
mod promises;
mod random;
mod schedules;
mod traffic;
mod world;

use super::*;

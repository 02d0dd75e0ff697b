//! The scripts of `lua/` on real servers, two versions of Redis and Valkey, step by step against the model and against the script that
//! was checked first. Here tests say what time it is.

mod as_run;
mod equal_to_model;
mod equal_to_reference;
mod schedules;
mod steps;
mod watched;

use std::env;

use crate::harness::{Flavour, Redis, RedisSetup};

/// How many random steps a test takes on each server: many more in `scripts/soak`.
fn step_count() -> u32 {
    if is_soak() { 1_000_000 } else { 60_000 }
}

fn is_soak() -> bool {
    env::var_os("COMPORTA_SOAK").is_some()
}

fn start(flavour: Flavour) -> Redis {
    RedisSetup::new().on_socket().flavour(flavour).start()
}

//! The scripts of `lua/` on real servers, Redis and Valkey, step by step against the model and against the script that
//! was checked first. Here tests say what time it is.

mod equal_to_model;
mod server;
mod steps;
mod watched;

use std::env;

/// How many random steps a test takes on each server: many more in `scripts/soak`.
fn step_count() -> u32 {
    if env::var_os("COMPORTA_SOAK").is_some() { 1_000_000 } else { 60_000 }
}

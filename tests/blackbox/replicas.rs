//! Several replicas share one Redis, under load and while things go wrong: no limit is ever exceeded, and hardly anything
//! that may pass is refused.
//!
//! What was asked and answered is kept, with its times, as a [`history`]; the [`checker`] then proves of all intervals at
//! once that no more was admitted in any of them than the limit allows.

mod calls;
mod central;
mod change;
mod changed;
mod checker;
mod checker_tests;
mod cluster;
mod demotion;
mod fault_table;
mod faults;
mod figures;
mod fleet;
mod guilt;
mod healthy;
mod history;
mod limit;
mod load;
mod sentinel;
mod soak;
mod timeline;

/// Whether there is time for the long runs. The others take some minutes.
fn is_soak() -> bool {
    std::env::var_os("COMPORTA_SOAK").is_some_and(|value| value == "1")
}

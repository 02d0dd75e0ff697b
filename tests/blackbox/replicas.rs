//! Several replicas share one Redis, under load and while things go wrong: no limit is ever exceeded, and hardly anything
//! that may pass is refused.
//!
//! What was asked and answered is kept, with its times, as a [`history`]; the [`checker`] then proves of all intervals at
//! once that no more was admitted in any of them than the limit allows.

mod central;
mod checker;
mod history;
mod limit;
mod load;
mod random;
mod timeline;

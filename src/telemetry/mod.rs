//! What the service tells about itself.

mod histogram;
pub mod log;
pub mod metrics;
pub mod trace;

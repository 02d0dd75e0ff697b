//! What the service tells about itself.

pub mod log;
pub mod metrics;

//! Comporta: an external rate-limit service for Envoy.
pub mod limit;
pub mod policy;

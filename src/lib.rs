//! Comporta: an external rate-limit service for Envoy.
//!
//! The house, from the bottom up; each module knows only those before it:
//!
//! * [`measure`]: counters and times;
//! * [`limit`]: the arithmetic of limits, pure;
//! * [`clock`]: the one clock;
//! * [`request`]: what Envoy asks;
//! * [`cause`]: which traced request has caused a call;
//! * [`policy`]: which limits there are, and which of them a request finds;
//! * [`store`]: the tier that replicas share, in Redis;
//! * [`engine`]: the buckets, what is borrowed, and the decision;
//! * [`trace`]: what is traced of requests and calls;
//! * [`replica`]: an engine with its store and its clock;
//! * [`tls`]: TLS on our own ports;
//! * [`settings`]: what the process is told;
//! * [`telemetry`]: log and metrics;
//! * [`server`]: gRPC, HTTP and the operators' port;
//! * [`cli`]: the command line.
//!
//! `docs/architecture.md` follows a request through them and says why they are as they are.

pub mod breaker;
pub mod cause;
pub mod cli;
pub mod clock;
pub mod engine;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod limit;
pub mod measure;
mod pem;
mod percent;
pub mod policy;
mod random;
pub mod replica;
pub mod request;
pub mod server;
pub mod settings;
mod small_file;
pub mod store;
pub mod telemetry;
mod throttle;
pub mod tls;
pub mod trace;

//! The service as its users meet it: the real binary, started on loopback ports, asked over gRPC, over HTTP and through
//! a real Envoy. One test binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these tests wait for real processes, in real time")]

mod both_tiers;
mod cardinality;
mod cli;
mod conformance;
mod connections;
mod envoy;
mod exhaustion;
mod faces;
mod failure_modes;
mod function;
mod grpc;
mod harness;
mod istio;
mod json;
mod kubernetes;
mod logs;
mod metadata;
mod metrics;
mod redis_store;
mod reload;
mod replicas;
mod rolling;
mod shadow;
mod shutdown;
mod stack;
mod store_scripts;
mod tls;
mod traces;
mod wrong_protocol;

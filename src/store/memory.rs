//! The store's side of the buckets, in memory: what the scripts in `lua/` do, in Rust.

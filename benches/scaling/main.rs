//! How the store scales.
//!
//!     cargo bench --bench scaling                       all of it: a quarter of an hour
//!     cargo bench --bench scaling -- traffic keys       some parts
//!     cargo bench --bench scaling -- redis cluster      only what needs `redis-server`
//!
//! docs/scaling.md tells what it means, and has the tables that this prints.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod calls;
#[path = "../../tests/blackbox/replicas/checker.rs"]
mod checker;
mod cluster;
mod drive;
mod fleet;
mod one_redis;
#[path = "../fixture/pacer.rs"]
mod pacer;
#[path = "../fixture/policy.rs"]
mod policy;
#[path = "../fixture/process.rs"]
mod process;
#[path = "../fixture/redis_server.rs"]
mod redis_server;
#[path = "../fixture/request.rs"]
mod request;
mod scenes;
mod servers;
mod table;
mod traffic;
#[path = "../fixture/usage.rs"]
mod usage;
mod work;

use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use comporta::server::BoxError;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PARTS: [&str; 9] = ["traffic", "keys", "usage", "units", "little", "settings", "million", "redis", "cluster"];

#[derive(Debug, Parser)]
struct Arguments {
    /// What to measure [default: all]
    #[arg(value_parser = PossibleValuesParser::new(PARTS))]
    parts: Vec<String>,

    /// Virtual seconds in which replicas warm up, and the fewest in which their calls are counted
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    virtual_seconds: u64,

    /// Length of each measured part of a row, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// Keys where there are many
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    keys: u32,
}

fn main() -> Result<(), BoxError> {
    // Cargo adds an argument of its own.
    let arguments = Arguments::parse_from(std::env::args().filter(|argument| argument != "--bench"));
    let is_wanted = |part: &str| arguments.parts.is_empty() || arguments.parts.iter().any(|wanted| wanted == part);
    calls::print(is_wanted, arguments.virtual_seconds)?;
    let time = Duration::from_secs(arguments.seconds);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        if is_wanted("redis") {
            one_redis::print(arguments.keys as usize, time).await?;
        }
        if is_wanted("cluster") {
            cluster::print(time).await?;
        }
        Ok(())
    })
}

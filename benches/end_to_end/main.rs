//! What the service costs beyond gRPC: requests go to a server that answers at once, and to the service itself, in turn.
//!
//!     cargo bench --bench end_to_end                          every case, three pairs of runs each
//!     cargo bench --bench end_to_end -- --pairs 10 lease      the cases whose names have `lease` in them
//!     cargo bench --bench end_to_end -- --against PROGRAM     another build of the service instead of the null server
//!     cargo bench --bench end_to_end -- --json FILE           keeps every run
//!     cargo bench --bench end_to_end -- --compare OLD NEW     what two such files say
//!
//! docs/performance.md tells how to read what it prints. It needs `redis-server`.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod cases;
mod compare;
mod figures;
mod load;
mod null_server;
#[path = "../fixture/pacer.rs"]
mod pacer;
#[path = "../fixture/process.rs"]
mod process;
mod processors;
#[path = "../fixture/redis_server.rs"]
mod redis_server;
mod rival;
mod run;
#[path = "../fixture/usage.rs"]
mod usage;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::available_parallelism;

use clap::Parser;
use comporta::server::BoxError;

use cases::Case;
use figures::{CaseReport, Report};
use processors::Processors;
use rival::{Rival, Servers};
use run::Runs;

#[derive(Debug, Parser)]
struct Arguments {
    /// Only cases whose names have one of these in them
    cases: Vec<String>,

    /// Runs of each server, in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,

    /// Length of each of a run's two measured parts, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// Requests a second while latencies are measured
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,

    /// Worker threads of both servers [default: one for each processor]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// The service to measure [default: the one that is built with this benchmark]
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,

    /// A build of the service to compare with, instead of the null server
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,

    /// Write every run to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Measure nothing: compare two files of --json
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"])]
    compare: Option<Vec<PathBuf>>,

    /// Be the null server, on this address
    #[arg(long, hide = true)]
    null_server: Option<SocketAddr>,

    /// Be one that refuses
    #[arg(long, hide = true)]
    refuse: bool,
}

fn main() -> Result<(), BoxError> {
    // Cargo adds an argument of its own.
    let arguments = Arguments::parse_from(std::env::args().filter(|argument| argument != "--bench"));
    let processors = available_parallelism()?.get();
    let threads = arguments.threads.map_or(processors, usize::from);
    if let Some(address) = arguments.null_server {
        return serve_nothing(address, threads, arguments.refuse);
    }
    if let Some([old, new]) = arguments.compare.as_deref() {
        return compare::print(&read(old)?, &read(new)?);
    }
    let server = arguments.server.unwrap_or_else(|| env!("CARGO_BIN_EXE_comporta").into());
    let servers = Servers {
        baseline: arguments.against.map_or(Rival::NullServer, Rival::Service),
        measured: Rival::Service(server),
        threads,
        processors: Processors::of(threads, processors),
    };
    let runs = Runs { seconds: arguments.seconds, rate: arguments.rate };
    let mut report = Report {
        baseline: servers.baseline.to_string(),
        measured: servers.measured.to_string(),
        processors,
        threads,
        seconds: arguments.seconds,
        rate: arguments.rate,
        cases: Vec::new(),
    };
    print!("{report}");
    for case in Case::all().into_iter().filter(|case| case.is_among(&arguments.cases)) {
        let mut case_report = CaseReport { name: case.name.clone(), baseline: Vec::new(), measured: Vec::new() };
        for pair in 0..arguments.pairs {
            let baseline = || runs.measure(&servers, &servers.baseline, &case);
            let measured = || runs.measure(&servers, &servers.measured, &case);
            // What the machine does meanwhile favours neither, if each goes first as often as the other.
            let (baseline, measured) = if pair % 2 == 0 {
                let baseline = baseline()?;
                (baseline, measured()?)
            } else {
                let measured = measured()?;
                (baseline()?, measured)
            };
            case_report.baseline.push(baseline);
            case_report.measured.push(measured);
        }
        print!("{case_report}");
        report.cases.push(case_report);
    }
    if let Some(path) = arguments.json {
        fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

/// Is the null server until it is killed.
fn serve_nothing(address: SocketAddr, threads: usize, is_refusing: bool) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let service = null_server::service(is_refusing);
    Ok(runtime.block_on(tonic::transport::Server::builder().add_service(service).serve(address))?)
}

fn read(path: &PathBuf) -> Result<Report, BoxError> {
    let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

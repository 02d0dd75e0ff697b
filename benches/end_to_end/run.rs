//! One run of one server.

use std::time::Duration;

use comporta::server::BoxError;
use procfs::process::Process;
use rustix::process::getpid;

use super::cases::Case;
use super::figures::Figures;
use super::load::Client;
use super::rival::{Rival, Servers};
use super::usage::Usage;

/// How long a server is asked before it is measured.
const WARM_UP: Duration = Duration::from_secs(1);

/// The places of the server and of Redis, if there is one, among the processes that are counted; between them is this one.
const SERVER: usize = 0;
const STORE: usize = 2;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    pub(crate) seconds: u64,
    pub(crate) rate: u64,
}

impl Runs {
    /// Starts a server, asks it as fast as it answers, then at a fixed rate, and ends it.
    pub(crate) fn measure(&self, servers: &Servers, rival: &Rival, case: &Case) -> Result<Figures, BoxError> {
        let server = servers.start(rival, case)?;
        let client = Client::connect(server.address, case.requests.clone())?;
        client.ask_all_the_time(WARM_UP)?;
        let store = if let Some(store) = &server.store { Some(store.id()?) } else { None };
        let processes: Vec<_> = [server.process.id()?, getpid().as_raw_pid()].into_iter().chain(store).collect();
        let time = Duration::from_secs(self.seconds);
        let begin = Usage::until_now(&processes)?;
        let busiest = client.ask_all_the_time(time)?;
        let middle = Usage::until_now(&processes)?;
        let paced = client.ask_at(self.rate, time)?;
        let end = Usage::until_now(&processes)?;
        for tally in [&busiest, &paced] {
            let unexpected = if case.is_refused { tally.ok } else { tally.over_limit };
            if unexpected > 0 {
                return Err(format!("{rival} gave {unexpected} answers of the wrong kind to {}", case.name).into());
            }
        }
        let (spent, spent_at_rate, spent_in_all) = (middle.since(&begin), end.since(&middle), end.since(&begin));
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let (answers, answers_at_rate, percentile) = (busiest.answers() as f64, paced.answers() as f64, |percent| {
            paced.latencies.value_at_percentile(percent) as f64
        });
        Ok(Figures {
            requests_per_second: answers / busiest.seconds,
            processor_seconds: spent.processes[SERVER] * 1e6 / answers,
            processor_seconds_at_rate: spent_at_rate.processes[SERVER] * 1e6 / answers_at_rate,
            p50: percentile(50.0),
            p99: percentile(99.0),
            p999: percentile(99.9),
            peak_memory: peak_memory(server.process.id()?)?,
            store_seconds: spent.processes.get(STORE).map(|seconds| seconds * 1e6 / answers),
            others: spent_in_all.others / (busiest.seconds + paced.seconds),
        })
    }
}

/// The most memory that a process has had resident, in MB of a million bytes.
fn peak_memory(process: i32) -> Result<f64, BoxError> {
    let kilobytes =
        Process::new(process)?.status()?.vmhwm.ok_or("the kernel does not tell the peak of resident memory")?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    Ok(kilobytes as f64 * 1024.0 / 1e6)
}

use std::fmt;

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo, boot_time_secs, ticks_per_second};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Families;

/// What the kernel says of this process, under the names that all of Prometheus's clients use.
#[derive(Debug)]
pub(super) struct ProcessCollector;

struct Figures {
    cpu_seconds: f64,
    start_time: f64,
    resident_bytes: u64,
    threads: u64,
    open_fds: u64,
    max_fds: u64,
}

impl Figures {
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let max_fds = match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(most) => most,
            LimitValue::Unlimited => u64::MAX,
        };
        Ok(Self {
            cpu_seconds: seconds(stat.utime + stat.stime),
            start_time: seconds(stat.starttime) + seconds(boot_time_secs()? * ticks_per_second()),
            resident_bytes: stat.rss_bytes().get(),
            threads: u64::try_from(stat.num_threads).unwrap_or_default(),
            open_fds: process.fd_count()? as u64,
            max_fds,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / ticks_per_second() as f64
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Where there is no /proc, there are no figures of the process.
        let Ok(figures) = Figures::read() else { return Ok(()) };
        let mut families = Families(&mut encoder);
        families.counter("cpu_seconds", "Time that the process has used of CPUs")?.only(figures.cpu_seconds)?;
        families
            .gauge("start_time_seconds", "When the process began, since the Unix epoch")?
            .only(figures.start_time)?;
        families.gauge("resident_memory_bytes", "Memory that the process has")?.only(figures.resident_bytes)?;
        families.gauge("threads", "Threads of the process")?.only(figures.threads)?;
        families.gauge("open_fds", "Files and connections that are open")?.only(figures.open_fds)?;
        families.gauge("max_fds", "Files and connections that may be open")?.only(figures.max_fds)
    }
}

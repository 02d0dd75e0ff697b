//! Asks, as often as it can or at a rate, and notes what it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use comporta::clock::Clock;
use comporta::limit::Micros;
use comporta::server::BoxError;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use rustix::process::getpid;
use tokio::task::JoinSet;

use super::pacer::{ask_at, no_latencies};
use super::usage::Usage;
use super::work::Work;

/// What a part of a run has taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    /// In microseconds.
    pub(crate) latencies: Histogram<u64>,
    /// Seconds of a processor, of all servers together.
    pub(crate) servers: f64,
    /// Of this process: of the store's client, and of whoever asks it. At a rate it lacks what a thread took that has ended.
    pub(crate) client: f64,
    /// Processors that had other things to do, on average.
    pub(crate) others: f64,
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
impl Taken {
    pub(crate) fn calls_a_second(&self) -> f64 {
        self.calls as f64 / self.seconds
    }

    /// Microseconds of a processor that all servers together take for a call.
    pub(crate) fn server_micros(&self) -> f64 {
        self.servers * 1e6 / self.calls as f64
    }

    pub(crate) fn client_micros(&self) -> f64 {
        self.client * 1e6 / self.calls as f64
    }

    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64
    }
}

/// Keeps so many questions under way.
pub(crate) async fn as_often_as_possible(
    work: &Arc<impl Work>,
    under_way: usize,
    time: Duration,
    servers: &[i32],
) -> Result<Taken, BoxError> {
    measured(servers, async |clock, latencies| {
        let end = clock.now().monotonic + Micros::from(time);
        let mut tasks = JoinSet::new();
        for _ in 0..under_way {
            let (work, clock, latencies) = (Arc::clone(work), Arc::clone(clock), Arc::clone(latencies));
            tasks.spawn(async move {
                let mut begin = clock.now().monotonic;
                while begin < end {
                    work.ask().await?;
                    let now = clock.now().monotonic;
                    latencies.lock().saturating_record((now - begin).0);
                    begin = now;
                }
                Ok(())
            });
        }
        all_of(tasks).await
    })
    .await
}

/// Asks so many times in all, as often as it can.
pub(crate) async fn so_often(work: &Arc<impl Work>, under_way: usize, count: u64) -> Result<(), BoxError> {
    let left = Arc::new(AtomicU64::new(count));
    let mut tasks = JoinSet::new();
    for _ in 0..under_way {
        let (work, left) = (Arc::clone(work), Arc::clone(&left));
        tasks.spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                work.ask().await?;
            }
            Ok(())
        });
    }
    all_of(tasks).await
}

/// Asks so many times a second, whatever the answers: latencies count from when a question was due.
pub(crate) async fn at_a_rate(
    work: &Arc<impl Work>,
    rate: u64,
    time: Duration,
    servers: &[i32],
) -> Result<Taken, BoxError> {
    measured(servers, async |clock, latencies| {
        let mut tasks = JoinSet::new();
        ask_at(clock, rate, time, |due, place| {
            let (asking, clock, latencies) = (work.ask(), Arc::clone(clock), Arc::clone(latencies));
            tasks.spawn(async move {
                asking.await?;
                latencies.lock().saturating_record((clock.now().monotonic - due).0);
                drop(place);
                Ok(())
            });
            while let Some(done) = tasks.try_join_next() {
                done??;
            }
            Ok(())
        })
        .await?;
        all_of(tasks).await
    })
    .await
}

type Latencies = Arc<Mutex<Histogram<u64>>>;

async fn measured(
    servers: &[i32],
    run: impl AsyncFnOnce(&Arc<Clock>, &Latencies) -> Result<(), BoxError>,
) -> Result<Taken, BoxError> {
    let processes: Vec<_> = std::iter::once(getpid().as_raw_pid()).chain(servers.iter().copied()).collect();
    let clock = Arc::new(Clock::start());
    let latencies = Arc::new(Mutex::new(no_latencies()?));
    let before = Usage::until_now(&processes)?;
    let begin = clock.read();
    run(&clock, &latencies).await?;
    let seconds = begin.elapsed().as_secs_f64();
    let spent = Usage::until_now(&processes)?.since(&before);
    let latencies = latencies.lock().clone();
    let (client, servers) = (spent.processes[0], spent.processes[1..].iter().sum());
    Ok(Taken { calls: latencies.len(), seconds, latencies, servers, client, others: spent.others / seconds })
}

async fn all_of(mut tasks: JoinSet<Result<(), BoxError>>) -> Result<(), BoxError> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

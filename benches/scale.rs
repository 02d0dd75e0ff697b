//! Ten million live buckets: memory, times, the sweep's pauses, and what comes of more keys than there is room for; and
//! what those take whose hits are borrowed, of which there are a tenth as many.
//!
//!     cargo bench --bench scale                   takes about a minute and 1 GB
//!     cargo bench --bench scale -- 1000000        with so many buckets
//!
//! Memory is what the process grows by, everything counted, with the allocator that the server has. That does not see what
//! grows into memory that was free before: so whatever is filled stays until all is measured that grows.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a benchmark stops when it cannot run, and prints")]

#[path = "fixture/memory.rs"]
mod memory;
#[path = "fixture/policy.rs"]
mod policy;
#[path = "fixture/request.rs"]
mod request;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use comporta::clock::Clock;
use comporta::engine::{Engine, EngineSettings};
use comporta::limit::{Micros, Now};
use comporta::request::RateLimitRequest;
use comporta::store::memory::MemoryStore;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use memory::resident_bytes;
use policy::policy;
use request::request;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Requests that are made before they are timed. There are few, because their memory counts as that of buckets.
const BATCH: usize = 10_000;

/// The most keys that are asked for a second time.
const MOST_HIT: usize = 5_000_000;

/// Keys that come when there is no room.
const FLOOD: usize = 1_000_000;

/// Keys that are asked for in turn while decisions are timed one by one.
const WATCHED_KEYS: usize = 100_000;

/// How often the service sweeps a part of its table, and how many parts that has.
const SWEEP_EVERY: Duration = Duration::from_millis(10);
const SWEEP_PARTS: usize = 1_000;

/// How long decisions are timed with and without a sweep.
const WATCHED: Duration = Duration::from_secs(5);

#[derive(Debug, Parser)]
struct Arguments {
    /// How many buckets; a tenth as many are borrowed besides
    #[arg(default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(100_000..=100_000_000))]
    count: u32,
}

fn main() {
    // Cargo adds an argument of its own.
    let arguments = Arguments::parse_from(std::env::args().filter(|argument| argument != "--bench"));
    let count = arguments.count as usize;
    let clock = Clock::start();
    // A bucket lives until its hits have flowed back, nine hours for each.
    let limits = "[{key: user, rate_limit: {requests_per_unit: 1000, unit: year}}]";
    let crowd = |count, store_timeout| {
        let settings = EngineSettings { max_buckets: count, store_timeout, ..EngineSettings::default() };
        Crowd { engine: Engine::new(policy(limits), settings, clock.now()), clock: &clock, count }
    };
    let table = crowd(count, None);
    table.fill("buckets");
    crowd(count / 10, Some(Micros(10_000))).fill("borrowed buckets");

    table.hit();
    table.watch_sweep();
    table.flood();
    table.sweep_shards(0, "stay");
    table.sweep_shards(10_000, "go");
    assert_eq!(table.engine.table().len(), 0, "all buckets are full again, so none is left");
}

/// An engine with a bucket for each key.
struct Crowd<'c> {
    engine: Engine,
    clock: &'c Clock,
    /// Keys, and room for buckets.
    count: usize,
}

impl Crowd<'_> {
    fn fill(&self, what: &str) {
        let before = resident_bytes();
        let nanos = self.time_batches(0..self.count / BATCH);
        let (buckets, grown) = (self.engine.table().len(), resident_bytes() - before);
        // A shard that happens to be full makes room, so a few are missing.
        println!("{buckets} {what} take {} MB: {} bytes each", grown / 1_000_000, grown / buckets as u64);
        println!("a new one: {nanos} ns");
    }

    fn hit(&self) {
        let count = self.count.min(MOST_HIT);
        println!("a bucket that is there, of {count} in turn: {} ns", self.time_batches(0..count / BATCH));
    }

    /// Decides a request for each key of these batches, and takes the answers to its calls. Returns the nanoseconds that it
    /// takes on average, without those of the store that stands for Redis.
    fn time_batches(&self, batches: std::ops::Range<usize>) -> u128 {
        let (mut time, decisions) = (Duration::ZERO, (batches.len() * BATCH) as u128);
        for batch in batches {
            let requests: Vec<_> = (batch * BATCH..(batch + 1) * BATCH).map(request_of).collect();
            // What it keeps is not counted: it goes with each batch.
            let mut store = MemoryStore::default();
            let (begin, mut in_store) = (self.clock.read(), Duration::ZERO);
            for request in &requests {
                let now = self.clock.now();
                let mut calls = self.engine.decide(request, now).expect("the request is good").calls;
                while let Some(call) = calls.pop() {
                    let asked = self.clock.read();
                    let reply = store.serve(&call.request, now.utc);
                    in_store += asked.elapsed();
                    calls.extend(self.engine.take_answer(call, &Ok(reply), now));
                }
            }
            time += begin.elapsed().saturating_sub(in_store);
        }
        time.as_nanos() / decisions
    }

    /// Times decisions, first alone and then while another thread sweeps as the service does.
    fn watch_sweep(&self) {
        print_times("decisions", &self.time_each(WATCHED));
        let is_over = AtomicBool::new(false);
        scope(|threads| {
            threads.spawn(|| {
                let mut longest = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    sleep(SWEEP_EVERY);
                    let begin = self.clock.read();
                    self.engine.sweep(begin.now, SWEEP_PARTS);
                    longest = longest.max(begin.elapsed());
                }
                println!("the longest sweep of a thousandth of the table: {longest:?}");
            });
            let times = self.time_each(WATCHED);
            is_over.store(true, Ordering::Relaxed);
            print_times("decisions during sweeps", &times);
        });
    }

    /// Comes with more keys than there is room for.
    fn flood(&self) {
        let evicted = self.engine.table().evicted();
        let batches = (self.count / BATCH)..(self.count + FLOOD) / BATCH;
        let decisions = batches.len() * BATCH;
        let nanos = self.time_batches(batches);
        let (len, evicted) = (self.engine.table().len(), self.engine.table().evicted() - evicted);
        println!("{decisions} keys more: {nanos} ns each, {evicted} idle buckets went, {len} are there");
        assert!(len <= self.count, "there are more buckets than there may be");
    }

    /// How long each shard is locked by a sweep in so many hours.
    fn sweep_shards(&self, hours: u64, what: &str) {
        let now = self.clock.now();
        let now = Now { monotonic: now.monotonic + Micros::from_seconds(3_600 * hours), ..now };
        let (mut times, mut work) = (histogram(), histogram());
        for _ in 0..self.engine.table().shards() {
            let (begin, worked) = (self.clock.read(), processor_time());
            self.engine.sweep(now, usize::MAX);
            record(&mut work, processor_time().saturating_sub(worked));
            record(&mut times, begin.elapsed());
        }
        print_times(&format!("a sweep's lock of a shard whose buckets {what}"), &times);
        print_times("of that, not waiting for a processor", &work);
    }

    /// Decisions for one key after the other, each timed by itself.
    fn time_each(&self, watched: Duration) -> Histogram<u64> {
        let requests: Vec<RateLimitRequest> =
            (0..WATCHED_KEYS).map(|n| request_of(n * (self.count / WATCHED_KEYS))).collect();
        let mut times = histogram();
        let begin = self.clock.read();
        for request in requests.iter().cycle() {
            let reading = self.clock.read();
            self.engine.decide(request, reading.now).expect("the request is good");
            record(&mut times, reading.elapsed());
            if reading.now.monotonic > begin.now.monotonic + Micros::from(watched) {
                break;
            }
        }
        times
    }
}

/// How long this thread has had a processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn print_times(what: &str, times: &Histogram<u64>) {
    let [half, most, nearly_all] =
        [50.0, 99.0, 99.9].map(|percent| Duration::from_nanos(times.value_at_percentile(percent)));
    let (count, longest) = (times.len(), Duration::from_nanos(times.max()));
    println!("{what}: p50 {half:?}, p99 {most:?}, p99.9 {nearly_all:?}, longest of {count} {longest:?}");
}

/// The request of a key. Neighbours are not near each other in the table, which goes by a hash.
fn request_of(key: usize) -> RateLimitRequest {
    request([("user".into(), Bytes::from(format!("user-{key:08}")))])
}

/// Of nanoseconds.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are good")
}

fn record(times: &mut Histogram<u64>, time: Duration) {
    times.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

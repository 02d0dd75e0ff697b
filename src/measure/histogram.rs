use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the times that are told apart, in microseconds.
const BOUNDS: [u32; 11] = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000];

/// How long things took. An observation is two atomic additions: the histogram of `prometheus-client` holds a lock, for
/// which all decisions of all cores would wait.
#[derive(Debug, Default)]
pub struct TimeHistogram {
    /// How many were in each bucket, and not in the one before. The last is for all that took longer.
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

/// A histogram as Prometheus shows it.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    /// In seconds.
    pub sum: f64,
    pub count: u64,
    /// Upper bound in seconds, and how many were in this bucket alone.
    pub buckets: Vec<(f64, u64)>,
}

impl TimeHistogram {
    /// Takes note of how long something took.
    pub fn observe(&self, time: Duration) {
        let bucket = BOUNDS.partition_point(|bound| Duration::from_micros(u64::from(*bound)) < time);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let bounds = BOUNDS.iter().map(|bound| f64::from(*bound) / 1e6).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let sum = Duration::from_nanos(self.nanos.load(Ordering::Relaxed)).as_secs_f64();
        Snapshot { sum, count: buckets.iter().map(|(_, count)| count).sum(), buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_belongs_to_the_first_bound_that_is_not_below_it() {
        let histogram = TimeHistogram::default();
        for micros in [0, 10, 11, 20_000, 20_001, 1_000_000] {
            histogram.observe(Duration::from_micros(micros));
        }
        let Snapshot { sum, count, buckets } = histogram.snapshot();
        assert_eq!(count, 6);
        assert!((sum - 1.040_022).abs() < 1e-9, "{sum}");
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(10e-6, 2), (25e-6, 1), (20e-3, 1), (f64::INFINITY, 2)]);
    }
}

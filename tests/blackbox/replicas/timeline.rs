//! The one clock by which a run is recorded.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time of a run in whole microseconds since its start. All clients of the run share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    start: Instant,
    /// UTC at the start, in µs since the Unix epoch: it lies between these two.
    utc: (u64, u64),
}

impl Timeline {
    pub(super) fn begin() -> Self {
        // The clocks are read one after the other. Of a few tries the one that took least says most.
        let tries = (0..20).map(|_| {
            let (before, utc, after) = (Instant::now(), SystemTime::now(), Instant::now());
            let utc = micros(utc.duration_since(UNIX_EPOCH).unwrap());
            (before, utc, micros(after - before) + 1)
        });
        let (start, utc, uncertain) = tries.min_by_key(|&(_, _, uncertain)| uncertain).unwrap();
        Self { start, utc: (utc - uncertain, utc + 1) }
    }

    /// Not later than now.
    pub(super) fn rounded_down(&self) -> u64 {
        micros(self.start.elapsed())
    }

    /// Not earlier than now.
    pub(super) fn rounded_up(&self) -> u64 {
        micros(self.start.elapsed()) + 1
    }

    /// A UTC time in µs that is not later than this time of the run.
    pub(super) fn utc_not_after(&self, time: u64) -> u64 {
        self.utc.0 + time
    }

    /// A UTC time in µs that is not earlier than this time of the run.
    pub(super) fn utc_not_before(&self, time: u64) -> u64 {
        self.utc.1 + time
    }

    /// The instant of a time of the run.
    pub(super) fn instant(&self, time: Duration) -> Instant {
        self.start + time
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

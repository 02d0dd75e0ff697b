//! What comes to the replicas: requests at random, each to one of the replicas and for one of the keys.

use fastrand::Rng;

/// How often each key is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All alike.
    Even,
    /// The second half as often as the first, the third a third as often, and so on (Zipf's law).
    Skewed,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Microseconds since the beginning.
    pub(crate) at: u64,
    pub(crate) replica: usize,
    pub(crate) key: usize,
}

/// Requests without an end.
#[derive(Debug)]
pub(crate) struct Traffic {
    random: Rng,
    /// Microseconds between two requests, on average.
    pause: f64,
    now: f64,
    replicas: usize,
    /// The part of the requests that are for this key or one before it, for each key.
    up_to_key: Vec<f64>,
}

impl Traffic {
    /// So many requests a second, over all replicas together.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub(crate) fn new(rate: f64, replicas: usize, keys: usize, spread: Spread, seed: u64) -> Self {
        let weight = |key: usize| match spread {
            Spread::Even => 1.0,
            Spread::Skewed => 1.0 / (key + 1) as f64,
        };
        let all: f64 = (0..keys).map(weight).sum();
        let mut sum = 0.0;
        let up_to_key = (0..keys).map(|key| {
            sum += weight(key) / all;
            sum
        });
        let up_to_key = up_to_key.collect();
        Self { random: Rng::with_seed(seed), pause: 1e6 / rate, now: 0.0, replicas, up_to_key }
    }

    pub(crate) fn next(&mut self) -> Arrival {
        self.now -= (1.0 - self.random.f64()).ln() * self.pause;
        let drawn = self.random.f64();
        let key = self.up_to_key.partition_point(|up_to| *up_to <= drawn).min(self.up_to_key.len() - 1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "microseconds of some minutes")]
        let at = self.now as u64;
        Arrival { at, replica: self.random.usize(..self.replicas), key }
    }
}

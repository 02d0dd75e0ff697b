//! What comes to the replicas.

use super::plan::SECOND;
use super::random::Random;

/// Requests at random, so many a second on each replica.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) per_replica: f64,
    pub(super) shape: Shape,
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    Constant,
    /// Every so many µs it moves from one half of the replicas to the other.
    Moving {
        every: u64,
    },
    /// A row of factors for each replica, each of which lasts `step` µs.
    Steps {
        rows: Vec<Vec<f64>>,
        step: u64,
    },
}

impl Load {
    pub(super) const fn constant(per_replica: f64) -> Self {
        Self { per_replica, shape: Shape::Constant }
    }

    /// The most requests a second on one replica.
    pub(super) fn most(&self) -> f64 {
        match &self.shape {
            Shape::Constant | Shape::Moving { .. } => self.per_replica,
            Shape::Steps { rows, .. } => self.per_replica * rows.iter().flatten().copied().fold(0.0, f64::max),
        }
    }

    /// Requests a second on a replica at a time.
    pub(super) fn at(&self, replica: usize, time: u64) -> f64 {
        match &self.shape {
            Shape::Moving { every } if (time / every) % 2 != replica as u64 % 2 => 0.0,
            Shape::Constant | Shape::Moving { .. } => self.per_replica,
            Shape::Steps { rows, step } => {
                let row = &rows[replica];
                self.per_replica * row[usize::try_from(time / step).unwrap() % row.len()]
            }
        }
    }

    /// The time of the next arrival on a replica, of which [`at`](Self::at) decides whether it is a request.
    pub(super) fn next_arrival(&self, now: u64, random: &mut Random) -> Option<u64> {
        let most = self.most();
        #[expect(clippy::cast_precision_loss, reason = "a second")]
        (most > 0.0).then(|| now + random.wait(SECOND as f64 / most))
    }
}

/// Requests of cost 1 at given times.
pub(super) type Arrivals = Vec<(u64, usize)>;

/// So many requests at once on each replica in turn, again and again, `every` so many µs.
pub(super) fn pulses(requests: u64, every: u64, replicas: usize, seconds: u64) -> Arrivals {
    let begins = (0..seconds * SECOND / every).map(|pulse| pulse * every).zip((0..replicas).cycle());
    begins.flat_map(|(begin, replica)| (0..requests).map(move |request| (begin + request * 3_000, replica))).collect()
}

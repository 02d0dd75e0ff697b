/// Random numbers that a seed repeats.
#[derive(Clone, Debug)]
pub(super) struct Random(fastrand::Rng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A seed for somebody else.
    pub(super) fn seed(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// From 0 to below 1.
    pub(super) fn fraction(&mut self) -> f64 {
        self.0.f64()
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.0.f64() < probability
    }

    /// From `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.u64(low..=high)
    }

    /// From 0 to `most`.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.0.u64(..=most)
    }

    /// From 0 to below `end`.
    pub(super) fn index(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A time to wait for what comes at random, `mean` on average, in whole µs.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time, in µs")]
    pub(super) fn wait(&mut self, mean: f64) -> u64 {
        (-(1.0 - self.fraction()).ln() * mean) as u64
    }
}

/// Random numbers that a seed repeats: `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub(super) const fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) const fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// From `low` to `high`, both included.
    pub(super) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// From 0 to below `end`.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub(super) const fn index(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A time to wait for what comes at random, `mean` on average, in whole µs.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time, in µs")]
    pub(super) fn wait(&mut self, mean: f64) -> u64 {
        (-(1.0 - self.fraction()).ln() * mean) as u64
    }

    /// A time up to `most`, in whole µs.
    pub(super) const fn up_to(&mut self, most: u64) -> u64 {
        self.between(0, most)
    }
}

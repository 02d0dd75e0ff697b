use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::question::Tier;
use crate::limit::{Algorithm, Limit, Unit};
use crate::policy::PathPart;
use crate::random::random_u64;

/// The identity of a bucket in this process: a 128-bit hash of everything that tells it from other buckets.
///
/// That is the domain, the path of keys and values to the rule (the pattern where its values share one bucket), unit and
/// multiplier and the algorithm, and the tier in which its hits are counted. The amount is no part of it, so a limit that
/// is raised keeps what was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketKey {
    /// Chooses the shard.
    pub(super) high: u64,
    /// Chooses the place in the shard.
    pub(super) low: u64,
}

/// A random secret, new in each process, so that nobody outside can look for values that meet in one bucket.
#[derive(Clone, Debug)]
pub struct KeySeed(u64, u64);

impl KeySeed {
    #[must_use]
    pub fn random() -> Self {
        Self(random_u64(), random_u64())
    }
}

/// Reads the path to a bucket part by part.
///
/// `SipHash` is keyed and made for short texts that an adversary chooses; see Aumasson and Bernstein,
/// <https://www.aumasson.jp/siphash/siphash.pdf>. Each part comes with its length, so no two paths feed the same bytes.
#[derive(Clone, Debug)]
pub struct KeyHasher(SipHasher13);

impl KeyHasher {
    /// At the root of a domain's rules.
    #[must_use]
    pub fn new(seed: &KeySeed, domain: &[u8]) -> Self {
        let mut hasher = Self(SipHasher13::new_with_keys(seed.0, seed.1));
        hasher.text(domain);
        hasher
    }

    /// Takes the next step.
    pub fn part(&mut self, part: PathPart<'_>) {
        self.text(part.key);
        self.0.write_u8(part.is_shared.into());
        self.text(part.value);
    }

    /// The bucket of `limit` at the end of the path read so far.
    #[must_use]
    pub fn bucket(&self, limit: &Limit, tier: Tier) -> BucketKey {
        self.bucket_of(limit.unit(), limit.multiplier(), limit.algorithm(), tier)
    }

    /// The bucket of all limits of this kind at the end of the path read so far.
    #[inline]
    pub(super) fn bucket_of(&self, unit: Unit, multiplier: u32, algorithm: Algorithm, tier: Tier) -> BucketKey {
        let mut hasher = self.0;
        let algorithm = match algorithm {
            Algorithm::TokenBucket => 0,
            Algorithm::FixedWindow => 1,
        };
        let tier = match tier {
            Tier::Process => 0,
            Tier::Store => 1,
        };
        // Period and unit together stand for unit and multiplier: they also tell 60 seconds from one minute.
        hasher.write_u64(unit.seconds() * u64::from(multiplier));
        hasher.write_u64(unit.seconds() << 2 | tier << 1 | algorithm);
        let hash = hasher.finish128();
        BucketKey { high: hash.h1, low: hash.h2 }
    }

    fn text(&mut self, text: &[u8]) {
        self.0.write_usize(text.len());
        self.0.write(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(domain: &str, parts: &[(&str, &str)]) -> BucketKey {
        let mut hasher = KeyHasher::new(&KeySeed(1, 2), domain.as_bytes());
        for (key, value) in parts {
            hasher.part(PathPart { key: key.as_bytes(), value: value.as_bytes(), is_shared: false });
        }
        hasher.bucket(&Limit::per(1, Unit::Second, Algorithm::TokenBucket), Tier::Process)
    }

    #[test]
    fn texts_that_join_to_the_same_are_different_paths() {
        assert_ne!(key("d", &[("ab", "c")]), key("d", &[("a", "bc")]));
        assert_ne!(key("d", &[("a", "b"), ("c", "d")]), key("d", &[("a", "bcd")]));
        assert_ne!(key("d", &[("", "")]), key("d", &[]));
        assert_eq!(key("d", &[("a", "b")]), key("d", &[("a", "b")]));
    }

    #[test]
    fn unit_multiplier_and_algorithm_count_and_the_amount_does_not() {
        let hasher = KeyHasher::new(&KeySeed(1, 2), b"d");
        let key = |amount, unit, multiplier, algorithm| {
            hasher.bucket(&Limit::new(amount, unit, multiplier, None, algorithm).unwrap(), Tier::Process)
        };
        let minute = key(1, Unit::Minute, 1, Algorithm::TokenBucket);
        assert_eq!(minute, key(500, Unit::Minute, 1, Algorithm::TokenBucket));
        assert_ne!(minute, key(1, Unit::Second, 60, Algorithm::TokenBucket));
        assert_ne!(minute, key(1, Unit::Minute, 2, Algorithm::TokenBucket));
        assert_ne!(minute, key(1, Unit::Minute, 1, Algorithm::FixedWindow));
    }

    #[test]
    fn a_shared_pattern_is_not_the_value_that_looks_like_it() {
        let key = |is_shared| {
            let mut hasher = KeyHasher::new(&KeySeed(1, 2), b"d");
            hasher.part(PathPart { key: b"k", value: b"files/*", is_shared });
            hasher.bucket(&Limit::per(1, Unit::Second, Algorithm::TokenBucket), Tier::Process)
        };
        assert_ne!(key(true), key(false));
    }
}

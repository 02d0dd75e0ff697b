use std::fmt;
use std::hash::{Hash, Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::fault::Source;

/// What the files of a policy say, in 128 bits: replicas that show the same one have read the same
/// files. (What they make of them also hangs on `--default-algorithm` and `--overdraft`.)
///
/// It is SipHash-1-3 with a key of zeros over the contents of all files, in their order and each with its length; a
/// byte order mark is no content. The files' names do not count, so it is the same wherever they are mounted. It tells
/// policies apart and guards against nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash(u128);

impl ContentHash {
    pub(super) fn of(sources: &[Source]) -> Self {
        let mut hasher = SipHasher13::new();
        for source in sources {
            // In one byte order on every machine.
            hasher.write(&(source.text.len() as u64).to_le_bytes());
            hasher.write(source.text.as_bytes());
        }
        Self(hasher.finish128().as_u128())
    }
}

/// All that a policy is made from: the names of its files, what they say, and why they cannot be read. Equal ones are loaded
/// alike, with the same messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u128);

impl Fingerprint {
    pub(super) fn of(sources: &[Source]) -> Self {
        let mut hasher = SipHasher13::new();
        for Source { name, text, problem } in sources {
            (name, text, problem).hash(&mut hasher);
        }
        Self(hasher.finish128().as_u128())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::Position;
    use super::*;

    fn hash(texts: &[(&str, &str)]) -> String {
        let source = |(name, text): &(&str, &str)| Source { name: (*name).into(), text: (*text).into(), problem: None };
        ContentHash::of(&texts.iter().map(source).collect::<Vec<_>>()).to_string()
    }

    #[test]
    fn the_same_contents_have_the_same_hash_in_every_process() {
        assert_eq!(hash(&[("a", "domain: d\n")]), "a4f52da060e59ceba0a80f71607ab630");
        assert_eq!(hash(&[("a", "x"), ("b", "y")]), hash(&[("/mnt/a", "x"), ("/mnt/b", "y")]));
        assert_ne!(hash(&[("a", "x"), ("b", "y")]), hash(&[("a", "y"), ("b", "x")]));
        assert_ne!(hash(&[("a", "xy"), ("b", "")]), hash(&[("a", "x"), ("b", "y")]));
    }

    #[test]
    fn names_and_problems_are_part_of_a_fingerprint() {
        let source = |name: &str, text: &str, problem: Option<&str>| Source {
            name: name.into(),
            text: text.into(),
            problem: problem.map(|problem| (Position::WHOLE_FILE, problem.to_owned())),
        };
        let fingerprint = |source: Source| Fingerprint::of(&[source]);
        let same = fingerprint(source("a", "x", None));
        assert_eq!(same, fingerprint(source("a", "x", None)));
        for other in [source("b", "x", None), source("a", "y", None), source("a", "x", Some("no right to read"))] {
            assert_ne!(same, fingerprint(other));
        }
    }
}

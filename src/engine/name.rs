use std::fmt;
use std::str::FromStr;

use super::key::{BucketKey, KeyHasher, KeySeed};
use super::question::Tier;
use crate::limit::{Algorithm, Limit, Unit};
use crate::percent::{self, in_name};
use crate::policy::PathPart;

/// What stands before a bucket's name in the store, so that a database can hold other things too.
const PREFIX: &str = "comporta:";

/// The identity of a bucket, for people: `{api|tenant=acme|path~/export*}:minute`.
///
/// In braces stand the domain and the path to the rule. `=` joins a key and the request's value; `~` joins a key and the
/// rule's pattern, where all values that match share one bucket. Then comes the unit of the limit, with its multiplier
/// if that is not 1 (`:5minute`), and `:fixed_window` for a limit of fixed windows.
///
/// All that is not printable ASCII, and each of `% { } | = ~` and the space, is percent-escaped in keys and values. So
/// no value can imitate another bucket, bytes that are not UTF-8 survive, and a name is the same in every process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BucketName {
    domain: Box<[u8]>,
    path: Box<[NamePart]>,
    unit: Unit,
    multiplier: u32,
    algorithm: Algorithm,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NamePart {
    key: Box<[u8]>,
    value: Box<[u8]>,
    is_shared: bool,
}

/// Why a text is not the name of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a bucket's name is a path in braces and a unit, such as {{api|tenant=acme}}:minute")]
    NoBraces,
    #[error("the domain is missing: it comes first in the braces, as in {{api|tenant=acme}}:minute")]
    NoDomain,
    #[error(
        "\"{0}\" is not an entry: write key=value, or key~pattern where values share a bucket, and escape other = ~ {{"
    )]
    NotAnEntry(String),
    #[error("\"{0}\" has a % without two hexadecimal digits: write %25 for the sign itself")]
    BadEscape(String),
    #[error("\"{0}\" is not a unit: write :minute or another unit after the braces, or :5minute for a multiple")]
    BadPeriod(String),
    #[error("\"{0}\" is not an algorithm: write :fixed_window after the unit, or nothing for a token bucket")]
    BadAlgorithm(String),
}

impl BucketName {
    /// The bucket of `limit` at the end of a path through the rules of a domain.
    pub(super) fn new(domain: &[u8], path: &[PathPart<'_>], limit: &Limit) -> Self {
        let own = |part: &PathPart<'_>| NamePart {
            key: part.key.into(),
            value: part.value.into(),
            is_shared: part.is_shared,
        };
        Self {
            domain: domain.into(),
            path: path.iter().map(own).collect(),
            unit: limit.unit(),
            multiplier: limit.multiplier(),
            algorithm: limit.algorithm(),
        }
    }

    pub(super) fn domain(&self) -> &[u8] {
        &self.domain
    }

    pub(super) fn path(&self) -> impl ExactSizeIterator<Item = PathPart<'_>> {
        self.path.iter().map(|part| PathPart { key: &part.key, value: &part.value, is_shared: part.is_shared })
    }

    /// Whether it is the bucket of this limit, given that the path is the same.
    pub(super) fn is_of(&self, limit: &Limit) -> bool {
        (self.unit, self.multiplier, self.algorithm) == (limit.unit(), limit.multiplier(), limit.algorithm())
    }

    /// The same identity as this process knows it, in one of its tiers.
    pub(super) fn key(&self, seed: &KeySeed, tier: Tier) -> BucketKey {
        let mut hasher = KeyHasher::new(seed, &self.domain);
        self.path().for_each(|part| hasher.part(part));
        hasher.bucket_of(self.unit, self.multiplier, self.algorithm, tier)
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}", in_name(&self.domain))?;
        for NamePart { key, value, is_shared } in &self.path {
            write!(f, "|{}{}{}", in_name(key), if *is_shared { '~' } else { '=' }, in_name(value))?;
        }
        write!(f, "}}:{}", Suffix(self.multiplier, self.unit, self.algorithm))
    }
}

/// What the name of a limit's bucket ends with: `minute`, `5minute`, `minute:fixed_window`. No two limits of a rule have the
/// same.
#[must_use]
pub fn limit_suffix(limit: &Limit) -> String {
    Suffix(limit.multiplier(), limit.unit(), limit.algorithm()).to_string()
}

struct Suffix(u32, Unit, Algorithm);

impl fmt::Display for Suffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(multiplier, unit, algorithm) = self;
        if *multiplier != 1 {
            multiplier.fmt(f)?;
        }
        unit.fmt(f)?;
        match algorithm {
            Algorithm::TokenBucket => Ok(()),
            Algorithm::FixedWindow => write!(f, ":{}", algorithm.name()),
        }
    }
}

impl FromStr for BucketName {
    type Err = NameError;

    /// Reads a name, with or without the `comporta:` that it has in the store. A space or a character beyond ASCII that
    /// is not escaped stands for itself, because people forget.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let name = text.strip_prefix(PREFIX).unwrap_or(text);
        let (path, suffix) = name
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .and_then(|(path, suffix)| Some((path, suffix.strip_prefix(':')?)))
            .ok_or(NameError::NoBraces)?;
        let mut parts = path.split('|');
        let domain = parts.next().unwrap_or_default();
        // An entry in its place is the usual slip.
        if domain.is_empty() || domain.contains(['=', '~', '{']) {
            return Err(NameError::NoDomain);
        }
        let domain = decode_part(domain)?;
        let path = parts.map(NamePart::from_str).collect::<Result<_, _>>()?;
        let (period, algorithm) = match suffix.split_once(':') {
            None => (suffix, Algorithm::TokenBucket),
            Some((period, name)) if name == Algorithm::FixedWindow.name() => (period, Algorithm::FixedWindow),
            Some((_, name)) => return Err(NameError::BadAlgorithm(name.to_owned())),
        };
        let (multiplier, unit) = read_period(period).ok_or_else(|| NameError::BadPeriod(period.to_owned()))?;
        Ok(Self { domain, path, unit, multiplier, algorithm })
    }
}

impl FromStr for NamePart {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let not_an_entry = || NameError::NotAnEntry(text.to_owned());
        let at = text.find(['=', '~']).ok_or_else(not_an_entry)?;
        let (key, value) = (&text[..at], &text[at + 1..]);
        if key.contains('{') || value.contains(['=', '~', '{']) {
            return Err(not_an_entry());
        }
        let is_shared = text[at..].starts_with('~');
        Ok(Self { key: decode_part(key)?, value: decode_part(value)?, is_shared })
    }
}

fn decode_part(text: &str) -> Result<Box<[u8]>, NameError> {
    match percent::decode(text) {
        Ok(bytes) => Ok(bytes.into()),
        Err(percent::BadEscape) => Err(NameError::BadEscape(text.to_owned())),
    }
}

/// Reads `minute` or `5minute`. A period that is too long to have a limit is no period.
fn read_period(text: &str) -> Option<(u32, Unit)> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (multiplier, unit) = text.split_at(digits);
    let unit = Unit::ALL.into_iter().find(|known| known.name() == unit)?;
    let multiplier = match multiplier {
        "" => 1,
        "1" => return None,
        number if number.starts_with('0') => return None,
        number => number.parse().ok()?,
    };
    Limit::new(1, unit, multiplier, None, Algorithm::TokenBucket).ok()?;
    Some((multiplier, unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part<'a>(key: &'a str, value: &'a str, is_shared: bool) -> PathPart<'a> {
        PathPart { key: key.as_bytes(), value: value.as_bytes(), is_shared }
    }

    #[test]
    fn a_name_reads_like_the_policy() {
        let limit = |multiplier, algorithm| Limit::new(9, Unit::Minute, multiplier, None, algorithm).unwrap();
        let path = [part("tenant", "acme", false), part("path", "/export*", true)];
        let minute = BucketName::new(b"api", &path, &limit(1, Algorithm::TokenBucket));
        assert_eq!(minute.to_string(), "{api|tenant=acme|path~/export*}:minute");
        let window = BucketName::new(b"api", &path[..1], &limit(5, Algorithm::FixedWindow));
        assert_eq!(window.to_string(), "{api|tenant=acme}:5minute:fixed_window");
        assert_eq!(BucketName::new(b"api", &[], &limit(1, Algorithm::TokenBucket)).to_string(), "{api}:minute");
    }

    #[test]
    fn a_value_cannot_imitate_another_bucket() {
        let limit = Limit::per(1, Unit::Second, Algorithm::TokenBucket);
        let path = [PathPart { key: b"k ~", value: b"a|b=c}:day%7C\xff\n\xc3\xa9", is_shared: false }];
        let name = BucketName::new(b"d{", &path, &limit);
        assert_eq!(name.to_string(), "{d%7B|k%20%7E=a%7Cb%3Dc%7D:day%257C%FF%0A%C3%A9}:second");
    }

    #[test]
    fn what_people_write_is_read() {
        let read = |text: &str| text.parse::<BucketName>().map(|name| name.to_string());
        for name in ["{a|b=c}:day", "{a}:5minute:fixed_window", "{a|=}:year", "{a|b~*|c=}:month"] {
            assert_eq!(read(name).as_deref(), Ok(name));
        }
        assert_eq!(read("comporta:{a|b=c d}:day").as_deref(), Ok("{a|b=c%20d}:day"));
        assert_eq!(read("{a|b=%c3%a9é}:day").as_deref(), Ok("{a|b=%C3%A9%C3%A9}:day"));
    }

    #[test]
    fn what_is_no_name_is_told_why() {
        let error = |text: &str| text.parse::<BucketName>().unwrap_err();
        for text in ["", "api", "{api", "{api}", "{api}minute", "api|tenant=acme:minute", "x{api}:minute"] {
            assert_eq!(error(text), NameError::NoBraces, "{text}");
        }
        assert_eq!(error("{}:day"), NameError::NoDomain);
        assert_eq!(error("{|a=b}:day"), NameError::NoDomain);
        assert_eq!(error("{tenant=acme}:day"), NameError::NoDomain);
        for entry in ["b", "", "b=c=d", "b=c~d", "b~c~d", "b{=c", "b={c"] {
            assert_eq!(error(&format!("{{a|{entry}}}:day")), NameError::NotAnEntry(entry.to_owned()));
        }
        assert_eq!(error("{a|b=100%}:day"), NameError::BadEscape("100%".to_owned()));
        for period in ["", "days", "Day", "5", "0day", "05day", "1day", "+5day", "4294967296second", "11year"] {
            assert_eq!(error(&format!("{{a}}:{period}")), NameError::BadPeriod(period.to_owned()));
        }
        assert_eq!(error("{a}:day:token_bucket"), NameError::BadAlgorithm("token_bucket".to_owned()));
        assert_eq!(error("{a}:day:"), NameError::BadAlgorithm(String::new()));
    }

    /// Few bytes, most of which mean something in a name, so that confusions are likely.
    fn bytes() -> impl Strategy<Value = Box<[u8]>> {
        let byte = prop_oneof![Just(b'a'), prop::sample::select(&b"%{}|=~: 27C\xff\x00"[..]), any::<u8>()];
        prop::collection::vec(byte, 0..4).prop_map(Into::into)
    }

    prop_compose! {
        fn name()(
            domain in bytes().prop_filter("a domain has a name", |domain| !domain.is_empty()),
            path in prop::collection::vec(
                (bytes(), bytes(), any::<bool>()).prop_map(|(key, value, is_shared)| NamePart { key, value, is_shared }),
                0..3,
            ),
            unit in prop::sample::select(&Unit::ALL[..]),
            multiplier in 1..=10_u32,
            algorithm in prop_oneof![Just(Algorithm::TokenBucket), Just(Algorithm::FixedWindow)],
        ) -> BucketName {
            BucketName { domain, path: path.into(), unit, multiplier, algorithm }
        }
    }

    proptest! {
        #[test]
        fn a_name_is_printable_and_read_as_it_was_written(name in name()) {
            let text = name.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{}", text);
            prop_assert_eq!(text.parse(), Ok(name));
        }

        #[test]
        fn two_identities_never_have_one_name(one in name(), other in name()) {
            prop_assert_eq!(one == other, one.to_string() == other.to_string());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-c{}|=~:%0-9 é]{0,12}|\\{[a-c|=~%0-9]{0,8}\\}:[0-9]{0,2}(day|second)") {
            if let Ok(name) = text.parse::<BucketName>() {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }
}

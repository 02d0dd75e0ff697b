//! The keys of the policy language, and what an unknown name was probably meant to be.

use super::fault::Quoted;

/// A kind of mapping in a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    File,
    Descriptor,
    Limit,
    Replaced,
}

impl Level {
    const ALL: [Self; 4] = [Self::Descriptor, Self::Limit, Self::Replaced, Self::File];

    /// The keys of such a mapping.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::File => &["domain", "plans", "descriptors"],
            Self::Descriptor => &[
                "key",
                "value",
                "rate_limit",
                "plan",
                "tenants",
                "descriptors",
                "shadow_mode",
                "quota_mode",
                "share_threshold",
                "detailed_metric",
                "value_to_metric",
                "metadata",
            ],
            Self::Limit => &[
                "unit",
                "requests_per_unit",
                "unit_multiplier",
                "burst",
                "algorithm",
                "unlimited",
                "name",
                "replaces",
                "failure_mode",
                "scope",
                "overdraft",
            ],
            Self::Replaced => &["name"],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::File => "a policy file",
            Self::Descriptor => "a descriptor",
            Self::Limit => "a limit",
            Self::Replaced => "an entry of replaces",
        }
    }

    /// Where the keys of such a mapping belong.
    const fn home(self) -> &'static str {
        match self {
            Self::File => "to the top of the file",
            Self::Descriptor => "to the descriptor, beside its key",
            Self::Limit => "inside rate_limit or a plan",
            Self::Replaced => "inside replaces",
        }
    }
}

/// What a mapping of this level says to a key that it does not know: what is wrong and what to do, and the key of the
/// same level that was probably meant.
pub(super) fn unknown_key(name: &str, level: Level) -> (String, Option<&'static str>) {
    let unknown = format!("unknown key {} in {}", Quoted(name), level.name());
    let elsewhere = || Level::ALL.into_iter().filter(move |other| *other != level);
    if let Some(home) = elsewhere().find(|other| other.keys().contains(&name)) {
        return (format!("{unknown}: {name} belongs {}", home.home()), None);
    }
    if let Some(meant) = nearest(name, level.keys().iter().copied()) {
        return (format!("{unknown}: did you mean {meant}?"), Some(meant));
    }
    for home in elsewhere() {
        if let Some(meant) = nearest(name, home.keys().iter().copied()) {
            return (format!("{unknown}: did you mean {meant}? it belongs {}", home.home()), None);
        }
    }
    (format!("{unknown}: remove it, or use one of {}", level.keys().join(", ")), None)
}

/// The longest name, in bytes, that is compared, and how many candidates are: enough for people, a bound for machines.
const LONGEST_NAME: usize = 40;
const MOST_CANDIDATES: usize = 200;

/// The candidate that `name` is probably a misspelling of.
pub(crate) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let name = simplified(name);
    candidates
        .filter(|candidate| candidate.len() <= LONGEST_NAME)
        .take(MOST_CANDIDATES)
        .filter_map(|candidate| Some((distance(&name, &simplified(candidate))?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many slips of the pen make one of the other; `None` if too many to believe it.
fn distance(name: &str, candidate: &str) -> Option<usize> {
    let length = name.chars().count().max(candidate.chars().count());
    let slips = strsim::osa_distance(name, candidate);
    if slips <= (length / 3).max(1) && slips * 2 <= length {
        return Some(slips);
    }
    let is_part = name.len() >= 4 && candidate.contains(name);
    is_part.then_some(length)
}

/// Without case and separators, so that `requestsPerUnit` is as good as `requests-per-unit`.
fn simplified(name: &str) -> String {
    name.chars().filter(|character| !matches!(character, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, level: Level) -> String {
        unknown_key(name, level).0
    }

    #[test]
    fn a_key_of_another_level_is_sent_home() {
        assert_eq!(
            told("shadow_mode", Level::Limit),
            "unknown key \"shadow_mode\" in a limit: shadow_mode belongs to the descriptor, beside its key"
        );
        assert_eq!(
            told("unit", Level::Descriptor),
            "unknown key \"unit\" in a descriptor: unit belongs inside rate_limit or a plan"
        );
        assert_eq!(
            told("plans", Level::Descriptor),
            "unknown key \"plans\" in a descriptor: plans belongs to the top of the file"
        );
    }

    #[test]
    fn a_misspelt_key_is_recognised() {
        for (name, level, meant) in [
            ("ratelimit", Level::Descriptor, "rate_limit"),
            ("requestsPerUnit", Level::Limit, "requests_per_unit"),
            ("requests", Level::Limit, "requests_per_unit"),
            ("multiplier", Level::Limit, "unit_multiplier"),
            ("Key", Level::Descriptor, "key"),
            ("descriptor", Level::File, "descriptors"),
        ] {
            assert!(told(name, level).ends_with(&format!(": did you mean {meant}?")), "{}", told(name, level));
        }
        assert_eq!(
            told("shadowmode", Level::Limit),
            "unknown key \"shadowmode\" in a limit: did you mean shadow_mode? it belongs to the descriptor, beside its \
             key"
        );
    }

    #[test]
    fn a_key_like_no_other_is_answered_with_the_list() {
        assert_eq!(
            told("xyzzy", Level::File),
            "unknown key \"xyzzy\" in a policy file: remove it, or use one of domain, plans, descriptors"
        );
    }

    #[test]
    fn the_nearest_name_is_near() {
        assert_eq!(nearest("fre", ["gold", "free"].into_iter()), Some("free"));
        assert_eq!(nearest("x", ["y"].into_iter()), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), ["y"].into_iter()), None);
    }
}

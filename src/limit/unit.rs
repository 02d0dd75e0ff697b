use std::fmt;
use std::str::FromStr;

/// The unit of time of a limit: `60` per [`Unit::Minute`].
///
/// A month is 30 days and a year 365, as in envoyproxy/ratelimit, so that every unit has one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    pub const ALL: [Self; 7] = [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The length of one unit, in seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        const DAY: u64 = 86_400;
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        }
    }

    /// The name of the unit as policies write it, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a [`Unit`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown unit: use second, minute, hour, day, week, month or year")]
pub struct UnknownUnit;

impl FromStr for Unit {
    type Err = UnknownUnit;

    /// Reads the name of a unit in any case.
    fn from_str(name: &str) -> Result<Self, UnknownUnit> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name)).ok_or(UnknownUnit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!("MiNuTe".parse(), Ok(Unit::Minute));
        assert_eq!("fortnight".parse::<Unit>(), Err(UnknownUnit));
        for unit in Unit::ALL {
            assert_eq!(unit.name().parse(), Ok(unit));
        }
    }
}

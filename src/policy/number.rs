//! Numbers as YAML writes them.
//!
//! Versions and readers of YAML disagree on some forms, so that two parts of a policy read them differently on purpose:
//! limits take what an author can only have meant in one way, and refuse the rest ([`read_u32`]); `metadata` is for
//! others to read, so that it follows the core schema of YAML 1.2 to the letter ([`Numeral::is_of_core_schema`]).

/// A plain scalar that is written as a number, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numeral<'t> {
    sign: Option<Sign>,
    notation: Notation,
    /// What comes after the sign and the prefix.
    digits: &'t str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// Whole, in this radix, perhaps with `_` between digits.
    Whole { radix: u32 },
    /// Decimal, with a point or an exponent.
    Float,
}

impl<'t> Numeral<'t> {
    /// `None` if the text is not a number: `inf` and `nan` are not.
    pub(super) fn read(text: &'t str) -> Option<Self> {
        let (sign, unsigned) = match text.split_at_checked(1) {
            Some(("+", rest)) => (Some(Sign::Plus), rest),
            Some(("-", rest)) => (Some(Sign::Minus), rest),
            _ => (None, text),
        };
        let prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("", 10)];
        for (prefix, radix) in prefixes {
            if let Some(digits) = unsigned.strip_prefix(prefix)
                && are_digits(digits, radix)
            {
                return Some(Self { sign, notation: Notation::Whole { radix }, digits });
            }
        }
        is_float(unsigned).then_some(Self { sign, notation: Notation::Float, digits: unsigned })
    }

    pub(super) fn is_negative(self) -> bool {
        self.sign == Some(Sign::Minus)
    }

    /// Whether the core schema of YAML 1.2 takes it for a number: not `1_000` and `0b11`, and neither `+0x1f`.
    pub(super) fn is_of_core_schema(self) -> bool {
        !self.digits.contains('_')
            && match self.notation {
                Notation::Whole { radix: 10 } | Notation::Float => true,
                Notation::Whole { radix } => radix != 2 && self.sign.is_none(),
            }
    }

    /// Its absolute value, if it is written as a whole number and below 2⁶⁴.
    pub(super) fn whole(self) -> Option<u64> {
        let Notation::Whole { radix } = self.notation else { return None };
        let digits = self.digits.chars().filter_map(|digit| digit.to_digit(radix));
        digits.map(u64::from).try_fold(0_u64, |number, digit| number.checked_mul(radix.into())?.checked_add(digit))
    }

    /// Its absolute value as a decimal, rounded; `None` if it has another radix or is beyond all doubles.
    pub(super) fn decimal(self) -> Option<f64> {
        match self.notation {
            Notation::Whole { radix: 10 } | Notation::Float => {
                self.digits.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite())
            }
            Notation::Whole { .. } => None,
        }
    }

    /// `010` is 8 to some readers of YAML, Go's among them, and 10 to others.
    fn has_leading_zero(self) -> bool {
        self.notation == Notation::Whole { radix: 10 } && self.digits.len() > 1 && self.digits.starts_with('0')
    }
}

fn are_digits(text: &str, radix: u32) -> bool {
    text.starts_with(|first: char| first.is_digit(radix))
        && text.chars().all(|character| character.is_digit(radix) || character == '_')
        && !text.ends_with('_')
}

fn is_float(text: &str) -> bool {
    // Rust's own reader also takes words such as "infinity", and a second sign.
    text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && text.parse::<f64>().is_ok()
}

/// Why a plain scalar is not a number from 0 to 2³²−1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotANumber {
    /// A whole number such as `010`, on whose value readers disagree.
    LeadingZero,
    /// Negative, too large, fractional, or not a number at all.
    OutOfRange,
}

/// Reads a number of a limit: `60`, `+60`, `1_000`, `0x3c`, `0o74`, `0b1`, and also `1e+06` or `60.0`, because
/// templates print large numbers so.
pub(super) fn read_u32(text: &str) -> Result<u32, NotANumber> {
    let numeral = Numeral::read(text).filter(|numeral| !numeral.is_negative()).ok_or(NotANumber::OutOfRange)?;
    if numeral.has_leading_zero() {
        return Err(NotANumber::LeadingZero);
    }
    if let Some(whole) = numeral.whole() {
        return u32::try_from(whole).map_err(|_| NotANumber::OutOfRange);
    }
    match numeral.decimal() {
        Some(number) if number.fract() == 0.0 && number <= f64::from(u32::MAX) =>
        {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number in range")]
            Ok(number as u32)
        }
        _ => Err(NotANumber::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_authors_and_templates_write_them() {
        for (text, number) in [
            ("0", 0),
            ("60", 60),
            ("+60", 60),
            ("1_000_000", 1_000_000),
            ("0x3c", 60),
            ("+0x3_C", 60),
            ("0o17", 15),
            ("0o0017", 15),
            ("0b101", 5),
            ("1e+06", 1_000_000),
            ("1E6", 1_000_000),
            ("60.0", 60),
            ("60.", 60),
            ("4294967295", u32::MAX),
            ("4.294967295e+09", u32::MAX),
        ] {
            assert_eq!(read_u32(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_number_in_range_is_refused() {
        for text in [
            "",
            "+",
            "-1",
            "-0",
            "-010",
            "1.5",
            "4294967296",
            "1e10",
            "1e999",
            "inf",
            ".inf",
            "nan",
            "ten",
            "1_",
            "_1",
            "1_0.0",
            "0x",
            "0xg",
            "0x_1",
            "0o8",
            "1 000",
            "++1",
            "+-1",
            ".",
            ".5",
            "1e",
            "1,000",
            "99999999999999999999999999",
            "0xffffffffffffffffffffffff",
            "١",
        ] {
            assert_eq!(read_u32(text), Err(NotANumber::OutOfRange), "{text}");
        }
    }

    #[test]
    fn a_leading_zero_is_not_guessed_at() {
        for text in ["010", "+010", "00", "0_7"] {
            assert_eq!(read_u32(text), Err(NotANumber::LeadingZero), "{text}");
        }
    }
}

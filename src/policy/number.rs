/// Why a plain scalar is not a number from 0 to 2³²−1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotANumber {
    /// `010` is 8 to some readers of YAML, Go's among them, and 10 to others.
    LeadingZero,
    /// Negative, too large, fractional, or not a number at all.
    OutOfRange,
}

/// Reads a number as YAML 1.1 and 1.2 agree to write it: `60`, `+60`, `1_000`, `0x3c`, `0o74`, `0b1`, and also `1e+06`
/// or `60.0`, because templates print large numbers so.
pub(super) fn read_u32(text: &str) -> Result<u32, NotANumber> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let radixes = [("0x", 16), ("0o", 8), ("0b", 2)];
    if let Some((digits, radix)) =
        radixes.iter().find_map(|(prefix, radix)| Some((digits.strip_prefix(prefix)?, *radix)))
    {
        return read_digits(digits, radix);
    }
    if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotANumber::LeadingZero);
    }
    read_digits(digits, 10).or_else(|_| read_whole_float(digits))
}

fn read_digits(digits: &str, radix: u32) -> Result<u32, NotANumber> {
    let is_number = digits.starts_with(|first: char| first.is_digit(radix)) && !digits.ends_with('_');
    if !is_number {
        return Err(NotANumber::OutOfRange);
    }
    digits.bytes().filter(|byte| *byte != b'_').try_fold(0_u32, |number, byte| {
        let digit = char::from(byte).to_digit(radix).ok_or(NotANumber::OutOfRange)?;
        number.checked_mul(radix).and_then(|number| number.checked_add(digit)).ok_or(NotANumber::OutOfRange)
    })
}

fn read_whole_float(text: &str) -> Result<u32, NotANumber> {
    // Rust's own reader also takes words such as "infinity".
    let is_float = text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    match text.parse::<f64>() {
        Ok(number) if is_float && number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) =>
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
            ("0o17", 15),
            ("0b101", 5),
            ("1e+06", 1_000_000),
            ("1E6", 1_000_000),
            ("60.0", 60),
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
            "-1",
            "-0",
            "1.5",
            "4294967296",
            "1e10",
            "1e999",
            "inf",
            "nan",
            "ten",
            "1_",
            "_1",
            "0x",
            "0xg",
            "0o8",
            "1 000",
            "++1",
            ".5",
            "1,000",
            "99999999999999999999999999",
            "١",
        ] {
            assert_eq!(read_u32(text), Err(NotANumber::OutOfRange), "{text}");
        }
    }

    #[test]
    fn a_leading_zero_is_not_guessed_at() {
        assert_eq!(read_u32("010"), Err(NotANumber::LeadingZero));
    }
}

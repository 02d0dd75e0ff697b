//! Bytes as printable ASCII: `%2F` for those that may not stand for themselves.

use std::fmt;

/// Bytes, of which all are escaped that `must_escape` names.
#[derive(Clone, Copy)]
pub(crate) struct Escaped<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) must_escape: fn(u8) -> bool,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.bytes {
            if (self.must_escape)(byte) {
                write!(f, "%{byte:02X}")?;
            } else {
                fmt::Write::write_char(f, char::from(byte))?;
            }
        }
        Ok(())
    }
}

/// A `%` without two hexadecimal digits after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadEscape;

/// The bytes that an escaped text stands for. What is not escaped stands for itself.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, BadEscape> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (high, low) = (hex_digit(rest.next())?, hex_digit(rest.next())?);
            bytes.push(high << 4 | low);
        } else {
            bytes.push(byte);
        }
    }
    Ok(bytes)
}

fn hex_digit(byte: Option<u8>) -> Result<u8, BadEscape> {
    let value = byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or(BadEscape)?;
    u8::try_from(value).map_err(|_| BadEscape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes_and_all_else_for_itself() {
        assert_eq!(decode("a%2fb%2FB+é"), Ok("a/b/B+é".into()));
        assert_eq!(decode("%ff%00"), Ok(vec![0xff, 0]));
        for broken in ["%", "%a", "%ag", "%+1", "100%"] {
            assert_eq!(decode(broken), Err(BadEscape), "{broken}");
        }
    }
}

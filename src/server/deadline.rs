//! How long a gRPC client waits for its answer.

use std::time::Duration;

/// The header that says so.
pub(super) const HEADER: &str = "grpc-timeout";

/// What is kept of the client's time for the way of the answer: a tenth, and this at least.
const SHORTEST_WAY: Duration = Duration::from_millis(1);

/// How long a decision may wait for the store, so that the client still gets it. `None` if the header has no time in it,
/// in the form of <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>: at most eight digits and a unit.
pub(super) fn patience(header: &[u8]) -> Option<Duration> {
    let (unit, digits) = header.split_last()?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = str::from_utf8(digits).ok()?.parse().ok()?;
    let time = match unit {
        b'H' => Duration::from_secs(3600 * count),
        b'M' => Duration::from_secs(60 * count),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    };
    Some(time.saturating_sub(SHORTEST_WAY.max(time / 10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_time_and_a_millisecond_at_least_is_kept_for_the_answer() {
        for (header, micros) in [
            ("20m", 18_000),
            ("20000u", 18_000),
            ("5m", 4_000),
            ("1m", 0),
            ("500u", 0),
            ("0n", 0),
            ("2000000n", 1_000),
            ("1S", 900_000),
            ("1M", 54_000_000),
            ("1H", 3_240_000_000),
            ("99999999H", 99_999_999 * 3_240_000_000),
        ] {
            assert_eq!(patience(header.as_bytes()), Some(Duration::from_micros(micros)), "{header}");
        }
        for header in ["", "m", "5", "5 m", "-5m", "+5m", "1.5S", "123456789m", "5x", "\u{665}m"] {
            assert_eq!(patience(header.as_bytes()), None, "{header:?}");
        }
    }
}

/// The one who asks, as his `traceparent` names him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    /// His span is traced.
    pub(super) is_sampled: bool,
}

impl Caller {
    /// Reads a `traceparent` as <https://www.w3.org/TR/trace-context/> has it: version, trace, span and flags, as in
    /// `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`. A later version may go on after that.
    pub(super) fn read(header: &[u8]) -> Option<Self> {
        const LENGTH: usize = 55;
        let (known, more) = header.split_at_checked(LENGTH)?;
        if [known[2], known[35], known[52]] != [b'-'; 3] {
            return None;
        }
        let version = hexadecimal(&known[..2])?;
        let is_whole = more.is_empty() || version > 0 && more.starts_with(b"-");
        let trace_id = hexadecimal(&known[3..35])?;
        let span_id = u64::try_from(hexadecimal(&known[36..52])?).ok()?;
        let flags = hexadecimal(&known[53..])?;
        let is_valid = version != 0xff && is_whole && trace_id != 0 && span_id != 0;
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

/// Reads lower-case hexadecimal digits, 32 at most.
fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let caller = Caller::read(HEADER.as_bytes()).unwrap();
        assert_eq!(caller.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((caller.span_id, caller.is_sampled), (0xb7ad_6b71_6920_3331, true));
        let flags = |flags: &str| Caller::read(HEADER.replace("-01", flags).as_bytes()).unwrap().is_sampled;
        assert_eq!((flags("-00"), flags("-02"), flags("-03"), flags("-ff")), (false, false, true, true));
    }

    #[test]
    fn a_later_version_may_say_more() {
        assert!(Caller::read(HEADER.replacen("00", "01", 1).as_bytes()).is_some());
        assert!(Caller::read(format!("{}-more", HEADER.replacen("00", "cc", 1)).as_bytes()).is_some());
    }

    #[test]
    fn what_is_no_header_is_passed_over() {
        for wrong in [
            "",
            "00",
            &HEADER[..54],
            &format!("{HEADER}-more"),
            &format!("{HEADER}x"),
            &format!("{}x", HEADER.replacen("00", "01", 1)),
            &HEADER.replacen("00", "ff", 1),
            &HEADER.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            &HEADER.replace("b7ad6b7169203331", "0000000000000000"),
            &HEADER.to_uppercase(),
            &HEADER.replace("-b7", "_b7"),
            &HEADER.replace("0af7", "0a+7"),
        ] {
            assert_eq!(Caller::read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_passed_over(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Caller::read(&bytes);
        }
    }
}

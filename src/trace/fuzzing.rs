#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a finding is a panic")]

use super::caller::Caller;

/// Reads a `traceparent`. What is read is what stands there.
pub fn traceparent(bytes: &[u8]) {
    let Some(Caller { trace_id, span_id, is_sampled }) = Caller::read(bytes) else { return };
    let text = str::from_utf8(&bytes[..55]).expect("it is hexadecimal");
    assert_eq!(&text[3..52], format!("{trace_id:032x}-{span_id:016x}"));
    let flags = u8::from_str_radix(&text[53..], 16).expect("flags are a number");
    assert_eq!(flags & 1 == 1, is_sampled);
}

//! Envoy's question, as this service reads it from the wire.
//!
//! These messages are `envoy.service.ratelimit.v3.RateLimitRequest` and the descriptors in it, with one difference:
//! keys and values are bytes. Envoy puts raw header bytes into them. A string field would make the decoder refuse what
//! is not UTF-8, Envoy would count that as a failure of the service and let the request pass, and one odd byte in a
//! header would be a way around every limit. Bytes also need no copy: they are slices of the received buffer.

use std::fmt::Write;

use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};

use crate::limit::Unit;
use crate::percent::in_name;

/// Whether a request may pass: `envoy.service.ratelimit.v3.RateLimitRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RateLimitRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub domain: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    /// The cost of descriptors that name none themselves; 0 counts as 1.
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

/// What the request is in one respect: `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    /// A limit that stands in for the policy's.
    #[prost(message, optional, tag = "2")]
    pub limit: Option<LimitOverride>,
    /// The cost of this descriptor (a `google.protobuf.UInt64Value` on the wire); 0 looks without taking.
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<u64>,
    /// The hits are given back.
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

/// The most descriptors of a request. Each costs a hundred times the bytes that it takes on the wire, and Envoy sends one
/// for each of its rate limit actions.
pub const MAX_DESCRIPTORS: usize = 1_000;

/// The most entries of all descriptors of a request together.
pub const MAX_ENTRIES: usize = 10_000;

/// Why the bytes of a request are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableRequest {
    #[error("the message is no RateLimitRequest: {0}")]
    Malformed(#[from] DecodeError),
    #[error("the request has more than {MAX_DESCRIPTORS} descriptors: send it in parts")]
    TooManyDescriptors,
    #[error("the request has more than {MAX_ENTRIES} entries: send it in parts")]
    TooManyEntries,
}

impl RateLimitRequest {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// When it is no `RateLimitRequest`, or has more than [`MAX_DESCRIPTORS`] or [`MAX_ENTRIES`].
    pub fn read(message: Bytes) -> Result<Self, UnreadableRequest> {
        // Before any is made.
        let (mut descriptors, mut entries) = (0, 0);
        for_each_message(&message, 2, |descriptor| {
            descriptors += 1;
            for_each_message(descriptor, 1, |_| {
                entries += 1;
                Ok(())
            })
        })?;
        if descriptors > MAX_DESCRIPTORS {
            return Err(UnreadableRequest::TooManyDescriptors);
        }
        if entries > MAX_ENTRIES {
            return Err(UnreadableRequest::TooManyEntries);
        }
        Ok(Self::decode(message)?)
    }
}

/// Looks at each message in the field of this number.
fn for_each_message(
    mut message: &[u8],
    field: u32,
    mut look: impl FnMut(&[u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while message.has_remaining() {
        let (tag, wire_type) = decode_key(&mut message)?;
        let mut rest = message;
        skip_field(wire_type, tag, &mut message, DecodeContext::default())?;
        if tag == field && wire_type == WireType::LengthDelimited {
            decode_varint(&mut rest)?;
            look(&rest[..rest.len() - message.len()])?;
        }
    }
    Ok(())
}

/// What a text shows of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    WithValue,
    KeyAlone,
    Nothing,
}

impl Descriptor {
    /// A text for people, such as `tenant=acme|path=/export`, escaped as in the name of a bucket and cut at so many bytes.
    /// What is shown of each entry depends on its index.
    #[must_use]
    pub fn text(&self, shown: impl Fn(usize) -> Shown, longest: usize) -> String {
        let mut text = String::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let shown = shown(index);
            if shown == Shown::Nothing {
                continue;
            }
            if text.len() >= longest {
                break;
            }
            // No more than can be shown is escaped. Writing to a string does not fail.
            let beginning = |bytes: &Bytes| bytes.slice(..bytes.len().min(longest));
            let separator = if text.is_empty() { "" } else { "|" };
            let _ = write!(text, "{separator}{}", in_name(&beginning(&entry.key)));
            if shown == Shown::WithValue {
                let _ = write!(text, "={}", in_name(&beginning(&entry.value)));
            }
        }
        // All of it is ASCII.
        text.truncate(longest);
        text
    }
}

/// A key and its value, such as `tenant` and `acme`; raw bytes both.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LimitOverride {
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// A number of `envoy.type.v3.RateLimitUnit`.
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

impl LimitOverride {
    /// The unit, if Envoy's number for it is known.
    #[must_use]
    pub fn known_unit(&self) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit_number(*unit) == self.unit)
    }
}

/// The number of a unit in `envoy.type.v3.RateLimitUnit`, and in the response's enum of the same shape.
#[must_use]
pub const fn unit_number(unit: Unit) -> i32 {
    match unit {
        Unit::Second => 1,
        Unit::Minute => 2,
        Unit::Hour => 3,
        Unit::Day => 4,
        Unit::Month => 5,
        Unit::Year => 6,
        Unit::Week => 7,
    }
}

//! Envoy's messages as proto3 JSON: <https://protobuf.dev/programming-guides/json/>.
//!
//! Written in camelCase with zeros included. Read in camelCase or as in the .proto file, whole numbers also as text or
//! with an exponent, `null` as a field that is not there; a field that the message does not have is an error.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{self as wire, DescriptorStatus, rate_limit};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{self, Struct};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};

use crate::request::{self, Descriptor, LimitOverride, MAX_DESCRIPTORS, MAX_ENTRIES, RateLimitRequest};

/// Below 2^53 a float is exactly the whole number that was written.
const EXACT_FLOATS: f64 = 9_007_199_254_740_992.0;

pub(super) fn read_request(body: &[u8]) -> Result<RateLimitRequest, serde_json::Error> {
    serde_json::from_slice::<Object<RequestJson>>(body).map(|request| request.0.into())
}

pub(super) fn write_response(response: &RateLimitResponse) -> Value {
    let headers = |headers: &[envoy_types::pb::envoy::config::core::v3::HeaderValue]| -> Value {
        headers.iter().map(|header| json!({ "key": header.key, "value": header.value })).collect()
    };
    json!({
        "overallCode": code_name(response.overall_code),
        "statuses": response.statuses.iter().map(write_status).collect::<Value>(),
        "responseHeadersToAdd": headers(&response.response_headers_to_add),
        "requestHeadersToAdd": headers(&response.request_headers_to_add),
        "dynamicMetadata": response.dynamic_metadata.as_ref().map(write_struct),
    })
}

/// A `google.protobuf.Struct`, its keys in alphabetical order.
fn write_struct(content: &Struct) -> Value {
    let fields: BTreeMap<&String, Value> =
        content.fields.iter().map(|(key, value)| (key, write_value(value))).collect();
    fields.into_iter().map(|(key, value)| (key.clone(), value)).collect()
}

fn write_value(value: &protobuf::Value) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => json!(flag),
        // Its text is a number in JSON too, without a fraction where it is whole.
        Some(Kind::NumberValue(number)) => number.to_string().parse().unwrap_or_default(),
        Some(Kind::StringValue(text)) => json!(text),
        Some(Kind::ListValue(list)) => list.values.iter().map(write_value).collect(),
        Some(Kind::StructValue(content)) => write_struct(content),
    }
}

fn write_status(status: &DescriptorStatus) -> Value {
    json!({
        "code": code_name(status.code),
        "currentLimit": status.current_limit.as_ref().map(|limit| json!({
            "name": limit.name,
            "requestsPerUnit": limit.requests_per_unit,
            "unit": limit.unit().as_str_name(),
        })),
        "limitRemaining": status.limit_remaining,
        "durationUntilReset": status.duration_until_reset.as_ref().map(|duration| format!("{}s", duration.seconds)),
    })
}

fn code_name(code: i32) -> &'static str {
    wire::Code::try_from(code).unwrap_or(wire::Code::Unknown).as_str_name()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequestJson {
    domain: Option<String>,
    descriptors: Option<Few<Object<DescriptorJson>, MAX_DESCRIPTORS>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Whole<u32>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DescriptorJson {
    entries: Option<Few<Object<EntryJson>, MAX_ENTRIES>>,
    limit: Option<Object<LimitJson>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Whole<u64>>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryJson {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LimitJson {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Option<Whole<u32>>,
    unit: Option<UnitJson>,
}

/// A message, which is a JSON object and nothing else. (Left to itself serde reads a struct from a list too.)
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// No more than so many; the rest is not even read.
struct Few<T, const MOST: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FewVisitor(PhantomData))
    }
}

struct FewVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for FewVisitor<T, MOST> {
    type Value = Few<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = array.next_element()? {
            if elements.len() == MOST {
                return Err(de::Error::custom(format_args!(
                    "there are more than {MOST} of it: send the request in parts"
                )));
            }
            elements.push(element);
        }
        Ok(Few(elements))
    }
}

/// A unit by name or by number.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "unit must be \"SECOND\", \"MINUTE\", \"HOUR\", \"DAY\", \"WEEK\", \"MONTH\" or \"YEAR\""
)]
enum UnitJson {
    Number(i32),
    Name(UnitName),
}

/// The names of `envoy.type.v3.RateLimitUnit`.
struct UnitName(rate_limit::Unit);

impl<'de> Deserialize<'de> for UnitName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        rate_limit::Unit::from_str_name(&name).map(Self).ok_or_else(|| de::Error::custom("unknown unit"))
    }
}

impl From<RequestJson> for RateLimitRequest {
    fn from(json: RequestJson) -> Self {
        Self {
            domain: json.domain.unwrap_or_default().into(),
            descriptors: json
                .descriptors
                .map_or_else(Vec::new, |Few(descriptors)| descriptors)
                .into_iter()
                .map(|Object(descriptor)| descriptor.into())
                .collect(),
            hits_addend: json.hits_addend.map_or(0, |hits| hits.0),
        }
    }
}

impl From<DescriptorJson> for Descriptor {
    fn from(json: DescriptorJson) -> Self {
        let text = |text: Option<String>| Bytes::from(text.unwrap_or_default());
        Self {
            entries: json
                .entries
                .map_or_else(Vec::new, |Few(entries)| entries)
                .into_iter()
                .map(|Object(entry)| request::Entry { key: text(entry.key), value: text(entry.value) })
                .collect(),
            limit: json.limit.map(|Object(limit)| LimitOverride {
                requests_per_unit: limit.requests_per_unit.map_or(0, |amount| amount.0),
                unit: match limit.unit {
                    Some(UnitJson::Number(number)) => number,
                    Some(UnitJson::Name(UnitName(unit))) => unit.into(),
                    None => 0,
                },
            }),
            hits_addend: json.hits_addend.map(|hits| hits.0),
            is_negative_hits: json.is_negative_hits.unwrap_or_default(),
        }
    }
}

/// A whole number, as JSON number or as text; 64-bit numbers are usually written as text.
struct Whole<N>(N);

impl<'de, N: TryFrom<u64>> Deserialize<'de> for Whole<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor(PhantomData))
    }
}

struct WholeVisitor<N>(PhantomData<N>);

impl<N: TryFrom<u64>> Visitor<'_> for WholeVisitor<N> {
    type Value = Whole<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to 2^{}-1", 8 * size_of::<N>())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        N::try_from(number).map(Whole).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        if number.fract() == 0.0 && (0.0..EXACT_FLOATS).contains(&number) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
            return self.visit_u64(number as u64);
        }
        Err(E::invalid_value(de::Unexpected::Float(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.parse() {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RateLimitRequest, String> {
        read_request(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn both_spellings_and_all_forms_of_numbers_are_read() {
        let camel = read(
            r#"{"domain": "d", "hitsAddend": "7", "descriptors": [{"entries": [{"key": "k", "value": "v"}],
                "limit": {"requestsPerUnit": 1e2, "unit": "HOUR"}, "hitsAddend": "18446744073709551615",
                "isNegativeHits": true}]}"#,
        );
        let snake = read(
            r#"{"domain": "d", "hits_addend": 7, "descriptors": [{"entries": [{"key": "k", "value": "v"}],
                "limit": {"requests_per_unit": "100", "unit": 3}, "hits_addend": 18446744073709551615,
                "is_negative_hits": true}]}"#,
        );
        assert_eq!(camel, snake);
        assert_eq!(camel.unwrap().descriptors[0].hits_addend, Some(u64::MAX));
    }

    #[test]
    fn null_is_a_field_that_is_not_there() {
        assert_eq!(
            read(r#"{"domain": "d", "descriptors": [{"entries": null, "limit": null, "hitsAddend": null}]}"#),
            read(r#"{"domain": "d", "descriptors": [{}]}"#)
        );
    }

    #[test]
    fn what_cannot_be_meant_is_an_error_that_says_why() {
        for (text, reason) in [
            ("", "EOF"),
            ("[]", "expected a JSON object"),
            (r#"["d", [], 1]"#, "expected a JSON object"),
            (r#"{"descriptors": [[[["k", "v"]]]]}"#, "expected a JSON object"),
            (r#"{"domian": "d"}"#, "unknown field `domian`"),
            (r#"{"domain": "d", "domain": "e"}"#, "duplicate field"),
            (r#"{"hitsAddend": -1}"#, "whole number"),
            (r#"{"hitsAddend": 4294967296}"#, "whole number from 0 to 2^32-1"),
            (r#"{"hitsAddend": 1.5}"#, "whole number"),
            (r#"{"descriptors": [{"limit": {"unit": "FORTNIGHT"}}]}"#, "SECOND"),
            (r#"{"domain": "d"} x"#, "trailing"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

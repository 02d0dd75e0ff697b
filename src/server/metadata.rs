//! Dynamic metadata: what access logs and later filters of Envoy can read of a decision.
//!
//! `domain`, `descriptors`, `hitsAddend` and `metadata` are as envoyproxy/ratelimit sends them; the rest is ours.

use std::collections::HashMap;

use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value};

use crate::engine::{Code, Decision, Status};
use crate::policy::Metadata;
use crate::request::{Descriptor, Entry, RateLimitRequest};

pub(super) fn dynamic_metadata(decision: &Decision, request: &RateLimitRequest) -> Struct {
    let mut fields = HashMap::from([
        ("domain".to_owned(), text(String::from_utf8_lossy(&request.domain))),
        ("descriptors".to_owned(), list(request.descriptors.iter().map(describe))),
        ("source".to_owned(), text(decision.source.name())),
        ("refusedBy".to_owned(), descriptors_that(decision, request, Status::refuses)),
        // Over, and yet not refusing: in shadow mode, or a quota beside others that are not used up.
        ("wouldRefuse".to_owned(), descriptors_that(decision, request, |status| status.prevented_by.is_some())),
    ]);
    if request.hits_addend > 0 {
        fields.insert("hitsAddend".to_owned(), number(f64::from(request.hits_addend)));
    }
    let metadata = merged_metadata(&decision.statuses);
    if !metadata.fields.is_empty() {
        fields.insert("metadata".to_owned(), value(Kind::StructValue(metadata)));
    }
    Struct { fields }
}

fn describe(descriptor: &Descriptor) -> Value {
    let mut fields =
        HashMap::from([("entries".to_owned(), list(descriptor.entries.iter().map(|entry| text(pair(entry)))))]);
    if let Some(limit) = &descriptor.limit {
        let unit = limit.known_unit().map_or("unknown", |unit| unit.name()).to_uppercase();
        let limit = format!("requests_per_unit:{} unit:{unit}", limit.requests_per_unit);
        fields.insert("limit".to_owned(), text(limit));
    }
    if let Some(hits) = descriptor.hits_addend {
        #[expect(clippy::cast_precision_loss, reason = "a Struct has no other numbers")]
        fields.insert("hitsAddend".to_owned(), number(hits as f64));
    }
    value(Kind::StructValue(Struct { fields }))
}

/// The descriptors with such a status, as `key=value,key=value` each.
fn descriptors_that(decision: &Decision, request: &RateLimitRequest, is_meant: impl Fn(&Status) -> bool) -> Value {
    let statuses = decision.statuses.iter().zip(&request.descriptors);
    list(statuses.filter(|(status, _)| is_meant(status)).map(|(_, descriptor)| {
        let pairs: Vec<String> = descriptor.entries.iter().map(pair).collect();
        text(pairs.join(","))
    }))
}

fn pair(entry: &Entry) -> String {
    format!("{}={}", String::from_utf8_lossy(&entry.key), String::from_utf8_lossy(&entry.value))
}

/// The metadata of the rules that let the request pass. What several of them say is the first one's, mappings joined.
fn merged_metadata(statuses: &[Status]) -> Struct {
    let mut merged = Struct::default();
    for status in statuses.iter().filter(|status| status.code == Code::Ok) {
        if let Some(metadata) = &status.metadata {
            merge(&mut merged, metadata);
        }
    }
    merged
}

fn merge(into: &mut Struct, metadata: &Metadata) {
    for (key, json) in metadata {
        match (into.fields.get_mut(key).map(|value| &mut value.kind), json) {
            (None, _) => {
                into.fields.insert(key.clone(), from_json(json));
            }
            (Some(Some(Kind::StructValue(first))), serde_json::Value::Object(second)) => merge(first, second),
            (Some(_), _) => {}
        }
    }
}

fn from_json(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => value(Kind::NullValue(0)),
        Json::Bool(flag) => value(Kind::BoolValue(*flag)),
        Json::Number(n) => number(n.as_f64().unwrap_or(f64::NAN)),
        Json::String(content) => text(content.as_str()),
        Json::Array(items) => list(items.iter().map(from_json)),
        Json::Object(entries) => {
            let mut fields = Struct::default();
            merge(&mut fields, entries);
            value(Kind::StructValue(fields))
        }
    }
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn text(text: impl Into<String>) -> Value {
    value(Kind::StringValue(text.into()))
}

fn number(number: f64) -> Value {
    value(Kind::NumberValue(number))
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    value(Kind::ListValue(ListValue { values: values.collect() }))
}

use serde_json::{Number, Value};

use super::reader::Reader;
use super::rule::Metadata;
use super::yaml::{Kind, Node, Scalar};

/// Reads `metadata`, any mapping at all. `None` if it is null or a fault.
pub(super) fn read_metadata(reader: &mut Reader<'_, '_>, node: &Node) -> Option<Metadata> {
    match json(node) {
        Value::Object(metadata) => return Some(metadata),
        Value::Null => {}
        _ => reader.wrong(node, "metadata", "a mapping"),
    }
    None
}

/// The same value as JSON. As deep as the node, which has a bound.
fn json(node: &Node) -> Value {
    match &node.kind {
        Kind::Null | Kind::Broken => Value::Null,
        Kind::Scalar(Scalar { text, is_plain: true }) => plain(text),
        Kind::Scalar(Scalar { text, .. }) => Value::from(&**text),
        Kind::List(list) => list.items.iter().map(json).collect(),
        Kind::Map(map) => map.items.iter().map(|(key, value)| (key.text.to_string(), json(value))).collect(),
    }
}

/// A plain scalar by YAML's core schema. Infinities and what is not a number stay text, because JSON has neither.
fn plain(text: &str) -> Value {
    match text {
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let number = if let Some(digits) = text.strip_prefix("0x") {
        u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')).map(Number::from)
    } else if let Some(digits) = text.strip_prefix("0o") {
        u64::from_str_radix(digits, 8).ok().filter(|_| !digits.starts_with('+')).map(Number::from)
    } else if is_number {
        let whole = text.parse::<u64>().map(Number::from).or_else(|_| text.parse::<i64>().map(Number::from));
        whole.ok().or_else(|| Number::from_f64(text.parse().ok()?))
    } else {
        None
    };
    number.map_or_else(|| Value::from(text), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_have_the_types_of_the_core_schema() {
        for (text, value) in [
            ("true", json!(true)),
            ("FALSE", json!(false)),
            ("yes", json!("yes")),
            ("12", json!(12)),
            ("+12", json!(12)),
            ("-12", json!(-12)),
            ("0012", json!(12)),
            ("0x1f", json!(31)),
            ("0o17", json!(15)),
            ("0x+1", json!("0x+1")),
            ("1.5", json!(1.5)),
            ("1e3", json!(1000.0)),
            ("18446744073709551615", json!(u64::MAX)),
            ("18446744073709551616", json!(18_446_744_073_709_551_616.0)),
            (".inf", json!(".inf")),
            ("1e999", json!("1e999")),
            ("10.0.0.1", json!("10.0.0.1")),
            ("2024-01-01", json!("2024-01-01")),
            ("-", json!("-")),
        ] {
            assert_eq!(plain(text), value, "{text}");
        }
    }
}

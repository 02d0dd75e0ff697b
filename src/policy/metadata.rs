use serde_json::{Number, Value};

use super::fault::Position;
use super::number::Numeral;
use super::reader::Reader;
use super::rule::Metadata;
use super::yaml::{Key, Kind, Node, Scalar};

/// The deepest nesting, the metadata itself included. Envoy reads at most 100 messages inside each other, and each level
/// takes three: a `Struct`, an entry of its map, and a `Value`.
const DEEPEST: u32 = 16;

/// Reads `metadata`, any mapping at all. `None` if it is null or a fault.
pub(super) fn read_metadata(reader: &mut Reader<'_, '_>, node: &Node) -> Option<Metadata> {
    match json(node, 0) {
        Ok(Value::Object(metadata)) => return Some(metadata),
        Ok(Value::Null) => {}
        Ok(_) => reader.wrong(node, "metadata", "a mapping"),
        Err(TooDeep(at)) => {
            reader.fault(at, format_args!("metadata is nested more than {DEEPEST} deep here: flatten it"));
        }
    }
    None
}

/// A list or mapping is one level too deep.
struct TooDeep(Position);

/// The same value as JSON, inside so many lists and mappings.
fn json(node: &Node, depth: u32) -> Result<Value, TooDeep> {
    Ok(match &node.kind {
        Kind::Null | Kind::Broken => Value::Null,
        Kind::Scalar(Scalar { text, is_plain: true }) => plain(text),
        Kind::Scalar(Scalar { text, .. }) => Value::from(&**text),
        Kind::List(_) | Kind::Map(_) if depth == DEEPEST => return Err(TooDeep(node.at)),
        Kind::List(list) => list.items.iter().map(|item| json(item, depth + 1)).collect::<Result<_, _>>()?,
        Kind::Map(map) => {
            let entry = |(key, value): &(Key, Node)| Ok((key.text.to_string(), json(value, depth + 1)?));
            map.items.iter().map(entry).collect::<Result<_, _>>()?
        }
    })
}

/// A plain scalar by the core schema of YAML 1.2, as other readers of the file take it. So `0012` is 12 here and a fault
/// in a limit, and `1_000`, `0b11` and `yes` are texts here and elsewhere 1000, 3 and true.
fn plain(text: &str) -> Value {
    match text {
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let numeral = Numeral::read(text).filter(|numeral| numeral.is_of_core_schema());
    numeral.and_then(number).map_or_else(|| Value::from(text), Value::Number)
}

/// `None` if JSON has no such number: it is too large even for a double.
fn number(numeral: Numeral<'_>) -> Option<Number> {
    let whole = match numeral.whole() {
        Some(whole) if numeral.is_negative() => 0_i64.checked_sub_unsigned(whole).map(Number::from),
        whole => whole.map(Number::from),
    };
    let float = || numeral.decimal().map(|number| if numeral.is_negative() { -number } else { number });
    whole.or_else(|| Number::from_f64(float()?))
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
            ("-0012", json!(-12)),
            ("-0", json!(0)),
            ("1_000", json!("1_000")),
            ("0b11", json!("0b11")),
            ("+0x1f", json!("+0x1f")),
            ("0x1f", json!(31)),
            ("0xffffffffffffffffff", json!("0xffffffffffffffffff")),
            ("0o17", json!(15)),
            ("0x+1", json!("0x+1")),
            ("1.5", json!(1.5)),
            ("-.5", json!(-0.5)),
            ("1e3", json!(1000.0)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("-9223372036854775809", json!(-9_223_372_036_854_775_809.0)),
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

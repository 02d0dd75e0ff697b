use std::collections::HashMap;

use parking_lot::Mutex;

use super::decision::Code;
use crate::percent::in_name;
use crate::request::Descriptor;
use crate::store::shortened;

/// What stands for all values that are too many. In the path of a value braces are escaped.
const OVERFLOW: &str = "{overflow}";

/// How often descriptors were decided, by the values that they had: of so many values at most, and of all others together.
#[derive(Debug, Default)]
pub struct ValueTallies(Mutex<Option<Box<Known>>>);

#[derive(Debug, Default)]
struct Known {
    values: HashMap<Box<str>, ByCode>,
    others: ByCode,
}

/// By the index of the code.
type ByCode = [u64; Code::ALL.len()];

impl ValueTallies {
    pub(super) fn count(&self, shown: &[bool], descriptor: &Descriptor, code: Code, most: usize) {
        let value = name(shown, descriptor);
        let mut known = self.0.lock();
        let Known { values, others } = &mut **known.get_or_insert_default();
        let is_known = values.contains_key(&*value) || values.len() < most;
        let by_code = if is_known { values.entry(value.into()).or_default() } else { others };
        by_code[code as usize] += 1;
    }

    /// Shows what was counted of each value and code.
    pub fn for_each<E>(&self, mut visit: impl FnMut(&str, Code, u64) -> Result<(), E>) -> Result<(), E> {
        let known = self.0.lock();
        let Some(Known { values, others }) = known.as_deref() else { return Ok(()) };
        let all = values.iter().map(|(value, by_code)| (&**value, by_code)).chain([(OVERFLOW, others)]);
        for (value, by_code) in all {
            for (code, count) in Code::ALL.into_iter().zip(*by_code).filter(|(_, count)| *count > 0) {
                visit(value, code, count)?;
            }
        }
        Ok(())
    }
}

/// `tenant=acme|path=/export`: the entries that are shown, escaped as in the name of a bucket, and as long as such a name
/// at most.
fn name(shown: &[bool], descriptor: &Descriptor) -> String {
    let mut name = String::new();
    for (entry, _) in descriptor.entries.iter().zip(shown).filter(|(_, is_shown)| **is_shown) {
        if !name.is_empty() {
            name.push('|');
        }
        name.push_str(&in_name(&entry.key).to_string());
        name.push('=');
        name.push_str(&in_name(&entry.value).to_string());
    }
    shortened(name)
}

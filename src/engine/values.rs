use std::collections::HashMap;

use parking_lot::Mutex;

use super::decision::Code;
use crate::request::{Descriptor, Shown};

/// What stands for all values that are too many. In the path of a value braces are escaped.
const OVERFLOW: &str = "{overflow}";

/// Longer values are cut, in bytes, and those that begin alike are one.
const LONGEST_TEXT: usize = 200;

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
        let is_shown = |index| if shown.get(index) == Some(&true) { Shown::WithValue } else { Shown::Nothing };
        let value = descriptor.text(is_shown, LONGEST_TEXT);
        let mut known = self.0.lock();
        let Known { values, others } = &mut **known.get_or_insert_default();
        if let Some(by_code) = values.get_mut(&*value) {
            by_code[code as usize] += 1;
        } else if values.len() < most {
            values.entry(value.into()).or_default()[code as usize] += 1;
        } else {
            others[code as usize] += 1;
        }
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

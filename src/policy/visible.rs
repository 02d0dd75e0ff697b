//! Texts from policies and requests, shown so that nothing in them is hidden or obeyed by a terminal.

use std::fmt;

/// Appends `text` with every character that could not be seen, or that a terminal might obey, written as an escape.
pub(super) fn push_visible(text: &str, to: &mut String) {
    for character in text.chars() {
        match character {
            '\t' => to.push(' '),
            // These would be escaped only as part of a literal of Rust.
            '"' | '\'' | '\\' => to.push(character),
            _ => to.extend(character.escape_debug()),
        }
    }
}

/// A text as people see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible<'t>(pub(crate) &'t str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut visible = String::with_capacity(self.0.len());
        push_visible(self.0, &mut visible);
        f.write_str(&visible)
    }
}

/// Bytes as text: what is not UTF-8 as `\xff`. To read, not to compare: a text may hold a backslash itself.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Bytes as text, of a long one only the beginning: keys and values may be as long as a file.
pub(super) fn cropped(bytes: &[u8]) -> String {
    const MOST: usize = 200;
    match bytes.get(..MOST) {
        Some(beginning) if bytes.len() > MOST => readable(beginning) + "…",
        _ => readable(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_are_shown_by_their_numbers() {
        assert_eq!(readable(b"caf\xc3\xa9 \xff\x80!"), "café \\xff\\x80!");
        assert_eq!(Visible("a\u{1b}[31m\u{202e}").to_string(), "a\\u{1b}[31m\\u{202e}");
    }
}

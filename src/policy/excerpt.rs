use std::fmt;

use super::visible::push_visible;

/// Characters shown on each side of the place that an excerpt points at.
const REACH: usize = 80;

/// The line of a policy file in which a fault stands, cropped around it, with a caret under its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    number: u32,
    text: Box<str>,
    caret: usize,
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number.to_string();
        let margin = number.len();
        writeln!(f, "  {number} | {}", self.text)?;
        write!(f, "  {:margin$} | {:>caret$}", "", "^", caret = self.caret + 1)
    }
}

/// Reads a text once from its beginning to its end, and takes excerpts on the way.
#[derive(Debug)]
pub(super) struct Excerpts<'t> {
    text: &'t str,
    line: u32,
    column: u32,
    line_starts: usize,
    offset: usize,
}

impl<'t> Excerpts<'t> {
    pub(super) const fn of(text: &'t str) -> Self {
        Self { text, line: 1, column: 1, line_starts: 0, offset: 0 }
    }

    /// The excerpt at a line and column, both from 1, which must not be before those of the last call.
    /// `None` when the text has no such line.
    pub(super) fn at(&mut self, line: u32, column: u32) -> Option<Excerpt> {
        while self.line < line {
            let rest = &self.text[self.offset..];
            let length = rest.bytes().position(|byte| is_break(char::from(byte)))?;
            let break_length = if rest[length..].starts_with("\r\n") { 2 } else { 1 };
            let after_break = self.offset + length + break_length;
            (self.line, self.column) = (self.line + 1, 1);
            (self.line_starts, self.offset) = (after_break, after_break);
        }
        // A line may be as long as the file, so that no step may look for its end.
        let rest = self.text[self.offset..].chars().take_while(|character| !is_break(*character));
        for character in rest.zip(self.column..column).map(|(character, _)| character) {
            self.offset += character.len_utf8();
            self.column += 1;
        }
        Some(self.here())
    }

    fn here(&self) -> Excerpt {
        let before = &self.text[self.line_starts..self.offset];
        let from = before.char_indices().rev().nth(REACH - 1).map_or(0, |(at, _)| at);
        let mut rest = self.text[self.offset..].chars().take_while(|character| !is_break(*character));
        let after: String = rest.by_ref().take(REACH).collect();

        let mut text = String::new();
        if from > 0 {
            text.push('…');
        }
        push_visible(&before[from..], &mut text);
        let caret = text.chars().count();
        push_visible(&after, &mut text);
        if rest.next().is_some() {
            text.push('…');
        }
        Excerpt { number: self.line, text: text.into(), caret }
    }
}

const fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, line: u32, column: u32) -> String {
        Excerpts::of(text).at(line, column).map_or(String::new(), |excerpt| excerpt.to_string())
    }

    #[test]
    fn the_caret_stands_under_the_column() {
        assert_eq!(shown("a: 1\nbc: 2\n", 2, 5), "  2 | bc: 2\n    |     ^");
        assert_eq!(shown("é: x", 1, 4), "  1 | é: x\n    |    ^");
        assert_eq!(shown("\ta", 1, 2), "  1 |  a\n    |  ^");
    }

    #[test]
    fn every_kind_of_line_break_counts() {
        assert_eq!(shown("a\r\nb\rc\nd", 4, 1), "  4 | d\n    | ^");
        assert_eq!(shown("a\n", 2, 1), "  2 | \n    | ^");
        assert_eq!(shown("a\n", 3, 1), "");
    }

    #[test]
    fn places_are_taken_in_order_from_one_reading() {
        let mut excerpts = Excerpts::of("ab cd\nef");
        assert_eq!(excerpts.at(1, 1).map(|excerpt| excerpt.caret), Some(0));
        assert_eq!(excerpts.at(1, 4).map(|excerpt| excerpt.caret), Some(3));
        assert_eq!(excerpts.at(1, 4).map(|excerpt| excerpt.caret), Some(3));
        assert_eq!(excerpts.at(2, 99).map(|excerpt| excerpt.caret), Some(2));
    }

    #[test]
    fn a_long_line_is_cropped_around_the_place() {
        let excerpt = Excerpts::of(&format!("{}X{}", "a".repeat(5000), "b".repeat(5000))).at(1, 5001).unwrap();
        assert_eq!(&*excerpt.text, format!("…{}X{}…", "a".repeat(REACH), "b".repeat(REACH - 1)));
        assert_eq!(excerpt.text.chars().nth(excerpt.caret), Some('X'));
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        assert_eq!(shown("\u{1b}[2J\u{202e}x'\"\\", 1, 1), "  1 | \\u{1b}[2J\\u{202e}x'\"\\\n    | ^");
    }
}

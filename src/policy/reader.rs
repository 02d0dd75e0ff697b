use std::fmt;
use std::rc::Rc;

use super::Defaults;
use super::fault::{FileFaults, Position, Quoted};
use super::known::{self, Level};
use super::number::{NotANumber, read_u32};
use super::yaml::{Key, Kind, Node, Scalar};

/// Reads values of one file's nodes as what they should be. Where one is something else, it tells the fault and returns
/// nothing, so that reading goes on.
#[derive(Debug)]
pub(super) struct Reader<'f, 's> {
    pub(super) faults: FileFaults<'f, 's>,
    pub(super) defaults: Defaults,
}

impl Reader<'_, '_> {
    pub(super) fn fault(&mut self, at: Position, message: fmt::Arguments<'_>) {
        self.faults.fault(at, message);
    }

    /// Tells of an unknown key, and returns the one that was probably meant, which is then not missing.
    pub(super) fn unknown_key(&mut self, key: &Key, level: Level) -> Option<&'static str> {
        if self.faults.sink.is_full() {
            return None;
        }
        let (message, meant) = known::unknown_key(&key.text, level);
        self.fault(key.at, format_args!("{message}"));
        meant
    }

    /// The node is not what it should be: tells so, unless it has been told already.
    pub(super) fn wrong(&mut self, node: &Node, what: &str, should_be: &str) {
        if !matches!(node.kind, Kind::Broken) {
            self.fault(node.at, format_args!("{what} must be {should_be}, and this is {}", Described(&node.kind)));
        }
    }

    /// The entries of a mapping.
    pub(super) fn map<'n>(&mut self, what: &str, node: &'n Node, should_be: &str) -> Option<&'n [(Key, Node)]> {
        if let Kind::Map(map) = &node.kind {
            return Some(&map.items);
        }
        self.wrong(node, what, should_be);
        None
    }

    /// The items of a list; of null, none.
    pub(super) fn list<'n>(&mut self, what: &str, node: &'n Node) -> &'n [Node] {
        match &node.kind {
            Kind::List(list) => return &list.items,
            Kind::Null => {}
            _ => self.wrong(node, what, "a list"),
        }
        &[]
    }

    /// A text, with or without quotes, that is not empty.
    pub(super) fn text(&mut self, what: &str, node: &Node) -> Option<Rc<str>> {
        match &node.kind {
            Kind::Scalar(scalar) if !scalar.text.is_empty() => return Some(Rc::clone(&scalar.text)),
            Kind::Scalar(_) => self.fault(node.at, format_args!("{what} is empty: give it a text")),
            Kind::Null => self
                .fault(node.at, format_args!("{what} is null: give it a text (in quotes, if the word null is meant)")),
            _ => self.wrong(node, what, "a text"),
        }
        None
    }

    /// A text that may be empty or null, which are the same as if it were absent.
    pub(super) fn optional_text(&mut self, what: &str, node: &Node) -> Option<Rc<str>> {
        match &node.kind {
            Kind::Null => None,
            Kind::Scalar(Scalar { text, .. }) if text.is_empty() => None,
            _ => self.text(what, node),
        }
    }

    pub(super) fn flag(&mut self, what: &str, node: &Node) -> Option<bool> {
        if let Kind::Scalar(Scalar { text, is_plain }) = &node.kind
            && let Some(flag) = flag_from_word(text)
        {
            if *is_plain {
                return Some(flag);
            }
            self.fault(node.at, format_args!("{what} must be true or false: remove the quotes"));
            return None;
        }
        self.wrong(node, what, "true or false");
        None
    }

    /// A whole number from 0 to 2³²−1.
    pub(super) fn number(&mut self, what: &str, node: &Node) -> Option<u32> {
        if let Kind::Scalar(Scalar { text, is_plain }) = &node.kind {
            match read_u32(text) {
                Ok(number) if *is_plain => return Some(number),
                Ok(_) => {
                    self.fault(node.at, format_args!("{what} must be a number: remove the quotes"));
                    return None;
                }
                Err(NotANumber::LeadingZero) if *is_plain => {
                    self.fault(
                        node.at,
                        format_args!("{what} begins with 0, which some take for octal: remove the zero, or write 0o"),
                    );
                    return None;
                }
                Err(_) => {}
            }
        }
        self.wrong(node, what, "a whole number from 0 to 4294967295");
        None
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&mut self, what: &str, node: &Node, choices: &[(&str, T)]) -> Option<T> {
        let choice = match &node.kind {
            Kind::Scalar(scalar) => choices.iter().find(|(word, _)| *word == &*scalar.text),
            _ => None,
        };
        if choice.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.wrong(node, what, &format!("one of {}", words.join(", ")));
        }
        choice.map(|(_, choice)| *choice)
    }
}

fn flag_from_word(word: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 3]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
    if is_one_of(["true", "yes", "on"]) {
        Some(true)
    } else if is_one_of(["false", "no", "off"]) {
        Some(false)
    } else {
        None
    }
}

/// What a node is, for messages.
struct Described<'n>(&'n Kind);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Null => f.write_str("null"),
            Kind::Scalar(scalar) => Quoted(&scalar.text).fmt(f),
            Kind::List(_) => f.write_str("a list"),
            Kind::Map(_) => f.write_str("a mapping"),
            Kind::Broken => f.write_str("broken"),
        }
    }
}

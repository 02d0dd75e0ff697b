use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::excerpt::{Excerpt, Excerpts};
use super::visible::push_visible;

/// More faults than anybody reads. A hostile file could otherwise make millions of them.
const MOST_FAULTS: usize = 1000;

/// The longest piece of a policy that a message repeats, in characters.
const LONGEST_QUOTE: usize = 60;

/// Something wrong with a policy, or worth a second look, and where.
///
/// It is shown as `file:line:column: what is wrong, and what to do`, with the line of the file under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the file, as it was found.
    pub(super) file: Arc<str>,
    /// From 1; 0 if the fault is not in the file's text (it cannot be read, say).
    pub(super) line: u32,
    /// From 1 and in characters; 0 as for the line.
    pub(super) column: u32,
    /// What is wrong, and what to do.
    pub(super) message: Box<str>,
    excerpt: Option<Excerpt>,
    severity: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Fault,
    Note,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        let severity = if self.severity == Severity::Note { "note: " } else { "" };
        write!(f, ": {severity}{}", self.message)?;
        self.excerpt.as_ref().map_or(Ok(()), |excerpt| write!(f, "\n{excerpt}"))
    }
}

/// All faults of a policy that cannot be used, in the order of their places. There is at least one.
#[derive(Debug, PartialEq, Eq)]
pub struct Faults {
    /// By file, line and column.
    pub(super) faults: Vec<Fault>,
    are_all: bool,
}

impl Faults {
    /// How many are told.
    #[must_use]
    pub fn count(&self) -> usize {
        self.faults.len()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}{fault}")?;
        }
        if self.are_all {
            Ok(())
        } else {
            write!(f, "\nthere are more faults than these: correct them and check again")
        }
    }
}

impl std::error::Error for Faults {}

/// A line and a column of a text, both from 1; the column is in characters. 0 and 0 mean the file as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Position {
    pub(super) const WHOLE_FILE: Self = Self { line: 0, column: 0 };
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// A position in one of the policy's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// Which file, in their order.
    pub(super) file: u32,
    pub(super) position: Position,
}

/// A file of the policy.
#[derive(Debug)]
pub(super) struct Source {
    /// Its path as it was found, for messages.
    pub(super) name: Arc<str>,
    pub(super) text: String,
    /// Why it cannot be read as YAML; the text is then only for the message.
    pub(super) problem: Option<(Position, String)>,
}

/// Collects what is found to be wrong, so that everything can be told at once.
#[derive(Debug)]
pub(super) struct FaultSink<'s> {
    sources: &'s [Source],
    faults: Found,
    notes: Found,
}

/// Where the parts of one file tell what is wrong with it.
#[derive(Debug)]
pub(super) struct FileFaults<'f, 's> {
    /// Which file, in their order.
    pub(super) file: u32,
    pub(super) sink: &'f mut FaultSink<'s>,
}

impl FileFaults<'_, '_> {
    pub(super) const fn place(&self, position: Position) -> Place {
        Place { file: self.file, position }
    }

    pub(super) fn fault(&mut self, at: Position, message: fmt::Arguments<'_>) {
        self.sink.fault(self.place(at), message);
    }

    pub(super) fn note(&mut self, at: Position, message: fmt::Arguments<'_>) {
        self.sink.note(self.place(at), message);
    }

    pub(super) fn file_name(&self) -> Arc<str> {
        self.sink.file_name(self.file)
    }
}

/// Messages by place, without repetitions: what stands behind an anchor is read once for each of its aliases.
#[derive(Debug, Default)]
struct Found {
    messages: HashSet<(Place, Box<str>)>,
    are_all: bool,
}

impl<'s> FaultSink<'s> {
    pub(super) fn new(sources: &'s [Source]) -> Self {
        let none = || Found { messages: HashSet::new(), are_all: true };
        Self { sources, faults: none(), notes: none() }
    }

    pub(super) fn fault(&mut self, place: Place, message: fmt::Arguments<'_>) {
        self.faults.add(place, message);
    }

    pub(super) fn note(&mut self, place: Place, message: fmt::Arguments<'_>) {
        self.notes.add(place, message);
    }

    /// Whether there are more faults than are kept, so that what is found now would be lost.
    pub(super) fn is_full(&self) -> bool {
        !self.faults.are_all
    }

    /// The name of a file of the policy.
    pub(super) fn file_name(&self, file: u32) -> Arc<str> {
        self.source(file).map_or_else(|| Arc::from(""), |source| Arc::clone(&source.name))
    }

    /// A place as messages about another place name it.
    pub(super) fn describe(&self, place: Place) -> String {
        let Position { line, column } = place.position;
        format!("{}:{line}:{column}", self.file_name(place.file))
    }

    /// The notes, if there are no faults.
    pub(super) fn finish(self) -> Result<Vec<Fault>, Faults> {
        if self.faults.messages.is_empty() {
            return Ok(self.located(&self.notes, Severity::Note));
        }
        Err(Faults { faults: self.located(&self.faults, Severity::Fault), are_all: self.faults.are_all })
    }

    fn source(&self, file: u32) -> Option<&'s Source> {
        self.sources.get(usize::try_from(file).ok()?)
    }

    fn located(&self, found: &Found, severity: Severity) -> Vec<Fault> {
        let mut sorted: Vec<&(Place, Box<str>)> = found.messages.iter().collect();
        sorted.sort_unstable();
        let mut faults = Vec::with_capacity(sorted.len());
        for of_one_file in sorted.chunk_by(|(one, _), (next, _)| one.file == next.file) {
            let Some(source) = of_one_file.first().and_then(|(place, _)| self.source(place.file)) else { continue };
            let mut excerpts = Excerpts::of(&source.text);
            for (Place { position, .. }, message) in of_one_file {
                let Position { line, column } = *position;
                let excerpt = if line > 0 { excerpts.at(line, column) } else { None };
                let message = message.clone();
                faults.push(Fault { file: Arc::clone(&source.name), line, column, message, excerpt, severity });
            }
        }
        faults
    }
}

impl Found {
    fn add(&mut self, place: Place, message: fmt::Arguments<'_>) {
        if !self.are_all {
            return;
        }
        let mut visible = String::new();
        push_visible(&message.to_string(), &mut visible);
        let found = (place, visible.into());
        if self.messages.len() < MOST_FAULTS {
            self.messages.insert(found);
        } else {
            self.are_all = self.messages.contains(&found);
        }
    }
}

/// A piece of a policy as messages repeat it: in quotes, and cropped.
#[derive(Debug)]
pub(super) struct Quoted<'t>(pub(super) &'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(LONGEST_QUOTE) {
            Some((end, _)) => write!(f, "\"{}…\"", &self.0[..end]),
            None => write!(f, "\"{}\"", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Vec<Source> {
        vec![
            Source { name: "one.yaml".into(), text: "a: 1\nb: 2\n".into(), problem: None },
            Source { name: "two.yaml".into(), text: "c: 3\n".into(), problem: None },
        ]
    }

    fn place(file: u32, line: u32, column: u32) -> Place {
        Place { file, position: Position { line, column } }
    }

    #[test]
    fn faults_come_in_the_order_of_their_places_each_once() {
        let sources = sources();
        let mut sink = FaultSink::new(&sources);
        sink.fault(place(1, 1, 1), format_args!("third"));
        sink.fault(place(0, 2, 4), format_args!("second"));
        sink.fault(place(0, 2, 1), format_args!("first"));
        sink.fault(place(0, 2, 1), format_args!("first"));
        let faults = sink.finish().unwrap_err();
        assert_eq!(
            faults.to_string(),
            "one.yaml:2:1: first\n  2 | b: 2\n    | ^\n\
             one.yaml:2:4: second\n  2 | b: 2\n    |    ^\n\
             two.yaml:1:1: third\n  1 | c: 3\n    | ^"
        );
    }

    #[test]
    fn a_fault_of_a_whole_file_has_no_line() {
        let sources = sources();
        let mut sink = FaultSink::new(&sources);
        sink.fault(Place { file: 0, position: Position::WHOLE_FILE }, format_args!("cannot be read"));
        assert_eq!(sink.finish().unwrap_err().to_string(), "one.yaml: cannot be read");
    }

    #[test]
    fn notes_are_told_only_of_a_policy_without_faults() {
        let sources = sources();
        let mut sink = FaultSink::new(&sources);
        sink.note(place(0, 1, 4), format_args!("look again"));
        let notes = sink.finish().unwrap();
        assert_eq!(notes[0].to_string(), "one.yaml:1:4: note: look again\n  1 | a: 1\n    |    ^");
    }

    #[test]
    fn what_a_terminal_would_obey_never_reaches_it() {
        let sources = sources();
        let mut sink = FaultSink::new(&sources);
        sink.fault(place(0, 1, 1), format_args!("unknown key {}", Quoted("\u{1b}[31m")));
        assert_eq!(&*sink.finish().unwrap_err().faults[0].message, "unknown key \"\\u{1b}[31m\"");
    }

    #[test]
    fn as_many_faults_as_are_told_are_all_however_often_they_are_found() {
        let sources = sources();
        let mut sink = FaultSink::new(&sources);
        for column in (0..1000).chain(0..1000) {
            sink.fault(place(0, 1, column), format_args!("wrong"));
        }
        assert!(!sink.is_full());
        let faults = sink.finish().unwrap_err();
        assert_eq!(faults.faults.len(), MOST_FAULTS);
        assert!(faults.are_all);
    }

    #[test]
    fn a_flood_of_faults_is_cut_and_said_to_be() {
        let sources = sources();
        let mut sink = FaultSink::new(&sources);
        for column in 0..5000 {
            sink.fault(place(0, 1, column), format_args!("{}", Quoted(&"x".repeat(500))));
        }
        assert!(sink.is_full());
        let faults = sink.finish().unwrap_err();
        assert_eq!(faults.faults.len(), MOST_FAULTS);
        assert!(faults.to_string().ends_with("there are more faults than these: correct them and check again"));
    }
}

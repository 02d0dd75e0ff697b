use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::super::fault::{FileFaults, Position, Quoted};
use super::{Collection, Key, Kind, Node, Scalar, Size};

/// The most nodes of one file, aliases expanded: several times what a policy of 100,000 rules has.
const MOST_NODES: u64 = 5_000_000;

/// The deepest nesting, aliases expanded. Everything that walks a file's nodes recursively relies on it.
const DEEPEST: u32 = 255;

/// Reads the one document of a YAML text. Tells all faults; `None` after one that makes the rest meaningless.
/// A text without a document is a null node.
pub(in super::super) fn compose(text: &str, faults: &mut FileFaults<'_, '_>) -> Option<Node> {
    let mut composer = Composer { faults, anchors: HashMap::new(), open: Vec::new(), root: None, nodes: 0 };
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        block_nesting_limit: DEEPEST as usize,
        flow_nesting_limit: DEEPEST as usize,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => composer.take(event, &span)?,
            Err(error) => {
                composer.broken(&error);
                return None;
            }
        }
    }
    Some(composer.root.unwrap_or(Node { at: Position::START, kind: Kind::Null }))
}

/// Builds nodes from the parser's events, without recursion.
struct Composer<'c, 'f, 's> {
    faults: &'c mut FileFaults<'f, 's>,
    /// What each anchor names; nothing yet while its node is open.
    anchors: HashMap<usize, Option<Node>>,
    /// The lists and mappings around the next node, the innermost last.
    open: Vec<Open>,
    root: Option<Node>,
    /// How many nodes have been made or, by merges, copied.
    nodes: u64,
}

struct Open {
    at: Position,
    /// 0 if it has none.
    anchor: usize,
    is_broken: bool,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, merged: Option<Node>, next: Next },
}

/// What the next node inside a mapping is.
enum Next {
    Key,
    Value(Key),
    /// The value of `<<`.
    Merged,
    /// The value of a key that is a fault.
    Nothing,
}

/// `None`, here and below, means a fault after which the file is not read any further.
impl Composer<'_, '_, '_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Option<()> {
        let at = position(&span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_known = self.knows_tag(at, tag.as_deref(), &["str", "int", "float", "bool", "null"]);
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| is_text_tag(&tag));
                let kind = match &*text {
                    _ if !is_known => Kind::Broken,
                    "" | "~" | "null" | "Null" | "NULL" if !is_text => Kind::Null,
                    text => Kind::Scalar(Scalar { text: text.into(), is_plain: !is_text }),
                };
                let node = Node { at, kind };
                if anchor > 0 {
                    self.anchors.insert(anchor, Some(node.clone()));
                }
                self.add(node)
            }
            Event::SequenceStart(_, anchor, tag) => {
                let is_broken = !self.knows_tag(at, tag.as_deref(), &["seq"]);
                self.open(Open { at, anchor, is_broken, content: Content::List(Vec::new()) });
                Some(())
            }
            Event::MappingStart(_, anchor, tag) => {
                let is_broken = !self.knows_tag(at, tag.as_deref(), &["map"]);
                let content = Content::Map { entries: Vec::new(), merged: None, next: Next::Key };
                self.open(Open { at, anchor, is_broken, content });
                Some(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => {
                let named = self.anchors.get(&anchor).and_then(Option::as_ref).map(|node| node.kind.clone());
                let kind = named.unwrap_or_else(|| {
                    self.fault(at, format_args!("this alias stands inside the node that it names: remove it"));
                    Kind::Broken
                });
                self.add(Node { at, kind })
            }
            Event::UnresolvedAlias(name) => {
                self.fault(
                    at,
                    format_args!(
                        "unknown alias {}: put an anchor, & and the same name, before what it should stand for, or \
                         quotes around a text that begins with *",
                        Quoted(&format!("*{name}"))
                    ),
                );
                self.add(Node { at, kind: Kind::Broken })
            }
            _ => Some(()),
        }
    }

    fn open(&mut self, open: Open) {
        if open.anchor > 0 {
            self.anchors.insert(open.anchor, None);
        }
        self.open.push(open);
    }

    fn close(&mut self) -> Option<()> {
        let Open { at, anchor, is_broken, content } = self.open.pop()?;
        let kind = match content {
            Content::List(items) => {
                let size = self.size_around(at, items.iter())?;
                Kind::List(Rc::new(Collection { items, size }))
            }
            Content::Map { entries, merged, .. } => {
                let mut items = self.without_duplicates(entries);
                if let Some(merged) = merged {
                    self.merge(&mut items, &merged)?;
                }
                let mut size = self.size_around(at, items.iter().map(|(_, value)| value))?;
                size.nodes += items.len() as u64;
                Kind::Map(Rc::new(Collection { items, size }))
            }
        };
        let node = Node { at, kind: if is_broken { Kind::Broken } else { kind } };
        if anchor > 0 {
            self.anchors.insert(anchor, Some(node.clone()));
        }
        self.add(node)
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Node) -> Option<()> {
        self.count(node.at, 1)?;
        let Some(mut around) = self.open.pop() else { return self.add_root(node) };
        match &mut around.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, merged, next } => match std::mem::replace(next, Next::Key) {
                Next::Value(key) => entries.push((key, node)),
                Next::Merged if merged.is_some() => {
                    let advice = "give one << a list, as in <<: [*a, *b]";
                    self.fault(node.at, format_args!("a second << in one mapping: {advice}"));
                }
                Next::Merged => *merged = Some(node),
                Next::Nothing => {}
                Next::Key => *next = self.key(node),
            },
        }
        self.open.push(around);
        Some(())
    }

    /// What comes after this key.
    fn key(&mut self, node: Node) -> Next {
        match node.kind {
            Kind::Scalar(Scalar { text, is_plain: true }) if &*text == "<<" => Next::Merged,
            Kind::Scalar(Scalar { text, .. }) => Next::Value(Key { at: node.at, text }),
            Kind::Null => {
                self.fault(
                    node.at,
                    format_args!("a key is missing: name it, or put quotes around a name such as null"),
                );
                Next::Nothing
            }
            Kind::List(_) | Kind::Map(_) => {
                self.fault(node.at, format_args!("a list or mapping cannot be a key: name one, or mend the brackets"));
                Next::Nothing
            }
            Kind::Broken => Next::Nothing,
        }
    }

    fn add_root(&mut self, node: Node) -> Option<()> {
        let is_second = self.root.as_ref().is_some_and(|root| !matches!(root.kind, Kind::Null));
        if !is_second {
            self.root = Some(node);
        } else if !matches!(node.kind, Kind::Null) {
            self.fault(node.at, format_args!("a second document: a file holds one, so give it a file of its own"));
            return None;
        }
        Some(())
    }

    /// Of entries with the same key, the first.
    fn without_duplicates(&mut self, entries: Vec<(Key, Node)>) -> Vec<(Key, Node)> {
        let mut seen: HashMap<Rc<str>, Position> = HashMap::with_capacity(entries.len());
        let mut kept = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            if let Some(first) = seen.get(&key.text) {
                let (quoted, Position { line, column }) = (Quoted(&key.text), *first);
                self.fault(
                    key.at,
                    format_args!("duplicate key {quoted}, which is also at {line}:{column}: remove one"),
                );
            } else {
                seen.insert(Rc::clone(&key.text), key.at);
                kept.push((key, value));
            }
        }
        kept
    }

    /// Adds the entries of `<<`'s mapping, or list of mappings, whose keys are not there yet.
    fn merge(&mut self, entries: &mut Vec<(Key, Node)>, merged: &Node) -> Option<()> {
        let one = std::slice::from_ref(merged);
        let sources = if let Kind::List(list) = &merged.kind { &list.items } else { one };
        let mut keys: HashSet<Rc<str>> = entries.iter().map(|(key, _)| Rc::clone(&key.text)).collect();
        for source in sources {
            match &source.kind {
                Kind::Map(map) => {
                    self.count(source.at, map.items.len() as u64)?;
                    for (key, value) in &map.items {
                        if keys.insert(Rc::clone(&key.text)) {
                            entries.push((key.clone(), value.clone()));
                        }
                    }
                }
                Kind::Broken => {}
                _ => self.fault(source.at, format_args!("<< takes a mapping or a list of mappings, such as *name")),
            }
        }
        Some(())
    }

    /// The size of a list or mapping at `at` around these nodes; `None`, with a fault, if it is beyond bounds.
    fn size_around<'n>(&mut self, at: Position, inner: impl Iterator<Item = &'n Node>) -> Option<Size> {
        let mut around = Size { nodes: 1, depth: 1 };
        for Size { nodes, depth } in inner.map(Node::size) {
            around.nodes = around.nodes.saturating_add(nodes);
            around.depth = around.depth.max(depth + 1);
        }
        if around.depth > DEEPEST {
            self.fault(at, format_args!("nested more than {DEEPEST} deep with its aliases expanded: flatten it"));
            return None;
        }
        if around.nodes > MOST_NODES {
            self.too_large(at);
            return None;
        }
        Some(around)
    }

    fn count(&mut self, at: Position, nodes: u64) -> Option<()> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            self.too_large(at);
            return None;
        }
        Some(())
    }

    fn too_large(&mut self, at: Position) {
        self.fault(
            at,
            format_args!(
                "the file has more than {MOST_NODES} keys and values with its aliases expanded: split it into several"
            ),
        );
    }

    fn knows_tag(&mut self, at: Position, tag: Option<&Tag>, known: &[&str]) -> bool {
        let Some(tag) = tag else { return true };
        let is_known = is_unspecific(tag) || tag.core_suffix().is_some_and(|suffix| known.contains(&suffix));
        if !is_known {
            let name = format!("{}{}", tag.original_handle(), tag.suffix());
            self.fault(at, format_args!("the tag {} means nothing here: remove it", Quoted(&name)));
        }
        is_known
    }

    fn broken(&mut self, error: &ScanError) {
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            self.fault(position(error.marker()), format_args!("nested more than {DEEPEST} deep: flatten it"));
            return;
        }
        let advice = match error.kind() {
            ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation => {
                "indent with spaces"
            }
            ErrorKind::MissingAnchorOrAliasName => "put quotes around a text that begins with * or &",
            ErrorKind::MappingValueNotAllowed => "put quotes around a text with a colon in it, or mend the indentation",
            ErrorKind::UnclosedQuotedScalar => "close the quotes that begin here",
            _ => "mend the file from here",
        };
        self.fault(position(error.marker()), format_args!("this is not YAML ({}): {advice}", error.kind()));
    }

    fn fault(&mut self, at: Position, message: fmt::Arguments<'_>) {
        self.faults.fault(at, message);
    }
}

/// `!!str`, or the `!` that means text.
fn is_text_tag(tag: &Tag) -> bool {
    is_unspecific(tag) || tag.is_yaml_core_schema_tag("str")
}

fn is_unspecific(tag: &Tag) -> bool {
    tag.original_handle().is_empty() && tag.suffix() == "!" || tag.original_handle() == "!" && tag.suffix().is_empty()
}

fn position(marker: &Marker) -> Position {
    let number = |from_one: usize| u32::try_from(from_one).unwrap_or(u32::MAX);
    Position { line: number(marker.line()), column: number(marker.col().saturating_add(1)) }
}

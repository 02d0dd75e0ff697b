//! YAML as a tree of nodes that know where they stand.

use std::rc::Rc;

use super::fault::Position;

mod compose;

pub(super) use compose::compose;

/// A value of a YAML file. What an alias names is shared, not copied, so that a file that expands to billions of
/// nodes costs nothing to read; such a file is refused before anybody walks it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Where the value begins; of an alias, where the alias stands.
    pub(super) at: Position,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Nothing, `~` or `null`.
    Null,
    Scalar(Scalar),
    List(Rc<Collection<Node>>),
    Map(Rc<Collection<(Key, Node)>>),
    /// What was here is a fault that has been told.
    Broken,
}

/// A scalar as it was written: `00123`, `1.10` and `true` are the texts that they look like.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub(super) text: Rc<str>,
    /// Neither in quotes nor tagged as text, so that it can be read as a number or a boolean.
    pub(super) is_plain: bool,
}

/// The key of a mapping's entry, of which a mapping has no two with the same text.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) at: Position,
    pub(super) text: Rc<str>,
}

#[derive(Debug)]
pub(super) struct Collection<T> {
    pub(super) items: Vec<T>,
    size: Size,
}

/// How large a node is once every alias in it is replaced by what it names.
#[derive(Clone, Copy, Debug)]
struct Size {
    nodes: u64,
    depth: u32,
}

impl Node {
    fn size(&self) -> Size {
        match &self.kind {
            Kind::Null | Kind::Scalar(_) | Kind::Broken => Size { nodes: 1, depth: 0 },
            Kind::List(list) => list.size,
            Kind::Map(map) => map.size,
        }
    }
}

//! What the nodes of a Cluster know of each other.

use std::collections::BTreeMap;

use crate::harness::redis::Redis;

/// By what name the others know a node.
pub(super) fn id(node: &Redis) -> String {
    node.command(&["CLUSTER", "MYID"])
}

/// All that have been introduced to a node, itself included: the words of a line each.
pub(super) fn members(node: &Redis) -> Vec<Vec<String>> {
    let lines: String = node.command(&["CLUSTER", "NODES"]);
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    lines.lines().map(words).filter(|words| !has_flag(words, "handshake")).collect()
}

/// Who is who in the eyes of a node: of each node, by its name, whose replica it is and which slots it serves.
pub(super) fn order(node: &Redis) -> BTreeMap<String, (String, Vec<String>)> {
    let described = |words: Vec<String>| (words[0].clone(), (words[3].clone(), words[8..].to_vec()));
    members(node).into_iter().map(described).collect()
}

/// Whether a node of the Cluster has agreed with others that another one is dead.
pub(super) fn is_thought_dead(observer: &Redis, node: &Redis) -> bool {
    let address = node.address().to_string();
    members(observer).iter().any(|words| words[1].starts_with(&format!("{address}@")) && has_flag(words, "fail"))
}

/// The flags come third, with commas between them.
fn has_flag(words: &[String], wanted: &str) -> bool {
    words[2].split(',').any(|flag| flag == wanted)
}

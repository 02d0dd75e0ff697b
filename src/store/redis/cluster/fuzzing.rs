use redis::Value;

use super::super::address::Server;
use super::slots::{SLOTS, assignments, standing};

/// Reads what a server may have told of its Cluster. The servers that it names.
pub(in super::super) fn cluster(answer: &Value, asked: &Server) -> Vec<Server> {
    let _ = standing(answer);
    let assignments = assignments(answer, asked).unwrap_or_default();
    let assigned: usize = assignments.iter().map(|assignment| assignment.slots.len()).sum();
    assert!(assigned <= usize::from(SLOTS) && assignments.iter().all(|assignment| *assignment.slots.end() < SLOTS));
    assignments.into_iter().filter_map(|assignment| assignment.primary).collect()
}

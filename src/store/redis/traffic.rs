use std::time::Duration;

use super::script::ScriptName;
use crate::measure::{Count, TimeHistogram};
use crate::store::{CallCount, Outcome};

/// What one server was asked, and how long it took.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// By script, then by outcome.
    calls: [[Count; Outcome::ALL.len()]; ScriptName::ALL.len()],
    pub(super) times: TimeHistogram,
}

impl Traffic {
    /// Takes note of a call that was sent.
    pub(super) fn note(&self, script: ScriptName, outcome: Outcome, time: Duration) {
        self.calls[script as usize][outcome as usize].increment();
        self.times.observe(time);
    }

    pub(super) fn calls(&self) -> Vec<CallCount> {
        let each = |script: ScriptName| {
            Outcome::ALL.map(|outcome| CallCount {
                script: script.name(),
                outcome,
                count: self.calls[script as usize][outcome as usize].get(),
            })
        };
        ScriptName::ALL.into_iter().flat_map(each).collect()
    }
}

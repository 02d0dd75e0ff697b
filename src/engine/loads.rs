use std::sync::Arc;

use parking_lot::Mutex;

use crate::measure::Count;
use crate::policy::Faults;

/// What came of attempts to load a policy.
#[derive(Debug, Default)]
pub struct Loads {
    pub good: Count,
    pub bad: Count,
    last_fault: Mutex<Option<Arc<LoadFault>>>,
}

/// Why a policy was not taken.
#[derive(Debug)]
pub struct LoadFault {
    /// Every fault, in a line of its own.
    pub text: String,
    /// How many there are, at least 1.
    pub count: usize,
}

impl Loads {
    pub(super) fn succeeded(&self) {
        self.good.increment();
        *self.last_fault.lock() = None;
    }

    pub(super) fn failed(&self, faults: &Faults) {
        self.bad.increment();
        *self.last_fault.lock() = Some(Arc::new(LoadFault { text: faults.to_string(), count: faults.count().max(1) }));
    }

    /// What was wrong the last time; `None` if it was good.
    #[must_use]
    pub fn last_fault(&self) -> Option<Arc<LoadFault>> {
        self.last_fault.lock().clone()
    }
}

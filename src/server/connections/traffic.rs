use std::sync::Arc;

use crate::measure::Count;

/// What happens on one connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Requests whose head has come.
    begun: Count,
    /// Those of them whose answer has been handed over, or given up.
    ended: Count,
    /// Times that something was sent.
    pub(super) writes: Count,
}

/// What has happened on a connection up to some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) writes: u64,
}

/// A request on a connection. Its end is when this is dropped.
#[derive(Debug)]
pub(super) struct Exchange(Arc<Traffic>);

impl Traffic {
    pub(super) fn begin(self: &Arc<Self>) -> Exchange {
        self.begun.increment();
        Exchange(Arc::clone(self))
    }

    pub(super) fn seen(&self) -> Seen {
        Seen { begun: self.begun.get(), ended: self.ended.get(), writes: self.writes.get() }
    }
}

impl Seen {
    pub(super) const fn is_under_way(&self) -> bool {
        self.begun != self.ended
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.ended.increment();
    }
}

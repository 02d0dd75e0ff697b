use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use crate::measure::Count;

/// What happens on one connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Requests whose head has come.
    begun: Count,
    /// Those of them whose answer has been handed over to be sent, or given up.
    ended: Count,
    /// Times that something was sent.
    writes: Count,
    /// There is something to send, and the client does not take it.
    is_stuck: AtomicBool,
}

/// What has happened on a connection up to some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) writes: u64,
    pub(super) is_stuck: bool,
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
        Seen {
            begun: self.begun.get(),
            ended: self.ended.get(),
            writes: self.writes.get(),
            is_stuck: self.is_stuck.load(Ordering::Relaxed),
        }
    }

    /// Takes note of what came of trying to send what has been written. Only what TLS holds back waits for that.
    pub(super) fn note_flush(&self, flushed: &Poll<io::Result<()>>) {
        self.is_stuck.store(flushed.is_pending(), Ordering::Relaxed);
    }

    /// Takes note of what came of trying to send something.
    pub(super) fn note(&self, written: &Poll<io::Result<usize>>) {
        self.is_stuck.store(written.is_pending(), Ordering::Relaxed);
        if written.is_ready() {
            self.writes.increment();
        }
    }
}

impl Seen {
    /// Whether there is something to answer or to send.
    pub(super) const fn is_under_way(&self) -> bool {
        self.begun != self.ended || self.is_stuck
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.ended.increment();
    }
}

use std::sync::Arc;
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// Wakes the task of a connection, unless that is at work on it anyway: then it takes note, and goes round once more.
///
/// A task that wakes itself is queued, and the runtime wakes another thread to help with the queue. That costs more than what
/// is to be done.
#[derive(Debug)]
pub(super) struct Attention(Mutex<Attending>);

#[derive(Debug)]
struct Attending {
    task: Waker,
    is_here: bool,
    /// Something has happened since the last look.
    is_needed: bool,
}

impl Attention {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Attending { task: Waker::noop().clone(), is_here: false, is_needed: false }))
    }

    /// The task with this waker is at work from now on.
    pub(super) fn begin(&self, task: &Waker) {
        let mut attending = self.0.lock();
        attending.task.clone_from(task);
        (attending.is_here, attending.is_needed) = (true, false);
    }

    /// Whether nothing has happened since the last look. Then the task is at work no more, and will be woken.
    pub(super) fn is_done(&self) -> bool {
        let mut attending = self.0.lock();
        attending.is_here = std::mem::take(&mut attending.is_needed);
        !attending.is_here
    }

    /// The task leaves, though something may have happened.
    pub(super) fn leave(&self) {
        self.0.lock().is_here = false;
    }
}

impl Wake for Attention {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut attending = self.0.lock();
        if attending.is_here {
            attending.is_needed = true;
            return;
        }
        let task = attending.task.clone();
        drop(attending);
        task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_that_is_at_work_is_not_woken_and_goes_round_once_more() {
        let task = Arc::new(Task::default());
        let woken = || task.0.load(Ordering::Relaxed);
        let attention = Arc::new(Attention::new());
        let waker = Waker::from(Arc::clone(&attention));

        attention.begin(&Waker::from(Arc::clone(&task)));
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert!(!attention.is_done(), "it was needed");
        assert!(attention.is_done());
        assert_eq!(woken(), 0);

        waker.wake_by_ref();
        assert_eq!(woken(), 1);

        attention.begin(&Waker::from(Arc::clone(&task)));
        assert!(attention.is_done(), "what happened before is what it was woken for");

        attention.begin(&Waker::from(Arc::clone(&task)));
        attention.leave();
        waker.wake();
        assert_eq!(woken(), 2);
    }
}

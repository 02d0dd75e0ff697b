use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

use hyper::rt::Executor;

/// Answers the requests of an HTTP/2 connection in the task of the connection, as long as they wait for nothing.
///
/// Nearly all are decided from memory, and have arrived when they are begun: a task for each costs more than that. One that
/// has to wait, for Redis or for the rest of itself, gets a task of its own then, and holds up nobody.
#[derive(Clone, Copy, Debug)]
pub(super) struct InPlace;

impl<F> Executor<F> for InPlace
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, answering: F) {
        let mut answering = Box::pin(answering);
        // Nobody need be woken: the new task asks once more, with its own waker.
        let mut context = Context::from_waker(Waker::noop());
        // A panic is told of by its hook, and ends this request only, as in a task.
        let asked = catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(&mut context)));
        if let Ok(Poll::Pending) = asked {
            tokio::spawn(answering);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn what_waits_for_nothing_is_done_at_once() {
        let (done, mut is_done) = oneshot::channel();
        InPlace.execute(async move { done.send(()).unwrap() });
        is_done.try_recv().unwrap();
    }

    #[tokio::test]
    async fn what_waits_goes_on_and_holds_up_nobody() {
        let (done, is_done) = oneshot::channel();
        InPlace.execute(async move {
            sleep(Duration::from_millis(1)).await;
            done.send(()).unwrap();
        });
        timeout(Duration::from_secs(10), is_done).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_panic_ends_only_what_panics() {
        let ended = tokio::spawn(async { InPlace.execute(async { panic!("as a test") }) });
        ended.await.unwrap();
    }
}

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use hyper::rt::Executor;
use parking_lot::Mutex;

use super::attention::Attention;

/// So many requests are answered before their answers are sent.
const AT_ONCE: usize = 32;

/// So often a connection is polled, and what it has begun answered, before others have their turn.
const ROUNDS: usize = 4;

/// Answers the requests of an HTTP/2 connection in the task of the connection, as long as they wait for nothing.
///
/// Nearly all are decided from memory, and have arrived when they are begun: a task for each costs more than that. They are
/// gathered while the connection reads, and answered when it has nothing more to read, so that one write sends all answers.
/// One that has to wait, for Redis or for the rest of itself, gets a task of its own then, and holds up nobody.
pub(super) struct InPlace {
    begun: Begun,
    attention: Arc<Attention>,
    waker: Waker,
}

/// Requests that have been begun, and not yet looked at.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<VecDeque<Answering>>>);

type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

impl InPlace {
    pub(super) fn new() -> Self {
        let attention = Arc::new(Attention::new());
        Self { begun: Begun::default(), waker: Arc::clone(&attention).into(), attention }
    }

    /// What the connection is to be made with.
    pub(super) fn executor(&self) -> Begun {
        self.begun.clone()
    }

    /// Polls the connection, and answers what it has begun, until there is nothing more to do.
    pub(super) fn poll<C: Future>(&self, mut connection: Pin<&mut C>, context: &Context<'_>) -> Poll<C::Output> {
        self.attention.begin(context.waker());
        for _ in 0..ROUNDS {
            let ended = connection.as_mut().poll(&mut Context::from_waker(&self.waker));
            if ended.is_ready() {
                // What it has begun just now is dropped undecided: nobody is there to be told.
                return ended;
            }
            if !self.begun.answer() {
                self.attention.wake_by_ref();
            }
            if self.attention.is_done() {
                return Poll::Pending;
            }
        }
        self.attention.leave();
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<F> Executor<F> for Begun
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, answering: F) {
        self.0.lock().push_back(Box::pin(answering));
    }
}

impl Begun {
    /// Answers as many as may be at once; whether that were all.
    fn answer(&self) -> bool {
        for _ in 0..AT_ONCE {
            let Some(answering) = self.0.lock().pop_front() else { return true };
            answer_or_spawn(answering);
        }
        self.0.lock().is_empty()
    }
}

fn answer_or_spawn(mut answering: Answering) {
    // Nobody need be woken: the new task asks once more, with its own waker.
    let mut context = Context::from_waker(Waker::noop());
    // A panic is told of by its hook, and ends this request only, as in a task.
    let asked = catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(&mut context)));
    if let Ok(Poll::Pending) = asked {
        tokio::spawn(answering);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_waits_for_nothing_is_done_when_the_connection_has_been_polled() {
        let begun = Begun::default();
        let (done, mut is_done) = oneshot::channel();
        begun.execute(async move { done.send(()).unwrap() });
        assert!(is_done.try_recv().is_err(), "the connection may have more");
        assert!(begun.answer());
        is_done.try_recv().unwrap();
    }

    #[tokio::test]
    async fn what_waits_goes_on_and_holds_up_nobody() {
        let begun = Begun::default();
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let (done, mut is_done) = oneshot::channel();
        begun.execute(async move {
            may_go_on.await.unwrap();
            done.send(()).unwrap();
        });
        assert!(begun.answer());
        assert!(is_done.try_recv().is_err());
        go_on.send(()).unwrap();
        timeout(Duration::from_secs(10), is_done).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_panic_ends_only_what_panics() {
        let begun = Begun::default();
        let (done, mut is_done) = oneshot::channel();
        begun.execute(async { panic!("as a test") });
        begun.execute(async move { done.send(()).unwrap() });
        assert!(begun.answer());
        is_done.try_recv().unwrap();
    }

    /// Polls what stands for a connection, until it has nothing more to do for now; how many times it was polled, and whether
    /// the task is to be polled again at once.
    fn polls(in_place: &InPlace, mut connection: impl FnMut(&Context<'_>)) -> (usize, bool) {
        struct Task(AtomicUsize);
        impl Wake for Task {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let task = Arc::new(Task(AtomicUsize::new(0)));
        let mut polls = 0;
        let connection = pin!(poll_fn(|context| {
            polls += 1;
            connection(context);
            Poll::<()>::Pending
        }));
        assert!(in_place.poll(connection, &Context::from_waker(&Waker::from(Arc::clone(&task)))).is_pending());
        (polls, task.0.load(Ordering::Relaxed) > 0)
    }

    #[tokio::test]
    async fn answers_are_sent_without_waking_anybody() {
        let in_place = InPlace::new();
        let begun = in_place.executor();
        let mut is_first = true;
        let polled = polls(&in_place, |context| {
            if std::mem::take(&mut is_first) {
                let waker = context.waker().clone();
                begun.execute(async move { waker.wake() });
            }
        });
        assert_eq!(polled, (2, false), "once more, for the answer");
    }

    #[tokio::test]
    async fn others_have_their_turn_in_between() {
        let in_place = InPlace::new();
        let begun = in_place.executor();
        let answered = Arc::new(AtomicUsize::new(0));
        let mut left = (ROUNDS + 1) * AT_ONCE;
        let mut read_all = |_: &Context<'_>| {
            for _ in 0..std::mem::take(&mut left) {
                let answered = Arc::clone(&answered);
                begun.execute(async move {
                    answered.fetch_add(1, Ordering::Relaxed);
                });
            }
        };
        assert_eq!(polls(&in_place, &mut read_all), (ROUNDS, true));
        assert_eq!(answered.load(Ordering::Relaxed), ROUNDS * AT_ONCE);
        assert_eq!(polls(&in_place, &mut read_all), (1, false));
        assert_eq!(answered.load(Ordering::Relaxed), (ROUNDS + 1) * AT_ONCE);
    }
}

//! One of the processes that share the store: it decides requests, makes the calls that this takes, and looks after what
//! it has borrowed.

mod outage;
mod refusals;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use self::outage::OutageWatch;
use self::refusals::Refusals;
use crate::cause::Cause;
use crate::clock::Clock;
use crate::engine::{
    Answer, BucketState, Call, Decision, Engine, GivenUp, InvalidRequest, Ruling, StoreState, Unavailable, Waiting,
};
use crate::limit::{Micros, Now};
use crate::request::RateLimitRequest;
use crate::store::{Reply, ServerReport, Store, StoreError, StoreFuture};
use crate::trace::{CallFor, Tracer};

/// How often leases are looked after. It is the span of a place in the engine's agenda.
const LEASES_EVERY: Duration = Duration::from_millis(20);

/// How long the end of the process waits for the store.
const RETURN_PATIENCE: Duration = Duration::from_secs(1);

/// How long a person waits for what the store says.
const LOOK_PATIENCE: Duration = Duration::from_millis(200);

/// How often a part of the table is swept, and how many parts it has. Requests that come to the same thread wait meanwhile:
/// with ten million buckets a fifth of a millisecond.
const SWEEP_EVERY: Duration = Duration::from_millis(10);
const SWEEP_PARTS: usize = 1_000;

/// How often the system's clock is followed, and outages are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An engine with its clock and its store.
#[derive(Debug)]
pub struct Replica {
    pub engine: Engine,
    pub clock: Arc<Clock>,
    /// `None` if all buckets are this process's own.
    store: Option<Lender>,
    /// Calls to the store whose answers have not been taken in.
    under_way: watch::Sender<usize>,
    /// Requests that wait.
    waiting: AtomicUsize,
    /// `None` if nothing is traced.
    tracer: Option<Arc<Tracer>>,
    refusals: Refusals,
}

/// The store, and how long requests wait for it.
#[derive(Debug)]
pub struct Lender {
    pub store: Arc<dyn Store>,
    pub timeout: Duration,
    /// How many replicas share the store.
    pub replicas: watch::Receiver<u32>,
}

/// A decision, or one to come.
#[expect(missing_debug_implementations, reason = "a future has none")]
#[expect(clippy::large_enum_variant, reason = "nearly all are decisions")]
pub enum Deciding {
    Decided(Decision),
    Waits(Pin<Box<dyn Future<Output = Result<Decision, Unavailable>> + Send>>),
}

impl Replica {
    #[must_use]
    pub fn new(engine: Engine, clock: Arc<Clock>, store: Option<Lender>, tracer: Option<Arc<Tracer>>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            clock,
            store,
            under_way: watch::Sender::new(0),
            waiting: AtomicUsize::new(0),
            tracer,
            refusals: Refusals::new(),
        })
    }

    /// Decides a request at the time `now`. Most are decided at once; the others wait for the store's timeout at most, or
    /// until the `deadline` of the one who asks. `cause` is the request itself, if it is traced.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`] where the message is none that Envoy sends.
    pub fn decide(
        self: &Arc<Self>,
        request: &RateLimitRequest,
        now: Now,
        deadline: Option<Micros>,
        cause: Option<&Cause>,
    ) -> Result<Deciding, InvalidRequest> {
        let Ruling { answer, calls } = self.engine.decide(request, now)?;
        if let (Answer::Waiting(waiting), Some(cause)) = (&answer, cause) {
            // A call that an answer makes for it in this very moment is missing in its trace; nothing else is.
            waiting.trace(cause);
        }
        self.make_for(cause, calls);
        Ok(match answer {
            Answer::Decided(decision) => Deciding::Decided(decision),
            Answer::Waiting(waiting) => Deciding::Waits(Box::pin(Waiter::new(self, waiting, deadline).decision())),
        })
    }

    /// Makes calls, each on a task of its own, so that nobody who leaves takes an answer with him.
    fn make(self: &Arc<Self>, calls: Vec<Call>) {
        self.make_for(None, calls);
    }

    /// Makes the calls that a request has caused, whether or not it waits for them.
    fn make_for(self: &Arc<Self>, cause: Option<&Cause>, calls: Vec<Call>) {
        for call in calls {
            if let Some(attending) = self.begin(call, cause) {
                tokio::spawn(attending);
            }
        }
    }

    /// Sends a call. What is returned brings back the answer.
    fn begin(self: &Arc<Self>, call: Call, cause: Option<&Cause>) -> Option<impl Future<Output = ()> + Send + use<>> {
        let lender = self.store.as_ref()?;
        let span = self.tracer.as_ref().and_then(|tracer| {
            let made_for =
                if call.is_awaited() { CallFor::Waiting(call.traced_waiter()) } else { CallFor::Background(cause) };
            let server = || lender.store.server(&call.request.bucket);
            tracer.begin_call(&call.request, made_for, server, || self.clock.read()).map(Box::new)
        });
        let mut answer = lender.store.call(&call.request);
        // The first step is taken here and not on the task, so that calls reach the store in the order in which they
        // were decided: hits that a client gives back are there when its next request asks for them.
        let ready = match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        };
        let (replica, store, patience) = (Arc::clone(self), Arc::clone(&lender.store), lender.timeout);
        let under_way = UnderWay::new(self);
        Some(async move {
            let answer = match ready {
                Some(answer) => answer,
                None => replica.hear(&call, &*store, patience, answer).await,
            };
            if let Some(span) = span {
                span.end(&answer);
            }
            let now = replica.clock.now();
            replica.refusals.hear(&answer, now);
            replica.make(replica.engine.take_answer(call, &answer, now));
            drop(under_way);
        })
    }

    /// Waits for an answer. After the timeout, or when the store's server is asked no more, another call may be made; but
    /// what this one has borrowed is still welcome.
    async fn hear(
        self: &Arc<Self>,
        call: &Call,
        store: &dyn Store,
        patience: Duration,
        mut answer: StoreFuture,
    ) -> Result<Reply, StoreError> {
        select! {
            biased;
            answer = &mut answer => return answer,
            () = sleep(patience) => {}
            () = store.gives_up(&call.request.bucket) => {}
        }
        self.make(self.engine.call_is_overdue(call, self.clock.now()));
        answer.await
    }

    /// Does for ever what must be done now and then: follows the system's clock, looks after leases, sweeps the table, tells
    /// of outages.
    pub async fn keep_house(self: Arc<Self>) {
        tokio::join!(self.keep_leases(), self.keep_table(), self.watch(), self.follow_replicas());
    }

    async fn follow_replicas(&self) {
        let Some(mut replicas) = self.store.as_ref().map(|lender| lender.replicas.clone()) else { return };
        loop {
            self.engine.set_replicas(*replicas.borrow_and_update());
            if replicas.changed().await.is_err() {
                return;
            }
        }
    }

    async fn keep_leases(self: &Arc<Self>) {
        let mut pause = interval(LEASES_EVERY);
        pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.store.is_some() {
            pause.tick().await;
            self.make(self.engine.look_after_leases(self.clock.now()));
            self.make(self.engine.repay_debts(self.clock.now()));
        }
    }

    async fn keep_table(&self) {
        let mut pause = interval(SWEEP_EVERY);
        pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pause.tick().await;
            self.engine.sweep(self.clock.now(), SWEEP_PARTS);
        }
    }

    async fn watch(&self) {
        let mut pause = interval(LOOK_EVERY);
        pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut outages = OutageWatch::new();
        loop {
            pause.tick().await;
            self.clock.follow_utc();
            let now = self.clock.now();
            self.refusals.tell_of_end(now);
            outages.look(self.engine.counts(), self.store_is_asked(), now);
        }
    }

    /// Asks the store what is in a bucket, if it is there that its hits are counted. It waits, so it is for a thread that
    /// may.
    pub fn look_up(&self, state: &mut BucketState) {
        let (Some(lender), Some(question)) = (&self.store, &state.question) else { return };
        let patience = lender.timeout.max(LOOK_PATIENCE);
        let answer = Handle::current().block_on(async { timeout(patience, lender.store.call(question)).await });
        let answer = answer.unwrap_or_else(|_| Err(StoreError::Lost(format!("no answer within {patience:?}"))));
        let key = lender.store.key(&question.bucket);
        state.store = Some(StoreState::of(key, &question.limit, &answer, self.clock.now()));
    }

    /// What each server of the store has been asked; none if there is no store.
    #[must_use]
    pub fn store_servers(&self) -> Vec<ServerReport> {
        self.store.as_ref().map_or_else(Vec::new, |lender| lender.store.servers())
    }

    /// Requests that wait for the store now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn store_is_asked(&self) -> bool {
        self.store.as_ref().is_none_or(|lender| lender.store.is_asked())
    }

    /// Who traces, if anybody does.
    #[must_use]
    pub const fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// What people should know of the store: nothing if there is none.
    #[must_use]
    pub fn store_condition(&self) -> Option<String> {
        self.store.as_ref().map(|lender| lender.store.condition())
    }

    /// Returns everything that is borrowed to the store, and waits until that has answered, for a second at most and no
    /// longer than `patience`: leases end by themselves, too. What a call under way brings is returned by the call that
    /// follows it.
    pub async fn return_leases(self: &Arc<Self>, patience: Duration) {
        self.make(self.engine.return_leases(self.clock.now()));
        let mut under_way = self.under_way.subscribe();
        drop(timeout(RETURN_PATIENCE.min(patience), under_way.wait_for(|&calls| calls == 0)).await);
    }
}

/// Counts as a call under way until it is dropped.
struct UnderWay(Arc<Replica>);

impl UnderWay {
    fn new(replica: &Arc<Replica>) -> Self {
        replica.under_way.send_if_modified(|calls| {
            *calls += 1;
            false
        });
        Self(Arc::clone(replica))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_if_modified(|calls| {
            *calls -= 1;
            *calls == 0
        });
    }
}

/// Waits for a decision. Dropped before that is made, it gives back what was set aside for the request.
struct Waiter {
    replica: Arc<Replica>,
    waiting: Option<Waiting>,
    deadline: Micros,
}

impl Waiter {
    fn new(replica: &Arc<Replica>, waiting: Waiting, deadline: Option<Micros>) -> Self {
        let deadline = waiting.deadline().min(deadline.unwrap_or(Micros(u64::MAX)));
        replica.waiting.fetch_add(1, Ordering::Relaxed);
        Self { replica: Arc::clone(replica), waiting: Some(waiting), deadline }
    }

    async fn decision(mut self) -> Result<Decision, Unavailable> {
        let Some(waiting) = &mut self.waiting else { return Err(Unavailable) };
        let left = self.deadline - self.replica.clock.now().monotonic;
        let mut in_time = timeout(Duration::from_micros(left.0), &mut waiting.decision).await;
        if in_time.is_err() {
            // It may have come, and it is we who were held up.
            yield_now().await;
            in_time = timeout(Duration::ZERO, &mut waiting.decision).await;
        }
        let decision = if let Ok(Ok(decision)) = in_time {
            decision
        } else {
            let GivenUp { decision, calls, in_vain } = self.replica.engine.give_up(waiting, self.replica.clock.now());
            // Whoever has less time than the store says nothing of the store.
            if let Some(lender) = self.replica.store.as_ref().filter(|_| self.deadline == waiting.deadline()) {
                in_vain.iter().for_each(|bucket| lender.store.count_failure(bucket));
            }
            self.replica.make(calls);
            match decision {
                Some(decision) => decision,
                // Somebody else is deciding it in this very moment.
                None => {
                    poll_fn(|context| Pin::new(&mut waiting.decision).poll(context)).await.unwrap_or(Err(Unavailable))
                }
            }
        };
        self.waiting = None;
        decision
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.replica.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(waiting) = &self.waiting {
            let calls = self.replica.engine.abandon(waiting, self.replica.clock.now());
            // Outside of a runtime there is nobody left to make them.
            if Handle::try_current().is_ok() {
                self.replica.make(calls);
            }
        }
    }
}

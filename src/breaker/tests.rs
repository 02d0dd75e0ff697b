use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use tokio::time::advance;

use super::*;
use tokio::time::sleep;

/// A breaker whose probe succeeds when it is told to, on a paused clock.
struct World {
    breaker: Arc<Breaker>,
    is_well: Arc<AtomicBool>,
    probes: Arc<AtomicU32>,
}

impl World {
    fn new() -> Self {
        let breaker = Arc::new(Breaker::default());
        let (is_well, probes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let world = Self { breaker: Arc::clone(&breaker), is_well: Arc::clone(&is_well), probes: Arc::clone(&probes) };
        tokio::spawn(async move {
            let probe = || {
                probes.fetch_add(1, Ordering::Relaxed);
                std::future::ready(is_well.load(Ordering::Relaxed))
            };
            breaker.run("the test", std::future::pending::<()>, || std::future::ready(()), probe).await;
        });
        world
    }

    fn fail(&self, times: u32) {
        for _ in 0..times {
            self.breaker.permit().unwrap().failed("oops");
        }
    }

    fn probes(&self) -> u32 {
        self.probes.load(Ordering::Relaxed)
    }

    /// Lets time pass, a millisecond at a time.
    async fn pass(&self, millis: u32) {
        for _ in 0..millis {
            advance(Duration::from_millis(1)).await;
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_opens_after_failures_in_a_row_and_closes_after_a_probe() {
    let world = World::new();
    world.pass(1).await;
    world.fail(MOST_FAILURES - 1);
    world.breaker.permit().unwrap().succeeded();
    world.fail(MOST_FAILURES - 1);
    assert!(world.breaker.is_closed(), "a success begins the count anew");
    world.fail(1);
    assert!(!world.breaker.is_closed() && world.breaker.permit().is_none());
    world.pass(24).await;
    assert_eq!(world.probes(), 0, "the first pause is at least half of its longest");
    world.pass(27).await;
    assert_eq!(world.probes(), 1);
    assert!(world.breaker.permit().is_none(), "the probe has failed");
    world.is_well.store(true, Ordering::Relaxed);
    world.pass(101).await;
    assert_eq!(world.probes(), 2);
    assert!(world.breaker.permit().is_some());
}

#[tokio::test(start_paused = true)]
async fn half_open_lets_nothing_through_but_one_probe() {
    let breaker = Arc::new(Breaker::default());
    let answer = Arc::new(Notify::new());
    let probes = Arc::new(AtomicU32::new(0));
    tokio::spawn({
        let (breaker, answer, probes) = (Arc::clone(&breaker), Arc::clone(&answer), Arc::clone(&probes));
        async move {
            let probe = || {
                probes.fetch_add(1, Ordering::Relaxed);
                async {
                    answer.notified().await;
                    true
                }
            };
            breaker.run("the test", std::future::pending::<()>, || std::future::ready(()), probe).await;
        }
    });
    for _ in 0..MOST_FAILURES {
        breaker.permit().unwrap().failed("oops");
    }
    sleep(FIRST_PAUSE + Duration::from_millis(1)).await;
    let calls: Vec<_> = (0..500)
        .map(|_| {
            let breaker = Arc::clone(&breaker);
            tokio::spawn(async move { breaker.permit().is_some() })
        })
        .collect();
    for call in calls {
        assert!(!call.await.unwrap());
    }
    assert_eq!(probes.load(Ordering::Relaxed), 1);
    answer.notify_one();
    sleep(Duration::from_millis(1)).await;
    assert!(breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_dropped_counts_as_a_failure() {
    let world = World::new();
    world.pass(1).await;
    for _ in 0..MOST_FAILURES {
        assert!(world.breaker.is_closed());
        drop(world.breaker.permit().unwrap());
    }
    assert!(!world.breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn what_was_permitted_before_an_outage_says_nothing_about_later() {
    let world = World::new();
    world.pass(1).await;
    let early: Vec<_> = (0..MOST_FAILURES).map(|_| world.breaker.permit().unwrap()).collect();
    world.fail(MOST_FAILURES);
    world.is_well.store(true, Ordering::Relaxed);
    world.pass(60).await;
    assert!(world.breaker.is_closed());
    for permit in early {
        permit.failed("late");
    }
    assert!(world.breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_five_seconds_and_begin_anew_when_all_was_well_for_a_while() {
    let world = World::new();
    world.pass(1).await;
    world.fail(MOST_FAILURES);
    world.pass(30_000).await;
    let probes = world.probes();
    // 50, 100, 200 … 5000 ms, of which the upper half is random.
    assert!((10..=17).contains(&probes), "{probes}");
    world.is_well.store(true, Ordering::Relaxed);
    for _ in 0..5_001 {
        if !world.breaker.is_closed() {
            world.pass(1).await;
        }
    }
    assert!(world.breaker.is_closed());

    // An outage that follows at once is the same one.
    world.fail(MOST_FAILURES);
    world.pass(2_499).await;
    assert!(!world.breaker.is_closed());
    world.pass(2_502).await;
    assert!(world.breaker.is_closed());
    world.pass(10_001).await;
    world.fail(MOST_FAILURES);
    world.pass(51).await;
    assert!(world.breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_when_there_may_be_something_to_find() {
    let breaker = Arc::new(Breaker::default());
    let promise = Arc::new(Notify::new());
    tokio::spawn({
        let (breaker, promise) = (Arc::clone(&breaker), Arc::clone(&promise));
        async move {
            breaker
                .run("the test", || promise.notified(), || std::future::ready(()), || std::future::ready(true))
                .await;
        }
    });
    tokio::task::yield_now().await;
    for _ in 0..MOST_FAILURES {
        breaker.permit().unwrap().failed("oops");
    }
    sleep(Duration::from_millis(1)).await;
    assert!(!breaker.is_closed());
    assert_eq!(breaker.cause(), "oops");
    promise.notify_one();
    sleep(Duration::from_millis(1)).await;
    assert!(breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn it_opens_when_more_than_half_of_many_calls_fail() {
    let breaker = Breaker::default();
    let call = |outcomes: &[bool]| {
        for is_success in outcomes {
            let permit = breaker.permit().unwrap();
            if *is_success { permit.succeeded() } else { permit.failed("oops") }
        }
    };
    // Half of them is not too bad, and what is long ago does not count.
    for _ in 0..100 {
        call(&[true, false]);
    }
    sleep(Duration::from_secs(11)).await;
    for _ in 0..6 {
        call(&[false, true, false]);
    }
    assert!(breaker.is_closed(), "18 are too few to judge by");
    call(&[true, false]);
    assert!(!breaker.is_closed(), "13 of 20 have failed");
}

#[tokio::test(start_paused = true)]
async fn one_failure_after_many_successes_and_a_pause_is_nothing() {
    let breaker = Breaker::default();
    for _ in 0..30 {
        breaker.permit().unwrap().succeeded();
    }
    sleep(Duration::from_secs(7)).await;
    breaker.permit().unwrap().failed("oops");
    assert!(breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_when_it_opens() {
    let breaker = Breaker::default();
    let opened = tokio::join!(tokio::time::timeout(Duration::from_secs(1), breaker.opened()), async {
        sleep(Duration::from_millis(1)).await;
        (0..MOST_FAILURES).for_each(|_| breaker.count_failure("a request has waited in vain"));
    });
    opened.0.unwrap();
    // And at once by who comes later.
    breaker.opened().await;
    assert_eq!(breaker.cause(), "a request has waited in vain");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_back_is_asked_little_by_little() {
    let world = World::new();
    world.pass(1).await;
    let first: Vec<_> = (0..10_000).map(|_| world.breaker.permit().unwrap()).collect();
    first.into_iter().for_each(Permit::succeeded);
    world.fail(MOST_FAILURES);
    world.is_well.store(true, Ordering::Relaxed);
    world.pass(51).await;
    assert!(world.breaker.is_closed());

    let all_there_are = || std::iter::from_fn(|| world.breaker.permit()).take(10_000).collect::<Vec<_>>();
    let mut permits = all_there_are();
    let mut most = FIRST_CALLS as usize;
    while most < MANY_CALLS as usize {
        assert_eq!(permits.len(), most);
        permits.into_iter().for_each(Permit::succeeded);
        permits = all_there_are();
        most *= 2;
    }
    assert_eq!(permits.len(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_long_may_be_asked_freely_in_the_end() {
    let world = World::new();
    world.pass(1).await;
    world.fail(MOST_FAILURES);
    world.is_well.store(true, Ordering::Relaxed);
    world.pass(51).await;
    let permits = || std::iter::from_fn(|| world.breaker.permit()).take(2_000).collect::<Vec<_>>();
    let few = permits();
    assert_eq!(few.len(), FIRST_CALLS as usize);
    few.into_iter().for_each(Permit::succeeded);
    world.pass(10_001).await;
    assert_eq!(permits().len(), 2_000);
}

#[tokio::test(start_paused = true)]
async fn it_is_half_open_only_while_it_is_tried() {
    let breaker = Arc::new(Breaker::default());
    let (possible, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    tokio::spawn({
        let (breaker, possible, answer) = (Arc::clone(&breaker), Arc::clone(&possible), Arc::clone(&answer));
        async move {
            let probe = || async {
                answer.notified().await;
                true
            };
            breaker.run("the test", std::future::pending::<()>, || possible.notified(), probe).await;
        }
    });
    tokio::task::yield_now().await;
    assert_eq!(breaker.report().state, State::Closed);
    for _ in 0..MOST_FAILURES {
        breaker.permit().unwrap().failed("oops");
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(breaker.report().state, State::Open, "there is nothing to try");
    possible.notify_one();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(breaker.report().state, State::HalfOpen);
    answer.notify_one();
    sleep(Duration::from_secs(1)).await;
    let report = breaker.report();
    assert_eq!((report.state, report.opened, report.closed), (State::Closed, 1, 1));
    assert_eq!(report.time_open, Duration::from_secs(61));
}

//! The policy changes a hundred times while requests come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::{loads, replace};
use crate::harness::grpc::{Client, ask, request};
use crate::harness::{PATIENCE, Redis, Setup};

/// The limit of `left` and `right` in the first version of the policy; each version adds one. Nobody uses it up.
const FIRST_AMOUNT: u32 = 1_000_000;

/// Of `spent`: for a run it is as if nothing flowed back.
const SPENT: u32 = 2_000;

/// Of `flowing`, a second. It is asked for twice as often.
const FLOWING: u32 = 50;

fn policy(version: u32) -> String {
    let alternating = FIRST_AMOUNT + version;
    // In every other version there are more rules before the others, so that their places change.
    let more = if version.is_multiple_of(2) { "{key: earlier, rate_limit: {unlimited: true}}," } else { "" };
    format!(
        "{{domain: d, descriptors: [{more}
          {{key: left, rate_limit: {{requests_per_unit: {alternating}, unit: year}}}},
          {{key: right, rate_limit: {{requests_per_unit: {alternating}, unit: year}}}},
          {{key: spent, rate_limit: {{requests_per_unit: {SPENT}, unit: year}}}},
          {{key: flowing, rate_limit: {{requests_per_unit: {FLOWING}, unit: second}}}}]}}"
    )
}

/// What the callers share.
#[derive(Clone, Default)]
struct Run {
    is_over: Arc<AtomicBool>,
    /// The newest version that a request has met.
    met: Arc<AtomicU32>,
}

impl Run {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }
}

fn amounts(answer: &RateLimitResponse) -> Vec<u32> {
    answer.statuses.iter().map(|status| status.current_limit.as_ref().expect("a limit").requests_per_unit).collect()
}

/// Each request meets one version of the policy, and none an older one than the request before it. Returns how many there were.
async fn alternating(mut client: Client, run: Run) -> u32 {
    let (mut last, mut asked) = (FIRST_AMOUNT, 0);
    while run.goes_on() {
        let answer = ask(&mut client, request("d", ["left=x", "right=x"])).await.expect("a decision");
        assert_eq!(answer.overall_code(), Code::Ok, "nobody has used it up");
        let [left, right] = amounts(&answer)[..] else { panic!("{answer:?}") };
        assert_eq!(left, right, "one request has met two policies");
        assert!(left >= last, "an older policy has come back: {left} after {last}");
        (last, asked) = (left, asked + 1);
        run.met.fetch_max(left - FIRST_AMOUNT, Ordering::Relaxed);
    }
    asked
}

/// What is admitted of a limit that is asked for without a pause, and how often it was asked for.
async fn spent(mut client: Client, run: Run) -> (u32, u32) {
    let (mut admitted, mut asked, mut is_empty) = (0, 0, false);
    while run.goes_on() {
        let answer = ask(&mut client, request("d", ["spent=x"])).await.expect("a decision");
        let passes = answer.overall_code() == Code::Ok;
        assert!(!(passes && is_empty), "it was empty after {admitted} hits, and admits another");
        is_empty = !passes;
        (admitted, asked) = (admitted + u32::from(passes), asked + 1);
        sleep(Duration::from_millis(1)).await;
    }
    (admitted, asked)
}

/// All that is admitted at a steady pace is what was there at first and what has flowed back since, neither more nor less.
async fn flowing(mut client: Client, run: Run) {
    let rate = f64::from(FLOWING);
    let start = Instant::now();
    let mut first_answered = None;
    let mut admitted = 0.0;
    for turn in 0.. {
        sleep_until((start + turn * Duration::from_secs(1) / (2 * FLOWING)).into()).await;
        if !run.goes_on() {
            break;
        }
        let sent = Instant::now();
        let answer = ask(&mut client, request("d", ["flowing=x"])).await.expect("a decision");
        let most = rate + rate * start.elapsed().as_secs_f64();
        if answer.overall_code() == Code::Ok {
            admitted += 1.0;
            assert!(admitted <= most, "{admitted} admitted, {most} allowed");
        } else {
            let first_answered: Instant = first_answered.expect("the first request passes");
            let due = rate + rate * (sent - first_answered).as_secs_f64() - 1.0;
            assert!(admitted > due, "{admitted} admitted, and one refused when {due} were due");
        }
        first_answered.get_or_insert_with(Instant::now);
    }
}

/// Changes the policy so many times while callers ask.
async fn change_under_load(setup: &Setup, reloads: u32, has_own_buckets: bool) {
    let comporta = setup.start();
    let file = setup.policy_path().join("policy.yaml");
    let run = Run::default();
    let mut alternate = JoinSet::new();
    for _ in 0..4 {
        alternate.spawn(alternating(comporta.client(), run.clone()));
    }
    let spent = tokio::spawn(spent(comporta.client(), run.clone()));
    // Where the store counts, a lease may refuse a little early.
    let flowing = has_own_buckets.then(|| tokio::spawn(flowing(comporta.client(), run.clone())));

    let mut times = Vec::new();
    for version in 1..=reloads {
        let start = Instant::now();
        replace(&file, &policy(version));
        while run.met.load(Ordering::Relaxed) < version {
            assert!(start.elapsed() < PATIENCE, "version {version} never came; {}", comporta.log());
            sleep(Duration::from_millis(1)).await;
        }
        times.push(start.elapsed());
    }
    run.is_over.store(true, Ordering::Relaxed);

    let asked: u32 = alternate.join_all().await.into_iter().sum();
    let (admitted, asked_of_spent) = spent.await.unwrap();
    if let Some(flowing) = flowing {
        flowing.await.unwrap();
    }
    assert_eq!(admitted, SPENT.min(asked_of_spent), "of {asked_of_spent}");
    assert_eq!(loads(&comporta, "ok"), (reloads + 1).to_string());
    assert_eq!(loads(&comporta, "error"), "0");
    times.sort_unstable();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    eprintln!(
        "{reloads} reloads, each met after {median:?}, {longest:?} at most; {asked} requests saw one policy each"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_changes_under_load_fail_no_decision_and_lose_no_hit() {
    change_under_load(&Setup::new(&policy(0)), 100, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_under_load_lose_no_borrowed_hit() {
    let redis = Redis::start();
    let flags = ["--redis-url".to_owned(), redis.url(), "--redis-timeout=10s".to_owned()];
    change_under_load(&Setup::new(&policy(0)).flags(flags), 30, false).await;
}

const TENANTS: u32 = 100_000;

/// A policy that takes its time, in a version of its own.
fn with_tenants(version: u32) -> String {
    let mut text = format!(
        "domain: d\nplans: {{p: {{requests_per_unit: {}, unit: year}}}}\ndescriptors:\n- key: left\n  plan: p\n  tenants:\n",
        FIRST_AMOUNT + version
    );
    text.extend((0..TENANTS).map(|tenant| format!("    tenant-{tenant}: p\n")));
    text
}

/// How long each decision takes.
async fn timed(mut client: Client, run: Run) -> Vec<Duration> {
    let mut times = Vec::new();
    while run.goes_on() {
        let start = Instant::now();
        let answer = ask(&mut client, request("d", ["left=x"])).await.expect("a decision");
        times.push(start.elapsed());
        run.met.fetch_max(amounts(&answer)[0] - FIRST_AMOUNT, Ordering::Relaxed);
        sleep(Duration::from_millis(1)).await;
    }
    times.sort_unstable();
    times
}

fn show(what: &str, times: &[Duration]) {
    let part = |thousandths: usize| times[(times.len() - 1) * thousandths / 1000];
    eprintln!(
        "{what}: {} decisions, median {:?}, p99 {:?}, p99.9 {:?}, longest {:?}",
        times.len(),
        part(500),
        part(990),
        part(999),
        part(1000)
    );
}

/// One thread decides. If it loaded the policy, too, or freed the old one, decisions would wait all that time.
#[tokio::test(flavor = "multi_thread")]
async fn loading_a_hundred_thousand_tenants_holds_up_no_decision() {
    let setup = Setup::new(&with_tenants(0)).flags(["--threads=1"]);
    let comporta = setup.start();
    let run = Run::default();
    let quiet = tokio::spawn(timed(comporta.client(), run.clone()));
    sleep(Duration::from_secs(2)).await;
    run.is_over.store(true, Ordering::Relaxed);
    show("nothing changes", &quiet.await.unwrap());

    let run = Run::default();
    let busy = tokio::spawn(timed(comporta.client(), run.clone()));
    let mut loading = Duration::MAX;
    for version in 1..=5 {
        replace(&setup.policy_path().join("policy.yaml"), &with_tenants(version));
        let start = Instant::now();
        while run.met.load(Ordering::Relaxed) < version {
            assert!(start.elapsed() < PATIENCE, "version {version} never came; {}", comporta.log());
            sleep(Duration::from_millis(1)).await;
        }
        loading = loading.min(start.elapsed());
    }
    run.is_over.store(true, Ordering::Relaxed);
    let times = busy.await.unwrap();
    show(&format!("{TENANTS} tenants are loaded again and again, in {loading:?} at least"), &times);
    let longest = *times.last().unwrap();
    assert!(longest < loading / 2, "a decision has taken {longest:?}");
}

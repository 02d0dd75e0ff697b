//! What is decided while Redis does not answer, or refuses.

use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;

use crate::harness::{Comporta, Redis, RedisSetup, Setup, grpc, http, wait_for};

const POLICY: &str = "
domain: d
descriptors:
  - {key: open, rate_limit: {requests_per_unit: 2, unit: hour, failure_mode: open}}
  - {key: closed, rate_limit: {requests_per_unit: 2, unit: hour, failure_mode: closed}}
  - {key: unavailable, rate_limit: {requests_per_unit: 2, unit: hour, failure_mode: unavailable}}
  - {key: local, rate_limit: {requests_per_unit: 5, unit: hour}}
";

fn start(redis: &Redis) -> (Setup, Comporta) {
    let setup = Setup::new(POLICY).flags(["--redis-url".to_owned(), redis.url(), "--replicas=2".to_owned()]);
    let comporta = setup.start();
    (setup, comporta)
}

/// The HTTP status of a request with these descriptors of one entry.
fn ask(comporta: &Comporta, keys: &[&str]) -> u16 {
    ask_for(comporta, keys.iter().map(|key| (*key, "x")))
}

fn ask_with(comporta: &Comporta, key: &str, value: &str) -> u16 {
    ask_for(comporta, [(key, value)])
}

fn ask_for<'a>(comporta: &Comporta, entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> u16 {
    let descriptor = |(key, value)| format!(r#"{{"entries": [{{"key": "{key}", "value": "{value}"}}]}}"#);
    let descriptors: Vec<String> = entries.into_iter().map(descriptor).collect();
    let body = format!(r#"{{"domain": "d", "descriptors": [{}]}}"#, descriptors.join(", "));
    http::post_json(comporta.addresses.http, "/json", &body).unwrap().status
}

#[test]
fn without_redis_each_limit_follows_its_failure_mode_and_with_it_again_its_amount() {
    let mut redis = Redis::start();
    let (_setup, comporta) = start(&redis);
    redis.kill();
    wait_for("the loss to be noticed", || comporta.log().contains("cannot be reached").then_some(()));
    let five_times = |key| [0; 5].map(|_| ask(&comporta, &[key]));
    assert_eq!(five_times("open"), [200; 5]);
    assert_eq!(five_times("closed"), [429; 5]);
    assert_eq!(five_times("unavailable"), [503; 5]);
    assert_eq!(
        five_times("local"),
        [200, 200, 429, 429, 429],
        "one of two replicas has nine tenths of the half of five"
    );
    assert_eq!(ask(&comporta, &["unavailable", "closed"]), 429, "who refuses is stricter than who cannot say");
    assert_eq!(ask(&comporta, &["unavailable", "open"]), 503);
    redis.restart();
    wait_for("the return", || comporta.log().contains(" again, after").then_some(()));
    let until_refused = |key| (0..9).take_while(|_| ask(&comporta, &[key]) == 200).count();
    let passing = ["open", "closed", "unavailable", "local"].map(until_refused);
    assert_eq!(passing, [2, 2, 2, 3], "two of five were spent by the local part");
}

#[test]
fn a_store_that_refuses_is_told_once_and_when_it_does_no_more() {
    let redis = Redis::start();
    let (_setup, comporta) = start(&redis);
    let key = "comporta:{d|closed=x}:hour";
    redis.command::<()>(&["SET", key, "x"]);
    assert_eq!([0; 3].map(|_| ask(&comporta, &["closed"])), [429; 3]);
    let told = "failure modes decide until this is mended";
    assert_eq!(comporta.log().matches(told).count(), 1, "{}", comporta.log());
    assert!(comporta.log().contains("WRONGTYPE"), "{}", comporta.log());
    redis.command::<()>(&["DEL", key]);
    assert_eq!(ask(&comporta, &["closed"]), 200);
    assert!(!comporta.log().contains("does what it is asked again"), "it may refuse others still");
    wait_for("the end to be told", || comporta.log().contains("does what it is asked again").then_some(()));
}

#[test]
fn a_store_that_refuses_only_some_calls_is_told_once() {
    let redis = Redis::start();
    let (_setup, comporta) = start(&redis);
    redis.command::<()>(&["SET", "comporta:{d|closed=x}:hour", "x"]);
    for _ in 0..50 {
        assert_eq!([ask(&comporta, &["closed"]), ask(&comporta, &["open"])][0], 429);
    }
    let log = comporta.log();
    assert_eq!(log.matches("failure modes decide until this is mended").count(), 1, "{log}");
    assert!(!log.contains("does what it is asked again"), "{log}");
}

/// With a second of patience, whoever waits is found out.
fn start_patient(redis: &RedisSetup) -> (Setup, Comporta) {
    let flags = ["--redis-url".to_owned(), redis.url(), "--redis-timeout=1s".to_owned()];
    let setup = Setup::new(POLICY).flags(flags);
    let comporta = setup.start();
    (setup, comporta)
}

/// Asks with keys that nobody has asked with, until Redis is no more asked.
fn open_breaker(comporta: &Comporta) {
    let mut asked = 0;
    wait_for("the breaker to open", || {
        asked += 1;
        ask_with(comporta, "open", &format!("early-{asked}"));
        comporta.log().contains("is asked no more").then_some(())
    });
    assert!(asked <= 8, "{asked} requests have waited");
}

/// Of many requests that would need Redis none waits.
fn assert_nobody_waits(comporta: &Comporta) {
    let begun = Instant::now();
    for number in 0..20 {
        assert_eq!(ask_with(comporta, "open", &format!("later-{number}")), 200);
        assert_eq!(ask_with(comporta, "closed", &format!("later-{number}")), 429);
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "40 requests took {:?}", begun.elapsed());
}

#[test]
fn a_redis_that_hangs_is_asked_no_more_until_it_answers() {
    let redis = Redis::start();
    let (_setup, comporta) = start_patient(redis.setup());
    assert_eq!(ask(&comporta, &["closed"]), 200);
    redis.pause();
    open_breaker(&comporta);
    assert_nobody_waits(&comporta);
    redis.resume();
    wait_for("the breaker to close", || comporta.log().contains("is asked again, after").then_some(()));
    let statuses = [0; 3].map(|_| ask_with(&comporta, "closed", "last"));
    assert_eq!(statuses, [200, 200, 429], "the limit is exact again");
    let log = comporta.log();
    assert_eq!((log.matches("is asked no more").count(), log.matches("is asked again").count()), (1, 1), "{log}");
    assert!(log.contains("no answer within 1s"), "{log}");
}

#[test]
fn nobody_waits_for_a_redis_that_is_not_there_and_it_is_used_when_it_comes() {
    let setup = RedisSetup::new();
    let (_setup, comporta) = start_patient(&setup);
    open_breaker(&comporta);
    assert_nobody_waits(&comporta);
    let page = http::get(comporta.addresses.http, "/readyz").unwrap();
    assert_eq!(page.status, 200);
    assert!(page.body.starts_with("ok\nredis: not asked: ") && page.body.contains("Connection refused"), "{page:?}");
    let metrics = http::get(comporta.addresses.admin, "/metrics").unwrap().body;
    for (name, value) in [("breaker_state", "2"), ("breaker_transitions_total", "1")] {
        let is_told =
            |line: &str| line.starts_with(&format!("comporta_{name}{{node=\"redis://")) && line.ends_with(value);
        assert!(metrics.lines().any(is_told), "{name} is not {value}: {metrics}");
    }
    let _redis = setup.start();
    wait_for("the breaker to close", || comporta.log().contains("is asked again, after").then_some(()));
    assert_eq!([0; 3].map(|_| ask_with(&comporta, "closed", "last")), [200, 200, 429]);
    assert_eq!(http::get(comporta.addresses.http, "/readyz").unwrap().body, "ok\nredis: asked\n");
}

/// However many ask for one bucket: five wait as long as they may, and those who came after them not even that.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_ask_for_one_bucket_hardly_any_waits_as_long_as_it_may() {
    const PATIENCE: Duration = Duration::from_secs(1);
    let redis = Redis::start();
    let (_setup, comporta) = start_patient(redis.setup());
    redis.pause();
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let mut client = comporta.client();
        asked.spawn(async move {
            let begun = Instant::now();
            let answer = client.should_rate_limit(grpc::request("d", ["open=hot"])).await.unwrap();
            assert_eq!(answer.into_inner().overall_code(), Code::Ok);
            begun.elapsed()
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let waits = asked.join_all().await;
    let count = |is_meant: &dyn Fn(Duration) -> bool| waits.iter().filter(|wait| is_meant(**wait)).count();
    let in_vain = count(&|wait| wait >= PATIENCE);
    assert!((1..=6).contains(&in_vain), "{in_vain} of 40 have waited for {PATIENCE:?}: {waits:?}");
    let released = count(&|wait| wait >= PATIENCE / 5 && wait < PATIENCE);
    assert!(released >= 10, "{released} of 40 were released when the breaker opened: {waits:?}");
    let at_once = count(&|wait| wait < PATIENCE / 5);
    assert!(at_once >= 10, "{at_once} of 40 have not waited: {waits:?}");
    redis.resume();
}

/// What a replica has let pass on its own is not forgotten: the other one knows it, as soon as Redis is back.
#[test]
fn what_was_spent_without_redis_is_told_once_it_is_back() {
    let mut redis = Redis::start();
    let policy = "{domain: d, descriptors: [{key: local, rate_limit: {requests_per_unit: 100, unit: day}}]}";
    let flags = ["--redis-url".to_owned(), redis.url(), "--local-safety-factor=1".to_owned()];
    let setups = [0; 2].map(|_| Setup::new(policy).flags(flags.iter().cloned().chain(["--replicas=2".to_owned()])));
    let [first, second] = [0, 1].map(|index: usize| setups[index].start());
    redis.kill();
    wait_for("the loss to be noticed", || first.log().contains("cannot be reached").then_some(()));
    assert_eq!((0..80).filter(|_| ask(&first, &["local"]) == 200).count(), 50);
    redis.restart();
    wait_for("the return", || {
        let logs = [first.log(), second.log()];
        logs.iter().all(|log| log.contains(" again, after")).then_some(())
    });
    let used = || redis.command::<std::collections::BTreeMap<String, u64>>(&["HGETALL", "comporta:{d|local=x}:day"]);
    wait_for("the debt to be told", || used().get("used").is_some_and(|used| *used >= 49_000_000).then_some(()));
    assert_eq!((0..80).filter(|_| ask(&second, &["local"]) == 200).count(), 50, "{:?}", used());
    wait_for("the sum of the outage", || first.log().contains("they have decided 80 limits: 80 local").then_some(()));
    assert!(!second.log().contains("they have decided"), "it was not asked: {}", second.log());
}

/// Nobody waits for a connection that cannot be had, whatever hinders it.
#[test]
fn nobody_waits_for_a_redis_that_does_not_let_us_in() {
    let redis = RedisSetup::new().password("secret").start();
    let flags = [format!("--redis-url=redis://:hunter2@{}", redis.address()), "--redis-timeout=1s".to_owned()];
    let setup = Setup::new(POLICY).flags(flags);
    let comporta = setup.start();
    open_breaker(&comporta);
    assert_nobody_waits(&comporta);
    redis.command::<()>(&["CONFIG", "SET", "requirepass", "hunter2"]);
    wait_for("the breaker to close", || comporta.log().contains("is asked again, after").then_some(()));
    assert_eq!([0; 3].map(|_| ask_with(&comporta, "closed", "last")), [200, 200, 429]);
}

#[test]
fn who_wants_to_wait_for_redis_is_not_ready_before_and_answers_all_the_same() {
    let redis = RedisSetup::new();
    let flags = ["--redis-url".to_owned(), redis.url(), "--ready-requires-redis".to_owned()];
    let setup = Setup::new(POLICY).flags(flags);
    let comporta = setup.launch();
    let readyz = || http::get(comporta.addresses.http, "/readyz");
    wait_for("an answer", || readyz().ok());
    // Longer than who does not want to wait for it would wait.
    std::thread::sleep(Duration::from_millis(2500));
    let page = readyz().unwrap();
    assert_eq!(page.status, 503);
    assert!(page.body.starts_with("starting\nredis: not asked: "), "{page:?}");
    assert_eq!(ask(&comporta, &["open"]), 200);
    let _redis = redis.start();
    wait_for("readiness", || comporta.is_ready().then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_less_time_than_redis_has_is_answered_in_its_time() {
    let redis = Redis::start();
    let flags = ["--redis-url".to_owned(), redis.url(), "--redis-timeout=10s".to_owned()];
    let setup = Setup::new(POLICY).flags(flags);
    let comporta = setup.start();
    redis.pause();
    let mut client = comporta.client();
    let mut request = tonic::Request::new(grpc::request("d", ["open=x"]));
    request.set_timeout(Duration::from_secs(2));
    let begun = Instant::now();
    let response = client.should_rate_limit(request).await.expect("an answer, and not the client's own deadline");
    assert_eq!(response.into_inner().overall_code(), Code::Ok, "the failure mode lets it pass");
    assert!(begun.elapsed() >= Duration::from_millis(1800), "it has waited for Redis: {:?}", begun.elapsed());
}

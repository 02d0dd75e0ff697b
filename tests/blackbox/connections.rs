//! How connections end, and how many there may be.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use rustix::process::Signal;
use tokio::time::timeout;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::grpc::{ask, call_without_end, code, request, was_never_begun};
use crate::harness::{Comporta, PATIENCE, Redis, Setup, http, wait_for};

const POLICY: &str = "{domain: d, descriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 1000000}}]}";

fn start<'a>(flags: impl IntoIterator<Item = &'a str>) -> (Setup, Comporta) {
    let setup = Setup::new(POLICY).flags(flags);
    let comporta = setup.start();
    (setup, comporta)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The beginning of a request in HTTP/1 whose body of so many bytes does not come, but for this.
fn begin_request(address: SocketAddr, length: usize, body: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    write!(stream, "POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n").unwrap();
    stream.write_all(body).unwrap();
    stream
}

/// The status of the answer that comes, sooner or later.
fn status_of(mut stream: TcpStream) -> u16 {
    let mut answer = [0; 64];
    let count = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..count]).split(' ').nth(1).unwrap().parse().unwrap()
}

/// Waits until the service hangs up.
fn wait_for_end(mut stream: TcpStream) {
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it has not hung up");
    }
}

fn connections(comporta: &Comporta, port: &str) -> u64 {
    comporta.metric(&format!("comporta_connections{{port=\"{port}\"}}")).unwrap()
}

fn accepted(comporta: &Comporta, port: &str) -> u64 {
    comporta.metric(&format!("comporta_connections_accepted_total{{port=\"{port}\"}}")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_connects_anew_when_its_connection_is_of_age() {
    let (_setup, comporta) = start(["--max-connection-age=300ms"]);
    let mut client = comporta.client();
    let begin = Instant::now();
    let mut answered = 0;
    while begin.elapsed() < Duration::from_secs(2) {
        match ask(&mut client, request("d", ["k=v"])).await {
            Ok(_) => answered += 1,
            // This client takes a connection that has just been told to go for one that is good. Envoy does not.
            Err(status) => assert!(was_never_begun(&status), "{status:?}"),
        }
    }
    let accepted = accepted(&comporta, "grpc");
    // A slow machine may be late; never early: 2 s have room for seven of 270 ms, and one that is just beginning.
    assert!((3..=9).contains(&accepted), "{accepted} connections for {answered} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_is_cut_after_the_grace() {
    let (_setup, comporta) = start(["--max-connection-age=300ms", "--max-connection-age-grace=300ms"]);
    let mut health = HealthClient::new(comporta.channel());
    let begin = Instant::now();
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    // It is never ended by the service itself.
    assert!(watch.message().await.is_err(), "the stream ends with its connection");
    let lived = begin.elapsed();
    assert!(lived >= Duration::from_millis(270 + 300), "cut after {lived:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_on_which_nothing_is_asked_are_closed() {
    let (_setup, comporta) = start(["--idle-timeout=500ms"]);
    let mut client = comporta.client();
    assert_eq!(code(&mut client, ["k=v"]).await, Code::Ok);
    let mut kept_alive = connect(comporta.addresses.http);
    kept_alive.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(kept_alive.read(&mut [0; 64]).unwrap() > 0);
    wait_for_end(kept_alive);
    wait_for("the idle connection to go", || (connections(&comporta, "grpc") == 0).then_some(()));
    assert_eq!(code(&mut client, ["k=v"]).await, Code::Ok, "the next request opens another");
}

#[test]
fn a_client_that_does_not_answer_to_pings_is_cut() {
    let (_setup, comporta) = start(["--keepalive-interval=200ms", "--keepalive-timeout=200ms", "--idle-timeout=0"]);
    let mut dead = connect(comporta.addresses.grpc);
    // It says hello, with no settings of its own, and nothing from then on.
    dead.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    wait_for("it to be there", || (connections(&comporta, "grpc") == 1).then_some(()));
    wait_for("it to be cut", || (connections(&comporta, "grpc") == 0).then_some(()));
}

/// It says a word of a request from time to time, and an answer to a ping cannot come within it.
#[test]
fn a_client_that_never_comes_to_the_end_of_a_frame_is_cut() {
    // The head of a request in two frames, the second of 100 bytes: it never comes to its end.
    const HEAD: &[u8] = b"\0\0\x01\x01\0\0\0\0\x01\x83\0\0\x64\x09\x04\0\0\0\x01";
    // The beginning of a frame that is as long as it may be, and ignored, because it is of no known type.
    const UNKNOWN: &[u8] = b"\0\x40\0\x7f\0\0\0\0\0";
    let (_setup, comporta) = start([
        "--keepalive-interval=200ms",
        "--keepalive-timeout=200ms",
        "--idle-timeout=0",
        "--max-connection-age=0",
    ]);
    for frame in [HEAD, UNKNOWN] {
        let mut slow = connect(comporta.addresses.grpc);
        slow.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        slow.write_all(frame).unwrap();
        wait_for("it to be cut", || slow.write_all(b"\0").is_err().then_some(()));
    }
}

#[test]
fn whoever_says_nothing_or_too_little_is_let_go_and_counted() {
    let (_setup, comporta) = start([]);
    let begin = Instant::now();
    let say = |address, words: &[u8]| {
        let mut stream = connect(address);
        stream.write_all(words).unwrap();
        stream
    };
    let address = comporta.addresses.grpc;
    let quiet = [
        say(address, b""),
        say(address, b"P"),
        say(address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"),
        say(comporta.addresses.http, b"P"),
    ];
    for stream in quiet {
        wait_for_end(stream);
        let lived = begin.elapsed();
        assert!((Duration::from_secs(9)..Duration::from_secs(14)).contains(&lived), "it lived for {lived:?}");
    }
    for (port, count) in [("grpc", 3), ("http", 1)] {
        let name = format!(r#"comporta_connections_refused_total{{port="{port}",reason="silent"}}"#);
        assert_eq!(comporta.metric(&name), Some(count), "{port}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_connections_than_there_may_be_and_those_there_are_go_on() {
    let (_setup, comporta) = start(["--max-connections=5"]);
    let mut client = comporta.client();
    assert_eq!(code(&mut client, ["k=v"]).await, Code::Ok);
    let crowd: Vec<_> = (0..4).map(|_| connect(comporta.addresses.grpc)).collect();
    wait_for("all to be there", || (connections(&comporta, "grpc") == 5).then_some(()));
    for _ in 0..100 {
        wait_for_end(connect(comporta.addresses.grpc));
    }
    assert_eq!(code(&mut client, ["k=v"]).await, Code::Ok);
    assert_eq!(http::get(comporta.addresses.http, "/readyz").unwrap().status, 200, "each port has a bound of its own");
    assert_eq!(comporta.metric(r#"comporta_connections_refused_total{port="grpc",reason="crowded"}"#), Some(100));
    assert_eq!(comporta.log().matches("see --max-connections").count(), 1, "{}", comporta.log());
    drop(crowd);
    wait_for("room", || (connections(&comporta, "grpc") == 1).then_some(()));
    assert_eq!(code(&mut comporta.client(), ["k=v"]).await, Code::Ok);
}

/// Requests that wait for a Redis that hangs are under way.
#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_requests_that_may_be_under_way_all_are_refused_at_once() {
    const MOST: u64 = 5;
    let redis = Redis::start();
    let url = redis.url();
    let (_setup, comporta) = start(["--max-requests=5", "--redis-timeout=5s", "--redis-url", &url]);
    redis.pause();
    let waiting: Vec<_> = (0..MOST)
        .map(|number| {
            let mut client = comporta.client();
            tokio::spawn(async move { ask(&mut client, request("d", [format!("k={number}").as_str()])).await })
        })
        .collect();
    let under_way = || comporta.metric(r#"comporta_requests_under_way{port="grpc"}"#).unwrap();
    wait_for("all to wait", || (under_way() == MOST).then_some(()));
    let begin = Instant::now();
    let mut client = comporta.client();
    for _ in 0..20 {
        let refusal = ask(&mut client, request("d", ["k=other"])).await.unwrap_err();
        assert_eq!(refusal.code(), tonic::Code::ResourceExhausted, "{refusal:?}");
        assert!(refusal.message().contains("--max-requests"), "{refusal:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "20 refusals took {:?}", begin.elapsed());
    let health = HealthClient::new(comporta.channel()).check(HealthCheckRequest::default()).await;
    assert!(health.is_ok(), "probes are not kept out: {health:?}");
    redis.resume();
    for waits in waiting {
        assert!(waits.await.unwrap().is_ok(), "those under way are answered");
    }
    assert_eq!(under_way(), 0);
    assert_eq!(comporta.metric(r#"comporta_requests_refused_total{port="grpc",reason="crowded"}"#), Some(20));
    assert_eq!(code(&mut client, ["k=other"]).await, Code::Ok);
}

/// As when the process, or what sends to it, was held up. The client is one that ends a request with a frame of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_on_one_connection_is_no_attack() {
    const STREAMS: usize = 1_000;
    let (_setup, comporta) = start([]);
    let mut client = comporta.client();
    assert_eq!(code(&mut client, ["k=first"]).await, Code::Ok);
    comporta.signal(Signal::STOP);
    let burst: Vec<_> = (0..STREAMS)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { code(&mut client, ["k=v"]).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    comporta.signal(Signal::CONT);
    for answer in burst {
        assert_eq!(answer.await.unwrap(), Code::Ok);
    }
    assert_eq!(accepted(&comporta, "grpc"), 1);
}

/// As when the process was held up for longer than most of its clients wait.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_were_given_up_before_they_were_read_do_not_end_the_connection() {
    const GIVEN_UP: usize = 500;
    let (_setup, comporta) = start([]);
    let mut client = comporta.client();
    assert_eq!(code(&mut client, ["k=first"]).await, Code::Ok);
    comporta.signal(Signal::STOP);
    let ask_once = || {
        let mut client = client.clone();
        async move { code(&mut client, ["k=v"]).await }
    };
    let patient = tokio::spawn(ask_once());
    let hasty: Vec<_> = (0..GIVEN_UP).map(|_| tokio::spawn(timeout(Duration::from_millis(100), ask_once()))).collect();
    for given_up in hasty {
        assert!(given_up.await.unwrap().is_err(), "a process that is stopped has answered");
    }
    comporta.signal(Signal::CONT);
    assert_eq!(patient.await.unwrap(), Code::Ok);
    assert_eq!(code(&mut client, ["k=last"]).await, Code::Ok);
    assert_eq!(accepted(&comporta, "grpc"), 1);
}

/// A connection that is never done must not be one that never ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_without_a_pause_is_told_to_go_all_the_same() {
    let (_setup, comporta) = start(["--max-connection-age=1s", "--threads=1"]);
    let client = comporta.client();
    let until = Instant::now() + Duration::from_secs(4);
    let busy: Vec<_> = (0..200)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move {
                while Instant::now() < until {
                    if let Err(status) = ask(&mut client, request("d", ["k=v"])).await {
                        assert!(was_never_begun(&status), "{status:?}");
                    }
                }
            })
        })
        .collect();
    for task in busy {
        task.await.unwrap();
    }
    assert!(accepted(&comporta, "grpc") >= 3, "{} connections in four seconds", accepted(&comporta, "grpc"));
}

/// Requests to health and reflection have places of their own, and no longer to arrive than others.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_no_calls_are_bounded_and_counted_too() {
    const PLACES: usize = 1_000;
    let (_setup, comporta) = start([]);
    // The first has as many streams as a connection may have.
    let (mut watcher, mut health) = (HealthClient::new(comporta.channel()), HealthClient::new(comporta.channel()));
    let mut watching = Vec::new();
    for _ in 0..PLACES {
        watching.push(watcher.watch(HealthCheckRequest::default()).await.unwrap());
    }
    let mut refusals = vec![health.check(HealthCheckRequest::default()).await.unwrap_err()];
    assert_eq!(code(&mut comporta.client(), ["k=v"]).await, Code::Ok, "calls are answered");

    // One place is free, and then it is not.
    watching.pop();
    while let Err(refusal) = health.check(HealthCheckRequest::default()).await {
        refusals.push(refusal);
    }
    let slow = tokio::spawn(call_without_end(comporta.channel(), "/grpc.health.v1.Health/Check"));
    loop {
        match health.check(HealthCheckRequest::default()).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(refusal) => break refusals.push(refusal),
        }
    }
    assert!(refusals.iter().all(|refusal| refusal.code() == tonic::Code::ResourceExhausted), "{refusals:?}");
    assert_eq!(slow.await.unwrap().code(), tonic::Code::DeadlineExceeded);
    for (reason, count) in [("crowded", refusals.len() as u64), ("slow", 1)] {
        let name = format!(r#"comporta_requests_refused_total{{port="grpc",reason="{reason}"}}"#);
        assert_eq!(comporta.metric(&name), Some(count), "{reason}");
    }
}

#[test]
fn requests_that_do_not_arrive_hold_a_place_for_a_while_only() {
    let (_setup, comporta) = start(["--max-requests=2", "--max-request-bytes=65536"]);
    let address = comporta.addresses.http;
    let slow: Vec<_> = (0..2).map(|_| begin_request(address, 100, b"{")).collect();
    let under_way = || comporta.metric(r#"comporta_requests_under_way{port="http"}"#).unwrap();
    wait_for("both to be under way", || (under_way() == 2).then_some(()));
    assert_eq!(http::post_json(address, "/json", "{}").unwrap().status, 503, "there is no place");
    assert_eq!(http::get(address, "/readyz").unwrap().status, 200, "probes need none");
    for stream in slow {
        assert_eq!(status_of(stream), 408);
    }
    assert_eq!(http::post_json(address, "/json", "{}").unwrap().status, 400, "there is place again");

    // Not one that has brought too much, either.
    let large = begin_request(address, 1 << 20, " ".repeat(60_000).as_bytes());
    let bytes = || comporta.metric(r#"comporta_request_bytes{port="http"}"#).unwrap();
    wait_for("the bytes to be there", || (bytes() == 60_000).then_some(()));
    let refused = http::post_json(address, "/json", &" ".repeat(6_000)).unwrap();
    assert!(refused.status == 503 && refused.body.contains("--max-request-bytes"), "{refused:?}");
    drop(large);
    wait_for("the bytes to go", || (bytes() == 0).then_some(()));
    assert_eq!(http::post_json(address, "/json", &" ".repeat(6_000)).unwrap().status, 400);
    for (reason, count) in [("crowded", 1), ("slow", 2), ("bytes", 1)] {
        let name = format!(r#"comporta_requests_refused_total{{port="http",reason="{reason}"}}"#);
        assert_eq!(comporta.metric(&name), Some(count), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_a_largest_size_and_a_largest_number_of_descriptors() {
    let (_setup, comporta) = start([]);
    let mut client = comporta.client();
    let long = format!("k={}", "x".repeat(5 << 20));
    let refusal = ask(&mut client, request("d", [long.as_str()])).await.unwrap_err();
    assert!(refusal.code() == tonic::Code::ResourceExhausted && refusal.message().contains("4 MiB"), "{refusal:?}");
    assert!(ask(&mut client, request("d", vec!["k=v"; 1000])).await.is_ok());
    let refusal = ask(&mut client, request("d", vec!["k=v"; 1001])).await.unwrap_err();
    assert!(refusal.code() == tonic::Code::InvalidArgument && refusal.message().contains("1000"), "{refusal:?}");
    let entries = |count: usize| vec!["k=v"; count].join(" ");
    assert!(ask(&mut client, request("d", [entries(10_000).as_str()])).await.is_ok());
    let refusal = ask(&mut client, request("d", [entries(9_999).as_str(), "k=v k=v"])).await.unwrap_err();
    assert!(refusal.code() == tonic::Code::InvalidArgument && refusal.message().contains("10000"), "{refusal:?}");
    let question = |count: usize| format!(r#"{{"domain": "d", "descriptors": [{}]}}"#, vec!["{}"; count].join(", "));
    let status = |count| http::post_json(comporta.addresses.http, "/json", &question(count)).unwrap().status;
    assert_eq!((status(1000), status(1001)), (200, 400));
    let entries = format!(r#"{{"domain": "d", "descriptors": [{{"entries": [{}]}}]}}"#, vec!["{}"; 10_001].join(", "));
    assert_eq!(http::post_json(comporta.addresses.http, "/json", &entries).unwrap().status, 400);
}

/// Everything at once, from clients that mean harm; `docs/operations.md` says what it may cost.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_connections_streams_and_keys_stays_within_the_bounds() {
    const CONNECTIONS: usize = 300;
    const STREAMS: usize = 50;
    const BUCKETS: u64 = 20_000;
    // As docs/operations.md has it, of both ports: connections, requests, and their bytes. Buckets as they come. And what
    // the allocator keeps.
    const MOST: u64 = 2 * ((CONNECTIONS as u64) * 100_000 + 2_000 * 2_000 + (4 << 20)) + BUCKETS * 280 + (8 << 20);
    let (_setup, comporta) = start([
        "--max-connections=300",
        "--max-concurrent-streams=50",
        "--max-requests=2000",
        "--max-request-bytes=4194304",
        "--max-buckets=20000",
        "--log-level=error",
    ]);
    let mut warm = comporta.client();
    assert_eq!(code(&mut warm, ["k=warm"]).await, Code::Ok);
    let before = comporta.memory();

    let deadline = Instant::now() + Duration::from_secs(15);
    let flood: Vec<_> = (0..CONNECTIONS + 100)
        .map(|number| {
            let client = comporta.client();
            tokio::spawn(async move {
                let mut asked = 0;
                while Instant::now() < deadline && asked < 40 {
                    let streams = (0..STREAMS).map(|stream| {
                        let mut client = client.clone();
                        async move {
                            let key = format!("k={number}-{asked}-{stream}-{}", "x".repeat(2_000));
                            // Refusals are answers, too; those whose connection was refused get none.
                            drop(ask(&mut client, request("d", [key.as_str()])).await);
                        }
                    });
                    let streams: tokio::task::JoinSet<()> = streams.collect();
                    streams.join_all().await;
                    asked += 1;
                }
            })
        })
        .collect();
    let silent: Vec<_> = (0..200).filter_map(|_| TcpStream::connect(comporta.addresses.http).ok()).collect();
    let slow: Vec<_> =
        (0..100).map(|_| begin_request(comporta.addresses.http, 4 << 20, " ".repeat(60_000).as_bytes())).collect();
    let mut most = 0;
    while !flood.iter().all(tokio::task::JoinHandle::is_finished) {
        most = most.max(comporta.memory());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(Instant::now() < deadline + PATIENCE, "the flood does not end");
    }
    drop((silent, slow));
    let grown = most.saturating_sub(before);
    let decided = comporta.metric(r#"comporta_requests_total{code="ok"}"#).unwrap();
    eprintln!("a flood of {decided} requests: {} MB more, of {} MB", grown >> 20, MOST >> 20);
    assert!(decided > 20_000, "{decided} requests are no flood");
    assert!(comporta.metric("comporta_buckets").unwrap() <= BUCKETS);
    assert!(grown <= MOST, "{} MB more, of {} MB", grown >> 20, MOST >> 20);
    wait_for("a place for a new client", || (connections(&comporta, "grpc") < 300).then_some(()));
    assert_eq!(code(&mut comporta.client(), ["k=after"]).await, Code::Ok, "it lives on");
}

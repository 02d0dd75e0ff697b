//! Servers that are no Redis, or no good one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use comporta::store::StoreError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{LONGEST_CALL, call, call_until_it_succeeds, start};
use crate::harness::{Redis, free_address};

/// A server that reads what a client sends and answers with the same each time.
struct Fake {
    address: SocketAddr,
    connections: Arc<AtomicU32>,
}

impl Fake {
    /// `answers`: to the first thing that comes on a connection, to the second, and so on; then it only reads.
    async fn start(answers: &'static [&'static [u8]]) -> Self {
        let address = free_address();
        let listener = TcpListener::bind(address).await.unwrap();
        let connections = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(answer(stream, answers));
            }
        });
        Self { address, connections }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

async fn answer(mut stream: TcpStream, answers: &'static [&'static [u8]]) {
    let mut buffer = vec![0; 65_536];
    for answer in answers {
        if !matches!(stream.read(&mut buffer).await, Ok(1..)) || stream.write_all(answer).await.is_err() {
            return;
        }
    }
    if answers.is_empty() {
        return;
    }
    while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
}

/// What a Redis answers to the first word.
const PONG: &[u8] = b"+PONG\r\n";

/// What a Redis answers to the client's name, and then to the question for its role, to three scripts, and to the question
/// for its settings.
const HELLO: &[u8] = b"+OK\r\n+OK\r\n";
const SETUP: &[u8] = b"*1\r\n$6\r\nmaster\r\n+a\r\n+b\r\n+c\r\n*0\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_redis_is_an_error_and_no_more() {
    let cases: [&'static [&'static [u8]]; 18] = [
        &[],
        &[b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"],
        &[b"\x15\x03\x01\x00\x02\x02\x46"],
        &[b"\xff\xfe\xfd\x00\r\n"],
        &[b"-ERR max number of clients reached\r\n"],
        &[b"+PONG and no end of it"],
        &[b":1\r\n"],
        &[PONG, b"-ERR max number of clients reached\r\n-ERR max number of clients reached\r\n"],
        &[PONG, HELLO, b"*1\r\n$5\r\nhal"],
        &[PONG, HELLO, b"$9223372036854775807\r\nx"],
        &[PONG, HELLO, b"*9223372036854775807\r\n"],
        &[PONG, HELLO, b"*1000000000\r\n:1\r\n"],
        &[PONG, HELLO, b"%4611686018427387904\r\n"],
        &[PONG, HELLO, b"%-1\r\n"],
        &[PONG, HELLO, b"|9223372036854775807\r\n"],
        &[PONG, HELLO, b"=-5\r\n"],
        &[PONG, HELLO, b"!-5\r\n"],
        &[PONG, HELLO, b"*-5\r\n>-1\r\n~-1\r\n(x\r\n"],
    ];
    for answers in cases {
        let fake = Fake::start(answers).await;
        let store = start(&fake.url());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(400) {
            let error = call(&store).await.unwrap_err();
            assert!(!matches!(error, StoreError::Misrouted(_)), "{error:?}");
            assert!(!error.to_string().contains('\n'), "{error:?}");
        }
        // With pauses of 5, 10, 20 ms and so on, of which half is random, there are at most 9 in that time.
        let connections = fake.connections.load(Ordering::Relaxed);
        assert!((1..=10).contains(&connections), "{connections} connections for {answers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strange_answers_to_a_call_are_errors_and_no_more() {
    let deep: &'static [u8] = "*1\r\n".repeat(10_000).leak().as_bytes();
    let cases: [&'static [u8]; 14] = [
        b"+OK\r\n",
        b"$-1\r\n",
        b":7\r\n",
        b"*7\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n$1\r\n0\r\n",
        b"*6\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
        b"*7\r\n:1\r\n:-1\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
        b":99999999999999999999\r\n",
        b"-\r\n",
        b"-ERR \x1b[31mred\x07\r\n",
        b"!10\r\nSYNTAX a\nb\r\n",
        b"*1\r\n-WRONGTYPE inside\r\n",
        b"|1\r\n+a\r\n+b\r\n:1\r\n",
        b">2\r\n+invalidate\r\n+x\r\n:1\r\n",
        deep,
    ];
    for reply in cases {
        let answers: &'static [&'static [u8]] = vec![PONG, HELLO, SETUP, reply, reply].leak();
        let fake = Fake::start(answers).await;
        let store = start(&fake.url());
        let begun = Instant::now();
        let error = loop {
            match call(&store).await {
                Err(StoreError::Unreachable(_)) if begun.elapsed() < LONGEST_CALL => {}
                other => break other.unwrap_err(),
            }
        };
        assert!(matches!(error, StoreError::Malformed(_) | StoreError::Lost(_)), "{error:?} for {reply:?}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_repeats_the_password_is_not_quoted() {
    let fake = Fake::start(&[PONG, b"-ERR unknown command 'AUTH' with args 'hunter2'\r\n+OK\r\n+OK\r\n"]).await;
    let other = Fake::start(&[PONG, b"+OK\r\n-ERR hunter2\r\n+OK\r\n+OK\r\n"]).await;
    for url in [format!("redis://:hunter2@{}", fake.address), format!("redis://:hunter2@{}/3", other.address)] {
        let store = start(&url);
        let mut said = String::new();
        for _ in 0..3 {
            said.push_str(&call(&store).await.unwrap_err().to_string());
        }
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_will_not_have_us_is_quoted_and_the_password_not_doubted() {
    for words in ["ERR max number of clients reached", "DENIED Redis is running in protected mode"] {
        let line: &'static [u8] = format!("-{words}\r\n").leak().as_bytes();
        let fake = Fake::start(vec![line].leak()).await;
        let store = start(&format!("redis://:hunter2@{}", fake.address));
        store.tried().await;
        let error = call(&store).await.unwrap_err();
        assert!(matches!(&error, StoreError::Refused(text) if text.ends_with(words)), "{error:?}");
    }
}

/// Sentinels of one epoch are wrong about somebody. Whoever is used remains so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_disagree_lead_nobody_to_and_fro() {
    let (one, other) = (Redis::start(), Redis::start());
    let mut sentinels = Vec::new();
    for redis in [&one, &other] {
        let (host, port) = (redis.address().ip().to_string(), redis.address().port().to_string());
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let answer = ["*2\r\n", &bulk("config-epoch"), &bulk("3"), "*2\r\n", &bulk(&host), &bulk(&port)].concat();
        let answer: &'static [u8] = answer.leak().as_bytes();
        let answers = [vec![PONG, HELLO], vec![answer; 10]].concat();
        sentinels.push(Fake::start(answers.leak()).await);
    }
    let store = start(&format!("redis-sentinel://{},{}/main", sentinels[0].address, sentinels[1].address));
    call_until_it_succeeds(&store).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    call(&store).await.unwrap();
    let is_used = |redis: &Redis| redis.command_counts().contains_key("evalsha");
    assert!(is_used(&one) != is_used(&other), "both have been used");
    assert!(sentinels.iter().all(|sentinel| sentinel.connections.load(Ordering::Relaxed) == 1));
}

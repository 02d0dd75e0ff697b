//! The scripts as Comporta runs them, with the server's own clock.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use comporta::limit::{Algorithm, Limit, Unit};
use comporta::store::scripts::{self, Script};
use comporta::store::{Facts, Operation, Reply, StoreCall};
use redis::{Connection, RedisResult, Value};

use super::{is_soak, start};
use crate::harness::{Flavour, Redis};

const BUCKET: &str = "{api|tenant=acme}:minute";
const MINUTE: u64 = 60_000_000;

fn limit(algorithm: Algorithm) -> Limit {
    Limit::per(100, Unit::Minute, algorithm)
}

fn acquire(algorithm: Algorithm, bucket: &str, needed: u64, want: u64) -> StoreCall {
    let operation = Operation::Acquire { needed, want, facts: Facts::default() };
    StoreCall { bucket: bucket.into(), limit: limit(algorithm), operation }
}

fn try_call(connection: &mut Connection, call: &StoreCall) -> RedisResult<Value> {
    let script = redis::Script::new(Script::of(&call.limit).text());
    let mut invocation = script.key(&*call.bucket);
    for argument in scripts::arguments(call) {
        invocation.arg(argument);
    }
    invocation.invoke(connection)
}

fn call(connection: &mut Connection, call: &StoreCall) -> Reply {
    scripts::reply(&try_call(connection, call).unwrap(), call.operation.most_extra()).unwrap()
}

fn server_time(connection: &mut Connection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(connection).unwrap();
    seconds * 1_000_000 + micros
}

/// The fields of the bucket, each of which must be a whole number.
fn fields(connection: &mut Connection) -> BTreeMap<String, u64> {
    redis::cmd("HGETALL").arg(BUCKET).query(connection).unwrap()
}

fn lifetime_millis(connection: &mut Connection) -> u64 {
    redis::cmd("PTTL").arg(BUCKET).query(connection).unwrap()
}

/// How often the scripts have written since the start of the server.
fn writes(server: &Redis) -> u64 {
    let counts = server.command_counts();
    ["hset", "pexpire", "del"].iter().filter_map(|name| counts.get(*name)).sum()
}

#[test]
fn a_token_bucket_is_a_hash_that_people_can_read() {
    for server in Flavour::ALL.map(start) {
        let mut connection = server.connect();
        let before = server_time(&mut connection);
        let reply = call(&mut connection, &acquire(Algorithm::TokenBucket, BUCKET, 4, 6));
        let time = before..=server_time(&mut connection);
        assert_eq!((reply.granted, reply.extra, reply.used), (true, 6, 10_000_000));
        assert!(time.contains(&reply.epoch), "{} is not in {time:?}", reply.epoch);
        let expected = [
            ("used", 10_000_000),
            ("at", reply.epoch),
            ("carry", 0),
            ("epoch", reply.epoch),
            ("out", 6),
            ("out_before", 0),
            ("refilled", 0),
        ];
        assert_eq!(fields(&mut connection), expected.map(|(name, number)| (name.to_owned(), number)).into());
        // Two epochs of 15 s, and 6 s for ten tokens.
        assert!(about(36_000).contains(&lifetime_millis(&mut connection)));
    }
}

#[test]
fn a_fixed_window_is_a_hash_that_people_can_read() {
    for server in Flavour::ALL.map(start) {
        let mut connection = server.connect();
        let before = server_time(&mut connection);
        let reply = call(&mut connection, &acquire(Algorithm::FixedWindow, BUCKET, 4, 6));
        let time = before..=server_time(&mut connection);
        assert_eq!((reply.granted, reply.extra, reply.used), (true, 6, 10));
        let windows = time.start() / MINUTE..=time.end() / MINUTE;
        assert!(windows.contains(&reply.epoch), "{} is not in {windows:?}", reply.epoch);
        let expected = [("used", 10), ("window", reply.epoch)];
        assert_eq!(fields(&mut connection), expected.map(|(name, number)| (name.to_owned(), number)).into());
        assert!(about((reply.lease_time.0 + MINUTE) / 1000).contains(&lifetime_millis(&mut connection)));
    }
}

/// A lifetime that was set to this a moment ago.
fn about(millis: u64) -> RangeInclusive<u64> {
    millis.saturating_sub(15_000)..=millis + 1
}

#[test]
fn a_call_that_moves_nothing_writes_nothing() {
    for server in Flavour::ALL.map(start) {
        let mut connection = server.connect();
        for algorithm in Algorithm::ALL {
            call(&mut connection, &acquire(algorithm, BUCKET, 60, 0));
            let (fields_before, writes_before) = (fields(&mut connection), writes(&server));
            assert!(call(&mut connection, &acquire(algorithm, BUCKET, 0, 0)).granted);
            assert!(!call(&mut connection, &acquire(algorithm, BUCKET, 99, 99)).granted);
            assert_eq!(fields(&mut connection), fields_before);
            assert_eq!(writes(&server), writes_before);
            server.flush_all();
        }
    }
}

#[test]
fn what_is_no_bucket_is_refused_and_left_alone() {
    for server in Flavour::ALL.map(start) {
        let mut connection = server.connect();
        redis::cmd("SET").arg(BUCKET).arg("something else").exec(&mut connection).unwrap();
        for algorithm in Algorithm::ALL {
            let error = try_call(&mut connection, &acquire(algorithm, BUCKET, 1, 0)).unwrap_err();
            assert!(error.to_string().contains("WRONGTYPE"), "{error}");
        }
        let text: String = redis::cmd("GET").arg(BUCKET).query(&mut connection).unwrap();
        assert_eq!(text, "something else");
    }
}

#[test]
fn a_bucket_is_small_and_a_call_is_short() {
    let rounds = if is_soak() { 2000 } else { 20 };
    for (flavour, server) in Flavour::ALL.map(|flavour| (flavour, start(flavour))) {
        for algorithm in Algorithm::ALL {
            let (bytes, micros) = cost(&server, algorithm, rounds);
            eprintln!("{flavour:?}: a {} takes {bytes} bytes, and a call {micros} µs", algorithm.name());
            assert!(bytes < 400, "{bytes} bytes a bucket");
            server.flush_all();
        }
    }
}

/// How many bytes a bucket takes and how many microseconds a call, when a hundred buckets are asked in turn.
fn cost(server: &Redis, algorithm: Algorithm, rounds: u32) -> (u64, String) {
    let name = |customer| format!("{{api|tenant=customer-{customer}}}:minute");
    let mut connection = server.connect();
    let text = Script::of(&limit(algorithm)).text();
    let hash: String = redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut connection).unwrap();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut connection).unwrap();
    for _ in 0..rounds {
        let mut pipeline = redis::pipe();
        for customer in 0..100 {
            let call = acquire(algorithm, &name(customer), 1, 1);
            let command = pipeline.cmd("EVALSHA").arg(&hash).arg(1).arg(&*call.bucket);
            for argument in scripts::arguments(&call) {
                command.arg(argument);
            }
        }
        pipeline.exec(&mut connection).unwrap();
    }
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    let micros = line.split(',').find_map(|value| value.strip_prefix("usec_per_call=")).unwrap();
    let bytes = redis::cmd("MEMORY").arg("USAGE").arg(name(1)).query(&mut connection).unwrap();
    (bytes, micros.to_owned())
}

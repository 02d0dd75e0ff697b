//! How long connections live, and how many there are.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{Args, value_parser};

use super::time;

/// How long connections live, and how many there are. Each bound holds for the gRPC port and for the HTTP port apart.
#[derive(Args, Clone, Debug)]
pub struct ConnectionSettings {
    /// Ask clients to connect anew after this time, give or take a tenth, so that they spread over new replicas; 0 for
    /// never
    #[arg(
        long,
        env = "COMPORTA_MAX_CONNECTION_AGE",
        value_name = "DURATION",
        default_value = "30m",
        value_parser = never_or_seconds_to_a_day
    )]
    pub max_connection_age: Duration,

    /// How long requests under way may take after that, before their connection is cut
    #[arg(
        long,
        env = "COMPORTA_MAX_CONNECTION_AGE_GRACE",
        value_name = "DURATION",
        default_value = "10s",
        value_parser = seconds_to_a_day
    )]
    pub max_connection_age_grace: Duration,

    /// Close connections on which no request has come for so long; 0 for never
    #[arg(
        long,
        env = "COMPORTA_IDLE_TIMEOUT",
        value_name = "DURATION",
        default_value = "10m",
        value_parser = never_or_seconds_to_a_day
    )]
    pub idle_timeout: Duration,

    /// Ask HTTP/2 clients that say nothing for so long whether they are still there; 0 for never
    #[arg(
        long,
        env = "COMPORTA_KEEPALIVE_INTERVAL",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = never_or_seconds_to_a_day
    )]
    pub keepalive_interval: Duration,

    /// How long they may take to answer that
    #[arg(
        long,
        env = "COMPORTA_KEEPALIVE_TIMEOUT",
        value_name = "DURATION",
        default_value = "20s",
        value_parser = seconds_to_a_day
    )]
    pub keepalive_timeout: Duration,

    /// The most connections at a time; one more is closed at once
    #[arg(
        long,
        env = "COMPORTA_MAX_CONNECTIONS",
        value_name = "COUNT",
        default_value_t = 10_000,
        value_parser = value_parser!(u32).range(1..)
    )]
    pub max_connections: u32,

    /// The most requests at a time on one HTTP/2 connection; the client waits with one more, or connects again
    #[arg(
        long,
        env = "COMPORTA_MAX_CONCURRENT_STREAMS",
        value_name = "COUNT",
        default_value_t = 1_000,
        value_parser = value_parser!(u32).range(1..)
    )]
    pub max_concurrent_streams: u32,

    /// The most requests under way at a time; one more is answered at once with `RESOURCE_EXHAUSTED`, in HTTP with 503
    #[arg(
        long,
        env = "COMPORTA_MAX_REQUESTS",
        value_name = "COUNT",
        default_value_t = 10_000,
        value_parser = value_parser!(u32).range(1..)
    )]
    pub max_requests: u32,

    /// The most bytes of requests under way at a time; one that brings more is answered in the same way
    #[arg(
        long,
        env = "COMPORTA_MAX_REQUEST_BYTES",
        value_name = "BYTES",
        default_value_t = 64 << 20,
        value_parser = value_parser!(u64).range(65_536..)
    )]
    pub max_request_bytes: u64,
}

const DAY: f64 = 86_400.0;

fn seconds_to_a_day(text: &str) -> Result<Duration, String> {
    within(0.1..=DAY, text).ok_or_else(|| "give a time from 100ms to 24h, with its unit, such as 10s, 30m or 2h".into())
}

fn never_or_seconds_to_a_day(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    within(0.1..=DAY, text)
        .ok_or_else(|| "give a time from 100ms to 24h, with its unit, such as 10s, 30m or 2h; or 0 for never".into())
}

fn within(seconds: RangeInclusive<f64>, text: &str) -> Option<Duration> {
    time(text).filter(|time| seconds.contains(time)).map(Duration::from_secs_f64)
}

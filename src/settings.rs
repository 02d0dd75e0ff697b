//! Every setting, once: its flag, its environment variable, its default, and what it is for.

mod connections;
mod metrics;
mod store;
mod tls;
mod traces;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, value_parser};
use http::{HeaderName, header};
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::engine::{EngineSettings, LeaseSettings};
pub use connections::ConnectionSettings;
pub use metrics::MetricSettings;
pub use store::StoreSettings;
pub use tls::{GrpcTlsSettings, HttpSettings};
pub use traces::TraceSettings;

use crate::limit::{Algorithm, Micros};
use crate::policy::{Defaults, FailureMode};
use crate::random::random_u64;
use crate::telemetry::log::LogFormat;

/// Where probes ask.
#[derive(Args, Clone, Copy, Debug)]
pub struct HttpAddress {
    /// Address of the HTTP service: /json, /healthcheck, /livez, /readyz
    #[arg(long, env = "COMPORTA_HTTP_ADDR", value_name = "ADDR", default_value = "[::]:8080", value_parser = address)]
    pub http_addr: SocketAddr,
}

/// What `comporta serve` is told.
#[derive(Args, Clone, Debug)]
pub struct ServeSettings {
    #[command(flatten)]
    pub policy: PolicySettings,

    /// Address of Envoy's gRPC rate limit service
    #[arg(long, env = "COMPORTA_GRPC_ADDR", value_name = "ADDR", default_value = "[::]:8081", value_parser = address)]
    pub grpc_addr: SocketAddr,

    #[command(flatten)]
    pub grpc_tls: GrpcTlsSettings,

    #[command(flatten)]
    pub http: HttpSettings,

    /// Address for operators: /policy, /explain, /buckets, /metrics
    #[arg(
        long,
        env = "COMPORTA_ADMIN_ADDR",
        value_name = "ADDR",
        default_value = "127.0.0.1:6070",
        value_parser = address
    )]
    pub admin_addr: SocketAddr,

    /// Let every request pass; the statuses tell what would have happened
    #[arg(
        long,
        env = "COMPORTA_SHADOW_MODE",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch
    )]
    pub shadow_mode: bool,

    #[command(flatten)]
    pub response: ResponseSettings,

    #[command(flatten)]
    pub metrics: MetricSettings,

    #[command(flatten)]
    pub store: StoreSettings,

    #[command(flatten)]
    pub connections: ConnectionSettings,

    #[command(flatten)]
    pub traces: TraceSettings,

    /// The most buckets that are kept in memory; beyond it, of about 350, the one that has been idle longest goes
    #[arg(
        long,
        env = "COMPORTA_MAX_BUCKETS",
        value_name = "COUNT",
        default_value = "1000000",
        value_parser = value_parser!(u32).range(1..)
    )]
    pub max_buckets: u32,

    /// Worker threads, 1 to 1024 [default: one for each core]
    #[arg(long, env = "COMPORTA_THREADS", value_name = "COUNT", value_parser = value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// How long to go on serving after SIGTERM, while /readyz says that the process is stopping: as long as load balancers
    /// take to notice. Part of --drain-timeout; SIGINT skips it
    #[arg(long, env = "COMPORTA_DRAIN_DELAY", value_name = "DURATION", default_value = "0s", value_parser = drain_time)]
    pub drain_delay: Duration,

    /// The longest that stopping may take; what is still under way then is cut
    #[arg(
        long,
        env = "COMPORTA_DRAIN_TIMEOUT",
        value_name = "DURATION",
        default_value = "10s",
        value_parser = drain_time
    )]
    pub drain_timeout: Duration,

    /// What is logged: error, warn, info, debug, trace or off, also by module as in `info,comporta::server=debug`
    #[arg(long, env = "COMPORTA_LOG_LEVEL", value_name = "FILTER", default_value = "info", value_parser = log_filter)]
    pub log_level: Targets,

    /// How lines of the log look: text for people, json for tools
    #[arg(long, env = "COMPORTA_LOG_FORMAT", value_name = "FORMAT", default_value_t = LogFormat::Text, value_enum)]
    pub log_format: LogFormat,
}

impl ValueEnum for LogFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// What a response tells besides the decision.
#[derive(Args, Clone, Debug)]
pub struct ResponseSettings {
    /// Tell clients of the tightest limit in headers: its size, what is left, when it resets, and when to try again
    #[arg(
        long,
        env = "COMPORTA_RESPONSE_HEADERS",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch
    )]
    pub response_headers: bool,

    #[command(flatten)]
    pub header_names: HeaderNames,

    /// Tell Envoy in dynamic metadata what was asked, who refused, and the metadata of the rules
    #[arg(
        long,
        env = "COMPORTA_RESPONSE_DYNAMIC_METADATA",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch
    )]
    pub response_dynamic_metadata: bool,
}

/// The names of the headers of `--response-headers`.
#[derive(Args, Clone, Debug)]
pub struct HeaderNames {
    /// Header with the requests per unit
    #[arg(
        long,
        env = "COMPORTA_LIMIT_HEADER",
        value_name = "NAME",
        default_value = "RateLimit-Limit",
        value_parser = header_name
    )]
    pub limit_header: HeaderName,

    /// Header with the requests that are left
    #[arg(
        long,
        env = "COMPORTA_REMAINING_HEADER",
        value_name = "NAME",
        default_value = "RateLimit-Remaining",
        value_parser = header_name
    )]
    pub remaining_header: HeaderName,

    /// Header with the seconds until the limit is whole again or, when refused, until the request passes
    #[arg(
        long,
        env = "COMPORTA_RESET_HEADER",
        value_name = "NAME",
        default_value = "RateLimit-Reset",
        value_parser = header_name
    )]
    pub reset_header: HeaderName,

    /// Header with the seconds after which a refused request passes
    #[arg(
        long,
        env = "COMPORTA_RETRY_AFTER_HEADER",
        value_name = "NAME",
        default_value = "Retry-After",
        value_parser = header_name
    )]
    pub retry_after_header: HeaderName,
}

/// Where the policy is, and what its limits are where it is silent.
#[derive(Args, Clone, Debug)]
pub struct PolicySettings {
    /// Policy file, or folder that is searched for .yaml and .yml files
    #[arg(long = "policy", env = "COMPORTA_POLICY", value_name = "PATH", default_value = "config")]
    pub path: PathBuf,

    #[command(flatten)]
    pub defaults: DefaultSettings,
}

/// What limits are where their policy is silent.
#[derive(Args, Clone, Debug)]
pub struct DefaultSettings {
    /// Algorithm of limits that name none
    #[arg(
        long,
        env = "COMPORTA_DEFAULT_ALGORITHM",
        value_name = "ALGORITHM",
        value_enum,
        default_value_t = Algorithm::TokenBucket
    )]
    pub default_algorithm: Algorithm,

    /// Let limits that do not say otherwise be overdrawn: a cost above what is left is refused, and charged
    #[arg(
        long,
        env = "COMPORTA_OVERDRAFT",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch
    )]
    pub overdraft: bool,
}

impl ValueEnum for Algorithm {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(match self {
            Self::TokenBucket => "Hits flow back evenly",
            Self::FixedWindow => "All hits come back when the unit ends, as in envoyproxy/ratelimit",
        }))
    }
}

impl ValueEnum for FailureMode {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(match self {
            Self::Local => "Each replica lets its part of the limit pass",
            Self::Open => "Everything passes",
            Self::Closed => "Everything is refused",
            Self::Unavailable => "The request is answered with UNAVAILABLE, and Envoy decides",
        }))
    }
}

impl DefaultSettings {
    #[must_use]
    pub const fn defaults(&self) -> Defaults {
        Defaults { algorithm: self.default_algorithm, overdraft: self.overdraft }
    }
}

impl ServeSettings {
    /// # Errors
    ///
    /// When settings contradict each other.
    pub fn check(&self) -> Result<(), String> {
        self.response.header_names.check()?;
        if self.drain_delay.is_zero() || self.drain_delay < self.drain_time_for_requests() {
            return Ok(());
        }
        Err(format!(
            "--drain-delay, {:?}, leaves no time to finish requests: of --drain-timeout, {:?}, they may take {:?} in all, the \
             delay included; give more time to stop",
            self.drain_delay,
            self.drain_timeout,
            self.drain_time_for_requests()
        ))
    }

    /// What of the drain timeout is there for the delay and the requests: all but a quarter, or three seconds, which are for
    /// leases and traces.
    #[must_use]
    pub fn drain_time_for_requests(&self) -> Duration {
        const LONGEST_REST: Duration = Duration::from_secs(3);
        self.drain_timeout.saturating_sub(LONGEST_REST.min(self.drain_timeout / 4))
    }

    #[must_use]
    pub fn engine(&self) -> EngineSettings {
        EngineSettings {
            max_buckets: self.max_buckets as usize,
            shadow_mode: self.shadow_mode,
            defaults: self.policy.defaults.defaults(),
            failure_mode: self.store.failure_mode,
            local_percent: self.store.local_safety_factor,
            near_limit_percent: self.metrics.near_limit_ratio,
            most_values: self.metrics.metric_series_per_rule as usize,
            store_timeout: self.store.redis_url.as_ref().map(|_| Micros::from(self.store.redis_timeout)),
            lease: LeaseSettings {
                horizon: Micros::from(self.store.lease_horizon),
                renew_at_percent: self.store.lease_renew_at,
            },
            random_seed: random_u64(),
        }
    }
}

impl HeaderNames {
    /// # Errors
    ///
    /// When two headers have one name: the client could not tell them apart.
    pub fn check(&self) -> Result<(), String> {
        let named = [
            ("--limit-header", &self.limit_header),
            ("--remaining-header", &self.remaining_header),
            ("--reset-header", &self.reset_header),
            ("--retry-after-header", &self.retry_after_header),
        ];
        for (index, (flag, name)) in named.iter().enumerate() {
            if let Some((other, _)) = named[..index].iter().find(|(_, other)| other == name) {
                return Err(format!("{other} and {flag} have the same name, {name}: give each its own"));
            }
        }
        Ok(())
    }
}

/// Reads a switch.
fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("give true or false (or yes or no, on or off, 1 or 0)".to_owned()),
    }
}

/// Reads the name of a header that tells something. Those that frame a message are not for that.
fn header_name(text: &str) -> Result<HeaderName, String> {
    const FRAMING: [HeaderName; 9] = [
        header::CONNECTION,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::HOST,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    let name: HeaderName = text.parse().map_err(|_| "give the name of a header, such as RateLimit-Limit".to_owned())?;
    if FRAMING.contains(&name) {
        return Err(format!("{name} belongs to HTTP itself: give another name, such as RateLimit-Limit"));
    }
    Ok(name)
}

/// Reads `ADDRESS:PORT`, or a name that resolves to one.
fn address(text: &str) -> Result<SocketAddr, String> {
    let advice = "give ADDRESS:PORT, such as 127.0.0.1:8081 or [::]:8081";
    text.to_socket_addrs()
        .map_err(|error| format!("{error}; {advice}"))?
        .next()
        .ok_or_else(|| format!("no address has this name; {advice}"))
}

/// Reads a time; at most a day. A number alone counts seconds.
fn drain_time(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .or_else(|| time(text))
        .filter(|seconds| (0.0..=86_400.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a time from 0s to 24h, such as 10s, 500ms or 1m".to_owned())
}

/// Reads a time with its unit; from a millisecond to a minute.
fn duration(text: &str) -> Result<Duration, String> {
    time(text)
        .filter(|seconds| (0.001..=60.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a time from 1ms to 60s, with its unit, such as 10ms, 0.5s or 2s".to_owned())
}

/// The seconds of a time with its unit: `ms`, `s`, `m` or `h`.
fn time(text: &str) -> Option<f64> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, seconds) = units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    Some(number.parse::<f64>().ok()? * seconds)
}

/// Reads `LEVEL`, `MODULE=LEVEL`, or several of them with commas between.
fn log_filter(text: &str) -> Result<Targets, String> {
    const ADVICE: &str =
        "give error, warn, info, debug, trace or off, also by module as in info,comporta::server=debug";
    // A word alone would be taken for a module, and with it everything else would fall silent.
    let is_level = |part: &str| !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    if let Some(word) = text.split(',').find(|part| !part.contains('=') && !is_level(part)) {
        return Err(format!("{word:?} is no level; {ADVICE}"));
    }
    text.parse().map_err(|error| format!("{error}; {ADVICE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        for (text, milliseconds) in
            [("10ms", 10), ("0.5s", 500), ("2s", 2000), ("1ms", 1), ("1.5ms", 1), ("60s", 60_000), ("1m", 60_000)]
        {
            assert_eq!(duration(text).unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in
            ["", "10", "0.5", "ms", "s", "0ms", "0.5ms", "61s", "-1s", "2m", "1h", "10 ms ", "NaNs", "infs", "1S"]
        {
            assert!(duration(text).unwrap_err().contains("10ms"), "{text}");
        }
    }
}

//! Where the buckets are that replicas share.

use std::env;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command, ValueEnum, value_parser};
use rustls::pki_types::ServerName;

use super::{duration, switch};
use crate::policy::FailureMode;
use crate::store::redis::{Credentials, KeyPrefix, Login, RedisKind, RedisSettings, RedisUrl, TlsSettings};

/// Where the buckets are that replicas share.
#[derive(Args, Clone, Debug)]
pub struct StoreSettings {
    /// Redis in which all replicas share their limits: `redis://HOST:PORT`, `unix:///PATH`,
    /// `redis-sentinel://HOST:PORT,HOST:PORT/SERVICE`, `redis-cluster://HOST:PORT,HOST:PORT`, each with
    /// `USER:PASSWORD@` before its hosts; `rediss…` for TLS; or a list for --redis-type [default: none, each replica
    /// counts alone]
    #[arg(
        long,
        env = "COMPORTA_REDIS_URL",
        hide_env_values = true,
        value_name = "URL",
        value_parser = Secret("--redis-url", RedisUrl::parse)
    )]
    pub redis_url: Option<RedisUrl>,

    /// What a --redis-url without a scheme is: `single` HOST:PORT, `sentinel` SERVICE,HOST:PORT,HOST:PORT, `cluster`
    /// HOST:PORT,HOST:PORT [default: single]
    #[arg(long, env = "COMPORTA_REDIS_TYPE", value_name = "TYPE", value_enum, ignore_case = true)]
    pub redis_type: Option<RedisKind>,

    /// The login for Redis, as PASSWORD, USER:PASSWORD, or :PASSWORD for one with a colon in it. Better in the
    /// environment, or in a file: everybody on the machine can read flags
    #[arg(
        long,
        env = "COMPORTA_REDIS_AUTH",
        hide_env_values = true,
        value_name = "LOGIN",
        allow_hyphen_values = true,
        conflicts_with = "redis_auth_file",
        value_parser = Secret("--redis-auth", Login::parse)
    )]
    pub redis_auth: Option<Login>,

    /// File with the login for Redis, one line as in --redis-auth; when it changes, the new one counts
    #[arg(long, env = "COMPORTA_REDIS_AUTH_FILE", value_name = "FILE")]
    pub redis_auth_file: Option<PathBuf>,

    /// The login for the Sentinels, as in --redis-auth
    #[arg(
        long,
        env = "COMPORTA_REDIS_SENTINEL_AUTH",
        hide_env_values = true,
        value_name = "LOGIN",
        allow_hyphen_values = true,
        conflicts_with = "redis_sentinel_auth_file",
        value_parser = Secret("--redis-sentinel-auth", Login::parse)
    )]
    pub redis_sentinel_auth: Option<Login>,

    /// File with the login for the Sentinels; when it changes, the new one counts
    #[arg(long, env = "COMPORTA_REDIS_SENTINEL_AUTH_FILE", value_name = "FILE")]
    pub redis_sentinel_auth_file: Option<PathBuf>,

    /// Speak TLS, if --redis-url has no scheme; otherwise its scheme says so
    #[arg(
        long,
        env = "COMPORTA_REDIS_TLS",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch
    )]
    pub redis_tls: bool,

    /// File with the authorities of which one has signed the certificates of Redis, in the PEM format [default: those
    /// that the machine trusts]
    #[arg(long, env = "COMPORTA_REDIS_TLS_CA", value_name = "FILE")]
    pub redis_tls_ca: Option<PathBuf>,

    /// File with the certificate to show to Redis, and those above it, in the PEM format
    #[arg(long, env = "COMPORTA_REDIS_TLS_CERT", value_name = "FILE", requires = "redis_tls_key")]
    pub redis_tls_cert: Option<PathBuf>,

    /// File with the key of --redis-tls-cert, in the PEM format
    #[arg(long, env = "COMPORTA_REDIS_TLS_KEY", value_name = "FILE", requires = "redis_tls_cert")]
    pub redis_tls_key: Option<PathBuf>,

    /// The name that the certificates of Redis are for [default: the host that is connected to]
    #[arg(long, env = "COMPORTA_REDIS_TLS_SERVER_NAME", value_name = "NAME", value_parser = server_name)]
    pub redis_tls_server_name: Option<ServerName<'static>>,

    /// The longest that a request waits for Redis
    #[arg(
        long,
        env = "COMPORTA_REDIS_TIMEOUT",
        value_name = "DURATION",
        default_value = "10ms",
        value_parser = duration
    )]
    pub redis_timeout: Duration,

    /// The longest that connecting to Redis may take, from the name of the host to the login
    #[arg(
        long,
        env = "COMPORTA_REDIS_CONNECT_TIMEOUT",
        value_name = "DURATION",
        default_value = "500ms",
        value_parser = duration
    )]
    pub redis_connect_timeout: Duration,

    /// The most calls to Redis that are under way at a time; what would be one more fails at once
    #[arg(
        long,
        env = "COMPORTA_REDIS_MAX_IN_FLIGHT",
        value_name = "COUNT",
        default_value = "1000",
        value_parser = value_parser!(u32).range(1..=100_000)
    )]
    pub redis_max_in_flight: u32,

    /// What all keys in Redis begin with; replicas share their limits if they have the same
    #[arg(
        long,
        env = "COMPORTA_REDIS_KEY_PREFIX",
        value_name = "TEXT",
        default_value = "comporta:",
        value_parser = KeyPrefix::new
    )]
    pub redis_key_prefix: KeyPrefix,

    /// The longest time for which hits are borrowed from Redis ahead of need: longer costs fewer calls, and lets other
    /// replicas wait for hits that are not used
    #[arg(
        long,
        env = "COMPORTA_LEASE_HORIZON",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = duration
    )]
    pub lease_horizon: Duration,

    /// Borrow more, in the background, when so many percent of what was borrowed are left, 1 to 99: more lets fewer
    /// requests wait, and costs more calls
    #[arg(
        long,
        env = "COMPORTA_LEASE_RENEW_AT",
        value_name = "PERCENT",
        default_value = "25",
        value_parser = value_parser!(u8).range(1..=99)
    )]
    pub lease_renew_at: u8,

    /// What limits do while Redis cannot be asked, if they do not say
    #[arg(long, env = "COMPORTA_FAILURE_MODE", value_name = "MODE", value_enum, default_value_t = FailureMode::Local)]
    pub failure_mode: FailureMode,

    /// The part of its share of a limit that a replica lets pass in failure mode `local`, 0.01 to 1: below 1 there is room
    /// for a replica that has not been counted yet
    #[arg(
        long,
        env = "COMPORTA_LOCAL_SAFETY_FACTOR",
        value_name = "FACTOR",
        default_value = "0.9",
        value_parser = hundredths
    )]
    pub local_safety_factor: u8,

    /// Say on /readyz, and in gRPC health, that the service is ready only once Redis has been reached, however long that
    /// takes [default: once a first attempt has ended, after two seconds at the latest]
    #[arg(
        long,
        env = "COMPORTA_READY_REQUIRES_REDIS",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_parser = switch
    )]
    pub ready_requires_redis: bool,

    /// How many replicas share the limits [default: counted in Redis]
    #[arg(long, env = "COMPORTA_REPLICAS", value_name = "COUNT", value_parser = value_parser!(u32).range(1..))]
    pub replicas: Option<u32>,
}

impl StoreSettings {
    /// Settings, by their ids, that may be there without `redis_url` and do nothing then. The others are refused.
    pub(crate) const IDLE_WITHOUT_REDIS: [&str; 9] = [
        "redis_timeout",
        "redis_connect_timeout",
        "redis_max_in_flight",
        "redis_key_prefix",
        "lease_horizon",
        "lease_renew_at",
        "failure_mode",
        "local_safety_factor",
        "replicas",
    ];

    /// How to use the Redis, if there is one.
    ///
    /// # Errors
    ///
    /// When two settings do not go together.
    pub fn redis(&self) -> Result<Option<RedisSettings>, String> {
        let (credentials, sentinel_credentials) = (self.credentials(), self.sentinel_credentials());
        let Some(url) = self.redis_url.clone() else {
            let redis_type = self.redis_type.map(|_| "--redis-type");
            let ready = self.ready_requires_redis.then_some("--ready-requires-redis");
            let logins = credentials.setting().or(sentinel_credentials.setting());
            return match redis_type.or(logins).or(self.tls_setting()).or(ready) {
                Some(setting) => Err(format!("{setting} is of no use without --redis-url: give that, too")),
                None => Ok(None),
            };
        };
        let address = url.address(self.redis_type, self.redis_tls).map_err(|error| format!("--redis-url: {error}"))?;
        if address.has_login()
            && let Some(setting) = credentials.setting()
        {
            return Err(format!("--redis-url has a login, and {setting} is another: give one of them"));
        }
        if !address.is_tls()
            && let Some(setting) = self.tls_setting()
        {
            return Err(format!(
                "{setting} is for TLS, and --redis-url is not: write rediss in place of redis there, or give --redis-tls if \
                 it has no scheme"
            ));
        }
        if address.kind() != RedisKind::Sentinel
            && let Some(setting) = sentinel_credentials.setting()
        {
            return Err(format!("{setting} is of no use without Sentinels: see --redis-url"));
        }
        Ok(Some(RedisSettings {
            address,
            credentials,
            sentinel_credentials,
            tls: TlsSettings {
                authorities: self.redis_tls_ca.clone(),
                identity: self.redis_tls_cert.clone().zip(self.redis_tls_key.clone()),
                server_name: self.redis_tls_server_name.clone(),
            },
            timeout: self.redis_timeout,
            max_in_flight: self.redis_max_in_flight as usize,
            connect_timeout: self.redis_connect_timeout,
            key_prefix: self.redis_key_prefix.clone(),
        }))
    }

    /// A flag with a password, which everybody on the machine can read, if there is one.
    #[must_use]
    pub fn readable_secret(&self) -> Option<&'static str> {
        let has_login = matches!(&self.redis_url, Some(RedisUrl::Complete(address)) if address.has_login());
        let secrets = [
            (has_login, "--redis-url", "COMPORTA_REDIS_URL"),
            (self.redis_auth.is_some(), "--redis-auth", "COMPORTA_REDIS_AUTH"),
            (self.redis_sentinel_auth.is_some(), "--redis-sentinel-auth", "COMPORTA_REDIS_SENTINEL_AUTH"),
        ];
        let readable = secrets.iter().find(|(is_given, _, variable)| *is_given && env::var_os(variable).is_none());
        readable.map(|(_, flag, _)| *flag)
    }

    fn credentials(&self) -> Credentials {
        credentials((&self.redis_auth, "--redis-auth"), (&self.redis_auth_file, "--redis-auth-file"))
    }

    fn sentinel_credentials(&self) -> Credentials {
        credentials(
            (&self.redis_sentinel_auth, "--redis-sentinel-auth"),
            (&self.redis_sentinel_auth_file, "--redis-sentinel-auth-file"),
        )
    }

    fn tls_setting(&self) -> Option<&'static str> {
        let files = [
            (&self.redis_tls_ca, "--redis-tls-ca"),
            (&self.redis_tls_cert, "--redis-tls-cert"),
            (&self.redis_tls_key, "--redis-tls-key"),
        ];
        let file = files.iter().find(|(file, _)| file.is_some()).map(|(_, setting)| *setting);
        let name = self.redis_tls_server_name.is_some().then_some("--redis-tls-server-name");
        file.or(name).or(self.redis_tls.then_some("--redis-tls"))
    }
}

/// A login that was given, or a file with one. Clap sees to it that it is not both.
fn credentials(
    (login, login_setting): (&Option<Login>, &'static str),
    (file, file_setting): (&Option<PathBuf>, &'static str),
) -> Credentials {
    match (login, file) {
        (Some(login), _) => Credentials::Given { login: login.clone(), setting: login_setting },
        (None, Some(path)) => Credentials::File { path: path.clone(), setting: file_setting },
        (None, None) => Credentials::None,
    }
}

impl ValueEnum for RedisKind {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Single, Self::Sentinel, Self::Cluster]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Single => PossibleValue::new("single").help("HOST:PORT"),
            Self::Sentinel => PossibleValue::new("sentinel").help("SERVICE,HOST:PORT,HOST:PORT"),
            Self::Cluster => PossibleValue::new("cluster").help("HOST:PORT,HOST:PORT"),
        })
    }
}

/// Reads something secret: its flag, and how it is read. Other parsers have the value repeated when it is wrong.
#[derive(Clone)]
struct Secret<T, E>(&'static str, fn(&str) -> Result<T, E>);

impl<T, E> TypedValueParser for Secret<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Display + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let Self(flag, read) = self;
        let told = |fault: &dyn Display| {
            let mut error =
                clap::Error::raw(ErrorKind::ValueValidation, format!("{flag}: {fault}\n")).with_cmd(command);
            error.insert(ContextKind::InvalidArg, ContextValue::String((*flag).to_owned()));
            error
        };
        let text = value.to_str().ok_or_else(|| told(&"it is not UTF-8"))?;
        read(text).map_err(|fault| told(&fault))
    }
}

/// Reads a factor up to 1, as hundredths.
pub(super) fn hundredths(text: &str) -> Result<u8, String> {
    let advice = || "give 0.01 to 1, with two decimals at most, such as 0.9".to_owned();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{fraction:0<2}");
    if digits.len() > 2 || !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(whole, "0" | "1" | "") {
        return Err(advice());
    }
    let hundredths = whole.parse::<u16>().unwrap_or(0) * 100 + digits.parse::<u16>().map_err(|_| advice())?;
    u8::try_from(hundredths).ok().filter(|hundredths| (1..=100).contains(hundredths)).ok_or_else(advice)
}

/// Reads the name of a server.
fn server_name(text: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(text.to_owned()).map_err(|_| "give a host name or an IP address".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn without_redis_each_setting_is_idle_or_refused() {
        let command = StoreSettings::augment_args(Command::new("serve"));
        let ids: Vec<_> = command.get_arguments().map(|setting| setting.get_id().as_str()).collect();
        for idle in StoreSettings::IDLE_WITHOUT_REDIS {
            assert!(ids.contains(&idle), "{idle}");
        }
        for id in ids {
            if id == "redis_url" || StoreSettings::IDLE_WITHOUT_REDIS.contains(&id) {
                continue;
            }
            let flag = format!("--{}", id.replace('_', "-"));
            let given = match id {
                "redis_tls_cert" | "redis_tls_key" => vec!["--redis-tls-cert=a".into(), "--redis-tls-key=b".into()],
                "redis_tls" | "ready_requires_redis" => vec![flag.clone()],
                "redis_type" => vec![format!("{flag}=cluster")],
                _ => vec![format!("{flag}=a")],
            };
            let told = command.clone().no_binary_name(true).get_matches_from(given);
            let refused = StoreSettings::from_arg_matches(&told).unwrap().redis();
            assert!(refused.is_err(), "{flag} does nothing without --redis-url, and nobody says so");
        }
    }

    #[test]
    fn a_factor_has_two_decimals() {
        for (text, percent) in [("0.9", 90), ("1", 100), ("1.00", 100), ("0.01", 1), (".5", 50), ("0.25", 25)] {
            assert_eq!(hundredths(text), Ok(percent), "{text}");
        }
        for text in ["", "0", "0.0", "1.01", "2", "0.125", "-0.5", "0.-1", "90%", "1e-1", "0,9", "."] {
            assert!(hundredths(text).is_err(), "{text}");
        }
    }
}

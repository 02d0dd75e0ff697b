//! A real Redis.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use redis::{Connection, FromRedisValue, RedisResult};
use rustix::process::Signal;
use tempfile::TempDir;

use super::process::Process;
use super::{Authority, Identity, PATIENCE, free_address, project_path, wait_for, write_file};

/// A server and its version, as `scripts/test` installs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Debian's, or the one that `COMPORTA_TEST_REDIS` names.
    Redis,
    /// 6.2, which has no TLS.
    OldRedis,
    /// 9.1, which has no TLS.
    Valkey,
}

impl Flavour {
    pub(crate) const ALL: [Self; 3] = [Self::Redis, Self::OldRedis, Self::Valkey];

    /// The program, which is that of a Sentinel, too.
    pub(crate) fn program(self) -> OsString {
        match self {
            Self::Redis => env::var_os("COMPORTA_TEST_REDIS").unwrap_or_else(|| OsString::from("redis-server")),
            Self::OldRedis => project_path("target/tools/redis-6.2-server").into(),
            Self::Valkey => project_path("target/tools/valkey-server").into(),
        }
    }
}

/// Everything that it takes to start one; what is started twice has the same address and begins empty.
#[derive(Debug)]
pub(crate) struct RedisSetup {
    address: SocketAddr,
    is_on_socket: bool,
    tls: Option<Tls>,
    password: Option<String>,
    is_sentinel: bool,
    flags: Vec<String>,
    folder: TempDir,
    program: OsString,
}

/// How it speaks TLS.
#[derive(Debug)]
struct Tls {
    address: SocketAddr,
    identity: Identity,
    /// The certificate of the authority that clients must have theirs from.
    clients: Option<PathBuf>,
}

impl RedisSetup {
    /// On an address of its own, which nothing listens on yet.
    pub(crate) fn new() -> Self {
        Self::at(free_address())
    }

    /// On this address.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self {
            address,
            is_on_socket: false,
            tls: None,
            password: None,
            is_sentinel: false,
            flags: Vec::new(),
            folder: TempDir::new().unwrap(),
            program: Flavour::Redis.program(),
        }
    }

    /// Of this kind.
    pub(crate) fn flavour(mut self, flavour: Flavour) -> Self {
        self.program = flavour.program();
        self
    }

    /// On a unix socket, and on no port.
    pub(crate) fn on_socket(mut self) -> Self {
        self.is_on_socket = true;
        self
    }

    /// On a port with TLS too, with this certificate. If clients are to have one, they need one of this authority.
    pub(crate) fn with_tls(mut self, identity: Identity, clients: Option<&Authority>) -> Self {
        self.tls = Some(Tls { address: free_address(), identity, clients: clients.map(Authority::certificate) });
        self
    }

    /// How a client finds it over TLS.
    pub(crate) fn tls_url(&self) -> String {
        format!("rediss://{}", self.tls.as_ref().expect("a Redis with TLS").address)
    }

    /// Open only to those who give this password, of letters and digits.
    pub(crate) fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// One that can have replicas, and be one.
    pub(crate) fn replicating(mut self) -> Self {
        // A replica is known by the address that it connects from, unless it says where it listens.
        let address = self.address.ip().to_string();
        self = self.flags(["--replica-announce-ip", &address, "--protected-mode", "no"]);
        // What a primary sends to a new replica goes there at once, and stays on no disk.
        self = self.flags(["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
        self = self.flags(["--rdb-del-sync-files", "yes"]);
        if let Some(password) = self.password.clone() {
            self = self.flags(["--masterauth", &password]);
        }
        self
    }

    /// A Sentinel with this configuration, which it will rewrite.
    pub(crate) fn sentinel(mut self, configuration: &str) -> Self {
        write_file(&self.sentinel_configuration(), configuration);
        self.is_sentinel = true;
        self
    }

    fn sentinel_configuration(&self) -> PathBuf {
        self.folder.path().join("sentinel.conf")
    }

    /// Further settings, as `redis-server` takes them: `--maxmemory`, `10mb`.
    pub(crate) fn flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// Where it listens, unless it is on a socket.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How a client with all rights finds it, whether it runs or not.
    pub(crate) fn url(&self) -> String {
        let user = self.password.as_ref().map_or_else(String::new, |password| format!(":{password}@"));
        match (self.is_on_socket, &self.password) {
            (false, _) => format!("redis://{user}{}", self.address),
            (true, None) => format!("unix://{}", self.socket().display()),
            (true, Some(password)) => format!("unix://{}?pass={password}", self.socket().display()),
        }
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(self) -> Redis {
        let process = self.launch();
        Redis { process, setup: self }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn launch(&self) -> Process {
        let mut command = Command::new(&self.program);
        if self.is_sentinel {
            command.arg(self.sentinel_configuration()).arg("--sentinel");
        }
        command.args(["--bind", &self.address.ip().to_string()]);
        if self.is_on_socket {
            command.args(["--port", "0", "--unixsocket"]).arg(self.socket());
        } else {
            command.args(["--port", &self.address.port().to_string()]);
        }
        if let Some(Tls { address, identity, clients }) = &self.tls {
            command.args(["--tls-port", &address.port().to_string()]);
            command.arg("--tls-cert-file").arg(&identity.certificate).arg("--tls-key-file").arg(&identity.key);
            match clients {
                Some(authority) => command.arg("--tls-ca-cert-file").arg(authority),
                None => command.args(["--tls-auth-clients", "no"]),
            };
        }
        if let Some(password) = &self.password {
            command.args(["--requirepass", password]);
        }
        // Nothing is kept on disk: it is empty whenever it starts.
        command.args(["--save", "", "--appendonly", "no"]).arg("--dir").arg(self.folder.path());
        command.args(&self.flags);
        let mut process = Process::start("redis", &mut command, self.folder.path().join("log"));
        wait_for("redis to answer", || {
            let exit = process.has_exited();
            assert!(exit.is_none(), "redis ended before it answered: {}", exit.unwrap());
            self.answers().then_some(())
        });
        process
    }

    /// Whether it is ready to do what it is asked.
    fn answers(&self) -> bool {
        self.connect().and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection)).is_ok()
    }

    fn connect(&self) -> RedisResult<Connection> {
        let client = redis::Client::open(self.url())?;
        let connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    }
}

/// A running Redis. Dropped, it is killed and reaped.
#[derive(Debug)]
pub(crate) struct Redis {
    process: Process,
    setup: RedisSetup,
}

impl Redis {
    /// One on a port, with no password and no other setting.
    pub(crate) fn start() -> Self {
        RedisSetup::new().start()
    }

    /// What it was started with.
    pub(crate) fn setup(&self) -> &RedisSetup {
        &self.setup
    }

    pub(crate) fn url(&self) -> String {
        self.setup.url()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.setup.address()
    }

    /// Kills it as the kernel would, and waits until it is gone. [`restart`](Self::restart) brings it back.
    pub(crate) fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait_for_exit();
    }

    /// Starts it again on the same address, and waits until it answers. It has forgotten everything.
    pub(crate) fn restart(&mut self) {
        if self.is_running() {
            self.kill();
        }
        self.process = self.setup.launch();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.has_exited().is_none()
    }

    /// Stops it in its tracks. Its connections stay open, and nothing is answered until [`resume`](Self::resume).
    pub(crate) fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// A connection of one's own, for many commands.
    pub(crate) fn connect(&self) -> Connection {
        self.setup.connect().unwrap()
    }

    /// Does a command, such as `["HGETALL", "key"]`, over a connection of its own.
    pub(crate) fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let (name, arguments) = words.split_first().expect("a command has a name");
        redis::cmd(name).arg(arguments).query(&mut self.setup.connect()?)
    }

    /// Does a command that must succeed.
    pub(crate) fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_command(words).unwrap_or_else(|error| panic!("redis, told {words:?}: {error}"))
    }

    pub(crate) fn flush_all(&self) {
        self.command::<()>(&["FLUSHALL"]);
    }

    /// Makes it forget all scripts.
    pub(crate) fn script_flush(&self) {
        self.command::<()>(&["SCRIPT", "FLUSH"]);
    }

    /// Closes all connections but the one that asks for it, and returns how many there were.
    pub(crate) fn kill_clients(&self) -> u64 {
        self.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
    }

    /// How many clients have run a script as the last thing they did.
    pub(crate) fn script_users(&self) -> usize {
        let clients: String = self.command(&["CLIENT", "LIST", "TYPE", "normal"]);
        clients.lines().filter(|client| client.contains(" cmd=evalsha ")).count()
    }

    /// How often each command was called since the start, by its name in lower case: `evalsha`, `config|get`.
    pub(crate) fn command_counts(&self) -> BTreeMap<String, u64> {
        self.counts("commandstats", "cmdstat_", ":calls=")
    }

    /// How often each kind of error was answered since the start: `MOVED`, `ERR`.
    pub(crate) fn error_counts(&self) -> BTreeMap<String, u64> {
        self.counts("errorstats", "errorstat_", ":count=")
    }

    /// What a section of `INFO` counts. Its lines are a prefix, a name, a separator, the count, and perhaps more after a
    /// comma.
    fn counts(&self, section: &str, prefix: &str, separator: &str) -> BTreeMap<String, u64> {
        let stats: String = self.command(&["INFO", section]);
        let count = |line: &str| {
            let (name, values) = line.strip_prefix(prefix)?.split_once(separator)?;
            Some((name.to_owned(), values.split(',').next()?.parse().ok()?))
        };
        stats.lines().filter_map(count).collect()
    }

    /// All names of keys, in order.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.command(&["KEYS", "*"]);
        keys.sort();
        keys
    }
}

//! The binary under test.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::grpc::Client;
use super::process::Process;
use super::{free_address, http, wait_for, write_file};

/// Where one Comporta listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Addresses {
    pub(crate) fn free() -> Self {
        Self { grpc: free_address(), http: free_address(), admin: free_address() }
    }
}

/// Everything that it takes to start `comporta serve`; what is started twice has the same policy and addresses.
#[derive(Debug)]
pub(crate) struct Setup {
    policy: PathBuf,
    flags: Vec<String>,
    environment: Vec<(&'static str, &'static str)>,
    addresses: Addresses,
    folder: TempDir,
}

impl Setup {
    /// Serves one policy file of this text.
    pub(crate) fn new(policy: &str) -> Self {
        Self::with_files([("policy.yaml", policy)])
    }

    /// Serves a directory of policy files: path and text of each.
    pub(crate) fn with_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let folder = TempDir::new().unwrap();
        let policy = folder.path().join("policy");
        for (name, text) in files {
            write_file(&policy.join(name), text);
        }
        Self { policy, flags: Vec::new(), environment: Vec::new(), addresses: Addresses::free(), folder }
    }

    /// Serves a file or directory that exists already.
    pub(crate) fn with_path(policy: PathBuf) -> Self {
        Self {
            policy,
            flags: Vec::new(),
            environment: Vec::new(),
            addresses: Addresses::free(),
            folder: TempDir::new().unwrap(),
        }
    }

    /// Further arguments of `serve`.
    pub(crate) fn flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags = flags.into_iter().map(Into::into).collect();
        self
    }

    /// Variables of its environment.
    pub(crate) fn environment(mut self, variables: impl IntoIterator<Item = (&'static str, &'static str)>) -> Self {
        self.environment = variables.into_iter().collect();
        self
    }

    pub(crate) fn policy_path(&self) -> &Path {
        &self.policy
    }

    /// Starts the service and waits until it is ready.
    pub(crate) fn start(&self) -> Comporta {
        let mut comporta = self.launch();
        comporta.wait_until_ready();
        comporta
    }

    /// The same, with a log that nobody reads.
    pub(crate) fn start_unread(&self) -> Comporta {
        let process = Process::start_unread("comporta", &mut self.command(), self.folder.path().join("log"));
        let mut comporta = Comporta { process, addresses: self.addresses };
        comporta.wait_until_ready();
        comporta
    }

    /// Starts the service, and waits for nothing.
    pub(crate) fn launch(&self) -> Comporta {
        Comporta::launch(&mut self.command(), self.addresses, self.folder.path().join("log"))
    }

    /// Starts the service, and waits until its gRPC port is open: for those whose HTTP port speaks TLS.
    pub(crate) fn start_until_open(&self) -> Comporta {
        let mut comporta = self.launch();
        wait_for("comporta to listen", || {
            assert!(comporta.is_running(), "comporta ended before it was ready");
            std::net::TcpStream::connect(self.addresses.grpc).is_ok().then_some(())
        });
        comporta
    }

    pub(crate) const fn addresses(&self) -> Addresses {
        self.addresses
    }

    fn command(&self) -> Command {
        let mut command = command();
        command.arg("serve").arg("--policy").arg(&self.policy);
        command.arg("--grpc-addr").arg(self.addresses.grpc.to_string());
        command.arg("--http-addr").arg(self.addresses.http.to_string());
        command.arg("--admin-addr").arg(self.addresses.admin.to_string());
        command.args(&self.flags).envs(self.environment.iter().copied());
        command
    }
}

/// A running service.
#[derive(Debug)]
pub(crate) struct Comporta {
    process: Process,
    pub(crate) addresses: Addresses,
}

impl Comporta {
    /// Starts one with this policy file and no other flag than its addresses.
    pub(crate) fn with_policy(policy: &str) -> (Setup, Self) {
        let setup = Setup::new(policy);
        let comporta = setup.start();
        (setup, comporta)
    }

    /// Runs a command that starts a service on these addresses, and waits until it is ready.
    pub(crate) fn start(command: &mut Command, addresses: Addresses, log: PathBuf) -> Self {
        let mut comporta = Self::launch(command, addresses, log);
        comporta.wait_until_ready();
        comporta
    }

    fn launch(command: &mut Command, addresses: Addresses, log: PathBuf) -> Self {
        Self { process: Process::start("comporta", command, log), addresses }
    }

    fn wait_until_ready(&mut self) {
        wait_for("comporta to be ready", || {
            let exit = self.process.has_exited();
            assert!(exit.is_none(), "comporta ended before it was ready: {}", exit.unwrap());
            self.is_ready().then_some(())
        });
    }

    /// A gRPC client with a connection of its own, opened at its first call.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.channel())
    }

    pub(crate) fn channel(&self) -> tonic::transport::Channel {
        tonic::transport::Endpoint::new(format!("http://{}", self.addresses.grpc)).unwrap().connect_lazy()
    }

    /// Whether a readiness probe passes.
    pub(crate) fn is_ready(&self) -> bool {
        http::get(self.addresses.http, "/readyz").is_ok_and(|response| response.status == 200)
    }

    /// The value of a metric that counts, with its labels if it has any.
    pub(crate) fn metric(&self, name: &str) -> Option<u64> {
        let page = http::get(self.addresses.admin, "/metrics").unwrap().body;
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.has_exited().is_none()
    }

    pub(crate) fn log(&self) -> String {
        // A thread of its own writes it, a moment later.
        std::thread::sleep(Duration::from_millis(20));
        self.process.log()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Takes from it the right to have more files open.
    pub(crate) fn limit_open_files(&self, most: u64) {
        self.process.limit_open_files(most);
    }

    /// What everybody on the machine can read of it.
    pub(crate) fn command_line(&self) -> String {
        self.process.command_line()
    }

    /// The memory that it has in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.process.memory()
    }

    /// How long it has kept processors busy.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.process.cpu_time()
    }

    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        self.process.wait_for_exit()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for_exit()
    }
}

/// Runs the binary to its end with these arguments, in this directory.
pub(crate) fn run<'a>(directory: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Output {
    command().current_dir(directory).args(arguments).output().unwrap()
}

/// The binary, or the one that `COMPORTA_BIN` names, in an environment without any setting of its own.
pub(crate) fn command() -> Command {
    const SETTINGS: [&str; 3] = ["COMPORTA_", "OTEL_", "REDIS_"];
    let own = || env!("CARGO_BIN_EXE_comporta").into();
    let mut command = Command::new(env::var_os("COMPORTA_BIN").unwrap_or_else(own));
    for (name, _) in env::vars_os() {
        if SETTINGS.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

//! A child process that never outlives its test.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use super::wait_for;

/// A running program. What it prints is kept, and shown when its test fails. Dropped, it is killed and reaped.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(name: &'static str, command: &mut Command, log: PathBuf) -> Self {
        let output = File::create(&log).unwrap();
        let errors = output.try_clone().unwrap();
        Self::spawn(name, command.stdout(output).stderr(errors), log)
    }

    /// What it prints to stderr goes into a pipe that nobody reads.
    pub(crate) fn start_unread(name: &'static str, command: &mut Command, log: PathBuf) -> Self {
        Self::spawn(name, command.stdout(Stdio::null()).stderr(Stdio::piped()), log)
    }

    fn spawn(name: &'static str, command: &mut Command, log: PathBuf) -> Self {
        let child = command.stdin(Stdio::null()).spawn();
        Self { name, child: child.unwrap_or_else(|error| panic!("{name} does not start: {error}")), log }
    }

    /// All that it has printed so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub(crate) fn has_exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn limit_open_files(&self, most: u64) {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Nofile, limit).unwrap();
    }

    /// The program and its arguments, as Linux shows them to everybody.
    pub(crate) fn command_line(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.child.id())).unwrap();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    }

    /// User and system time, as Linux counts it: in hundredths of a second.
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // After the name, which ends with the last bracket, user and system time are the 12th and 13th field.
        let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
        let hundredths: u64 = fields.map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(10 * hundredths)
    }

    /// Its resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        1024 * kilobytes.expect("a process with memory").parse::<u64>().unwrap()
    }

    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let what = format!("{} to exit", self.name);
        wait_for(&what, || self.has_exited())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when it has already exited and been reaped, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- what {} printed ---\n{}---", self.name, self.log());
        }
    }
}

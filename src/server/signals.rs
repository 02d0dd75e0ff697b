use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Tells when the process is asked to stop.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// How the process is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// By what runs it (SIGTERM): with time for load balancers to notice.
    Terminate,
    /// By a person at a terminal (SIGINT).
    Interrupt,
}

impl Stop {
    pub(super) const fn signal(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }
}

impl StopSignals {
    /// Needs a Tokio runtime. From now on the signals no longer end the process by themselves.
    pub fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }
}

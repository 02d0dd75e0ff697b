use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Resolves when the process is told to stop, with the name of the signal. Needs a Tokio runtime; from the call on,
/// the signals no longer end the process by themselves.
pub fn signals() -> io::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

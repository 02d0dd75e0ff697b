use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

/// How lines of the log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object a line, for tools.
    Json,
}

impl LogFormat {
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// So many lines may wait until they are read.
const MOST_WAITING: usize = 10_000;

/// Lines that nobody could read in time.
static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// Begins to log to stderr what `filter` lets through, from a thread of its own: whoever reads the log slowly, or not at all,
/// holds up nobody. Lines are lost then, when ten thousand wait. Dropped, what is returned writes the last ones, and waits a
/// second for that at most.
pub fn init(filter: Targets, format: LogFormat) -> WorkerGuard {
    let builder = NonBlockingBuilder::default().buffered_lines_limit(MOST_WAITING);
    let (writer, guard) = builder.finish(io::stderr());
    // It is called once.
    let _ = LOST.set(writer.error_counter());
    let lines = fmt::layer().with_writer(writer);
    // The one warns of directories that are gone and need not be given up any more, the other of whatever a client does wrong,
    // each time. What matters they return.
    let filter = filter.with_target("notify", LevelFilter::ERROR).with_target("h2", LevelFilter::ERROR);
    match format {
        LogFormat::Text => {
            let lines = lines.with_ansi(io::stderr().is_terminal()).with_target(false);
            registry().with(lines).with(filter).init();
        }
        LogFormat::Json => registry().with(lines.json().flatten_event(true)).with(filter).init(),
    }
    guard
}

/// How many lines were lost because the log was not read.
#[must_use]
pub fn lost_lines() -> u64 {
    LOST.get().map_or(0, |lost| lost.dropped_lines() as u64)
}

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
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

/// Begins to log to stderr what `filter` lets through.
pub fn init(filter: Targets, format: LogFormat) {
    let lines = fmt::layer().with_writer(io::stderr);
    match format {
        LogFormat::Text => {
            let lines = lines.with_ansi(io::stderr().is_terminal()).with_target(false);
            registry().with(lines).with(filter).init();
        }
        LogFormat::Json => registry().with(lines.json().flatten_event(true)).with(filter).init(),
    }
}

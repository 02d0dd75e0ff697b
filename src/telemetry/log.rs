use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

/// Begins to log to stderr what `filter` lets through.
pub fn init(filter: Targets) {
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).with_target(false);
    registry().with(lines).with(filter).init();
}

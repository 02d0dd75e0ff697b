use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// The text is not a filter of log levels.
#[derive(Debug, thiserror::Error)]
#[error("--log-level {filter:?} is not a filter: give a level such as info, or target=level pairs ({reason})")]
pub struct InvalidFilter {
    filter: String,
    reason: tracing_subscriber::filter::ParseError,
}

/// Begins to log to stderr what `filter` lets through.
pub fn init(filter: &str) -> Result<(), InvalidFilter> {
    let parsed = EnvFilter::try_new(filter).map_err(|reason| InvalidFilter { filter: filter.to_owned(), reason })?;
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
    Ok(())
}

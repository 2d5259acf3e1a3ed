//! The error log: lines or JSON on stderr, at a level that can change while the node runs.

use super::error_lines::ErrorLines;
use shoal_settings::{Log, LogLevel};
use std::io::{self, IsTerminal};
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// The running error log.
pub struct ErrorLog {
    filter: reload::Handle<Targets, Registry>,
    lines: ErrorLines,
}

impl ErrorLog {
    /// Sends all tracing output from now on to stderr.
    ///
    /// # Errors
    /// Fails when the log's thread cannot be started.
    pub fn start(settings: &Log) -> io::Result<Self> {
        let lines = ErrorLines::start(io::stderr())?;
        let out = lines.clone();
        let (filter, handle) = reload::Layer::new(targets(settings.level));
        let registry = tracing_subscriber::registry().with(filter);
        let layer = fmt::layer().with_writer(move || out.clone());
        // A second start keeps the first log; only tests start twice.
        let _ = match settings.json {
            true => registry.with(layer.json()).try_init(),
            false => registry.with(layer.with_ansi(io::stderr().is_terminal())).try_init(),
        };
        Ok(Self { filter: handle, lines })
    }

    /// Returns the number of lines lost since the last call.
    pub fn lost_lines(&self) -> u64 {
        self.lines.lost()
    }

    /// Waits until the logged lines are out, for at most 3 s (`FLUSH_PATIENCE`) if the reader has
    /// stopped.
    pub fn flush(&self) {
        self.lines.flush(FLUSH_PATIENCE);
    }

    /// Changes the level. The format stays as it was at the start.
    pub fn apply(&self, settings: &Log) {
        if let Err(error) = self.filter.reload(targets(settings.level)) {
            tracing::warn!(%error, "cannot change the level of the error log");
        }
    }
}

/// Longest wait for the last lines at the end.
const FLUSH_PATIENCE: Duration = Duration::from_secs(3);

/// Returns the targets: our own crates at the level of the settings, libraries only from warnings
/// up, since their lines are for programmers.
fn targets(level: LogLevel) -> Targets {
    let ours = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // A target is a path that begins with the crate's name: shoal, shoal_proxy, shoal_store, …
    Targets::new().with_default(ours.min(LevelFilter::WARN)).with_target("shoal", ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn libraries_are_quieter_than_we_are() {
        let debug = targets(LogLevel::Debug);
        assert!(debug.would_enable("shoal_server", &Level::DEBUG));
        assert!(debug.would_enable("shoal::run", &Level::DEBUG));
        assert!(debug.would_enable("hyper", &Level::WARN));
        assert!(!debug.would_enable("hyper", &Level::INFO));
        let error = targets(LogLevel::Error);
        assert!(!error.would_enable("hyper", &Level::WARN));
        assert!(!error.would_enable("shoal_proxy", &Level::WARN));
    }
}

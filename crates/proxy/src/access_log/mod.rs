//! The access log: one line a request, in the format of the operator's tools.
//!
//! Logging never makes a request wait for the disk. A line is formatted by the thread that served
//! the request and appended to its core's bounded buffer; one writer thread takes what has gathered
//! and writes it in one call a core. When the disk is too slow for that, lines are dropped and
//! counted. What a line says is an [`LogEntry`], which borrows: a hit is logged out of the
//! request's own bytes, without an allocation.

mod courtesy;
mod date;
mod entry;
mod escape;
mod format;
mod queue;
mod writer;

pub use entry::LogEntry;
pub use escape::escape_invisible;

use crate::metrics::Metrics;
use parking_lot::Mutex;
use queue::Queue;
use shoal_settings::{Log, LogFormat};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use writer::Ended;

/// An open access log, or none. What is pending when it is dropped is written in the background.
pub struct AccessLog {
    output: Option<Output>,
    metrics: Arc<Metrics>,
}

struct Output {
    format: LogFormat,
    queue: Arc<Queue>,
    writer: Mutex<Option<Ended>>,
}

/// The access log could not be opened.
#[derive(Debug)]
pub struct OpenError {
    /// Its file.
    pub path: PathBuf,
    /// What the system said.
    pub source: std::io::Error,
}

impl AccessLog {
    /// Opens the log that `settings` name; none when they name none.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened for appending, or its writer cannot be started.
    pub fn open(settings: &Log, metrics: Arc<Metrics>) -> Result<Self, OpenError> {
        let target = match settings.access.as_str() {
            "" | "none" => return Ok(Self { output: None, metrics }),
            "stdout" => writer::Target::Stdout,
            path => writer::Target::File(path.into()),
        };
        let queue = Arc::new(Queue::new());
        let writer = writer::start(target, queue.clone(), metrics.clone())
            .map_err(|source| OpenError { path: settings.access.clone().into(), source })?;
        let output = Output { format: settings.format, queue, writer: Mutex::new(Some(writer)) };
        Ok(Self { output: Some(output), metrics })
    }

    /// Whether lines are wanted.
    pub fn is_on(&self) -> bool {
        self.output.is_some()
    }

    /// Whether lines tell the reply's Cache-Status.
    pub fn tells_cache_status(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.format != LogFormat::Squid)
    }

    /// Adds the line of one request. Never waits for the disk; when too much is pending, drops the
    /// line and counts it.
    pub fn log(&self, entry: &LogEntry<'_>) {
        let Some(output) = &self.output else { return };
        if !output.queue.push(|lines| format::append(output.format, entry, lines)) {
            self.metrics.log_lines_dropped.increment();
        }
    }

    /// Has the file opened again by its name, after what is pending was written: a log rotator has
    /// moved it away.
    pub fn reopen(&self) {
        if let Some(output) = &self.output {
            output.queue.reopen();
        }
    }

    /// Writes what is pending and waits until that is done, though not for a disk or reader that
    /// has stopped. Lines that come later are dropped and counted.
    pub fn close(&self) {
        let Some(output) = &self.output else { return };
        output.queue.close();
        // A writer that panicked has been reported by the panic hook.
        if let Some(writer) = output.writer.lock().take()
            && writer.recv_timeout(CLOSE_PATIENCE) == Err(RecvTimeoutError::Timeout)
        {
            tracing::error!("the access log takes nothing; its last lines are lost");
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        // Waits for nothing: the last one who held it may be a thread that serves clients.
        if let Some(output) = &self.output {
            output.queue.close();
        }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot open the access log {}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// How long what is pending may take to be written in the end.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;

//! The access log: one line per request, in a format that the operator's tools read.
//!
//! Logging never makes a request wait for the disk. The thread that serves the request formats a
//! line and appends it to its core's bounded buffer. One writer thread takes the buffers and writes
//! each core's lines in pieces. If the disk is too slow, lines are dropped and counted. A line is
//! made from a [`LogEntry`], which borrows its fields. A hit is logged from the request's own
//! bytes, without an allocation.

mod courtesy;
mod date;
mod entry;
mod escape;
mod format;
mod queue;
mod remote;
mod rotation;
mod template;
mod writer;

pub use entry::LogEntry;
pub use escape::escape_invisible;
pub(crate) use format::outcome_name;

use crate::metrics::Metrics;
use crate::otlp::TraceSink;
use parking_lot::Mutex;
use queue::Queue;
use remote::{Remote, RemoteAddress};
use rotation::RotationRules;
use shoal_settings::{Log, LogField, LogFormat, LogTarget, LogTemplate};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use writer::{Ended, LogOutput};

/// The access log, open or disabled. Dropping the log writes pending lines in the background.
pub struct AccessLog {
    output: Option<Output>,
    metrics: Arc<Metrics>,
}

/// Receivers of finished requests; at least one of the two.
struct Output {
    lines: Option<Lines>,
    traces: Option<Arc<TraceSink>>,
}

struct Lines {
    format: LineFormat,
    queue: Arc<Queue>,
    writer: Mutex<Option<Ended>>,
}

/// Format of a line.
enum LineFormat {
    Named(LogFormat),
    Template(LogTemplate),
}

/// Failure to open the access log.
#[derive(Debug)]
pub struct OpenError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error from the operating system.
    pub source: std::io::Error,
}

impl AccessLog {
    /// Opens the log that `settings` name. The log stays disabled if they name none.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened for appending, or the writer thread cannot be started.
    pub fn open(settings: &Log, metrics: Arc<Metrics>) -> Result<Self, OpenError> {
        let failed = |source| OpenError { path: settings.access.clone().into(), source };
        let wrong = |why: String| failed(std::io::Error::other(why));
        let output = match LogTarget::parse(&settings.access).map_err(wrong)? {
            LogTarget::None => return Ok(Self { output: None, metrics }),
            LogTarget::Stdout => LogOutput::Stdout,
            LogTarget::File(path) => LogOutput::File(path, rotation_of(settings)),
            LogTarget::Syslog(address) => LogOutput::Remote(Remote::new(RemoteAddress::Syslog(address))),
            LogTarget::Journal(path) => LogOutput::Remote(Remote::new(RemoteAddress::Journal(path))),
        };
        let format = match settings.template.as_str() {
            "" => LineFormat::Named(settings.format),
            text => LineFormat::Template(LogTemplate::parse(text).map_err(wrong)?),
        };
        let queue = Arc::new(Queue::new());
        let writer = writer::start(output, queue.clone(), metrics.clone()).map_err(failed)?;
        let lines = Lines { format, queue, writer: Mutex::new(Some(writer)) };
        let output = Output { lines: Some(lines), traces: None };
        Ok(Self { output: Some(output), metrics })
    }

    /// Tells of each request to this receiver too.
    pub fn with_traces(mut self, traces: Option<Arc<TraceSink>>) -> Self {
        self.output = match (self.output.take(), traces) {
            (None, None) => None,
            (before, traces) => Some(Output { lines: before.and_then(|before| before.lines), traces }),
        };
        self
    }

    /// Returns the receiver of traces, if they are on.
    #[inline]
    pub fn traces(&self) -> Option<&TraceSink> {
        self.output.as_ref()?.traces.as_deref()
    }

    #[inline]
    fn lines(&self) -> Option<&Lines> {
        self.output.as_ref()?.lines.as_ref()
    }

    /// Returns `true` if the log is enabled, or somebody looks at its tail.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.output.is_some() || self.metrics.samples.tail.is_watched()
    }

    /// Returns `true` if the format includes the reply's Cache-Status.
    #[inline]
    pub fn tells_cache_status(&self) -> bool {
        self.lines().is_some_and(|lines| lines.format.tells_cache_status())
            || self.metrics.samples.tail.is_watched()
    }

    /// Adds the line of one request. Never waits for the disk: if too many bytes are pending, drops
    /// and counts the line.
    pub fn log(&self, entry: &LogEntry<'_>) {
        if self.metrics.samples.tail.is_watched() {
            self.metrics.samples.tail.push(entry);
        }
        let Some(output) = &self.output else { return };
        if let Some(traces) = &output.traces {
            traces.end(entry, entry.trace);
        }
        let Some(Lines { format, queue, .. }) = &output.lines else { return };
        if !queue.push(|lines| format.append(entry, lines)) {
            self.metrics.log_lines_dropped.increment();
        }
    }

    /// Makes the writer open the file again by its name, after it has written the pending lines. A
    /// log rotator has moved the file away.
    pub fn reopen(&self) {
        if let Some(lines) = self.lines() {
            lines.queue.reopen();
        }
    }

    /// Writes the pending lines and waits for the writer, at most `CLOSE_PATIENCE` if the disk or
    /// reader has stopped. Later lines are dropped and counted.
    pub fn close(&self) {
        let Some(output) = self.lines() else { return };
        output.queue.close();
        // The panic hook has already reported a writer that panicked.
        if let Some(writer) = output.writer.lock().take()
            && writer.recv_timeout(CLOSE_PATIENCE) == Err(RecvTimeoutError::Timeout)
        {
            tracing::error!("the access log takes nothing; its last lines are lost");
        }
    }
}

impl LineFormat {
    /// Returns `true` if lines have the reply's Cache-Status.
    #[inline]
    fn tells_cache_status(&self) -> bool {
        match self {
            Self::Named(format) => *format != LogFormat::Squid,
            Self::Template(template) => template.names(LogField::CacheStatus),
        }
    }

    /// Appends the line of `entry`, its newline included.
    #[inline]
    fn append(&self, entry: &LogEntry<'_>, lines: &mut Vec<u8>) {
        match self {
            Self::Named(format) => format::append(*format, entry, lines),
            Self::Template(template) => {
                template::append(template, entry, lines);
                lines.push(b'\n');
            }
        }
    }
}

/// Returns the rules of rotation, if there are any.
fn rotation_of(settings: &Log) -> Option<RotationRules> {
    let rules = RotationRules {
        bytes_max: settings.rotate_size.0,
        age_max: settings.rotate_age,
        keep: settings.rotate_keep,
        compresses: settings.rotate_gzip,
    };
    (rules.bytes_max > 0 || rules.age_max > Duration::ZERO).then_some(rules)
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        // Does not wait: the last owner may be a thread that serves clients.
        if let Some(lines) = self.lines() {
            lines.queue.close();
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

/// Longest wait for the last pending lines at close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;

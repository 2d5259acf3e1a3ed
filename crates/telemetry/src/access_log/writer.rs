//! The thread that writes the access log and opens the file again on request.

use super::courtesy::{PIECE, YieldPolicy};
use super::queue::{Batch, Queue};
use super::remote::{self, Remote};
use super::rotation::{MODE_MAX, Rotation, RotationRules};
use crate::metrics::Metrics;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Destination of the log.
pub(super) enum LogOutput {
    Stdout,
    File(PathBuf, Option<RotationRules>),
    Remote(Remote),
}

/// Opens the target and starts the thread. The thread ends when the queue is closed; the returned
/// channel then disconnects.
pub(super) fn start(output: LogOutput, queue: Arc<Queue>, metrics: Arc<Metrics>) -> io::Result<Ended> {
    let sink = match output {
        LogOutput::Stdout => LogSink::Stdout,
        LogOutput::Remote(remote) => LogSink::Remote(remote),
        LogOutput::File(path, rules) => {
            let file = open(&path, MODE_MAX)?;
            let rotation = rules.map(|rules| Rotation::new(&path, rules, &file, remote::now()));
            LogSink::File(FileSink { path, file, rotation, torn: false })
        }
    };
    let courtesy = YieldPolicy::default();
    let mut writer = LogWriter { sink, metrics, courtesy, failing: false };
    let (ends, ended) = mpsc::channel();
    std::thread::Builder::new().name("access-log".into()).spawn(move || {
        let _ends_with_the_thread: mpsc::Sender<()> = ends;
        let mut batch = Batch::default();
        while !batch.last {
            queue.take(&mut batch);
            writer.work(&batch);
        }
    })?;
    Ok(ended)
}

/// Channel that disconnects when the thread has ended, even by a panic.
pub(super) type Ended = mpsc::Receiver<()>;

/// Destination that is open.
enum LogSink {
    Stdout,
    File(FileSink),
    Remote(Remote),
}

struct FileSink {
    path: PathBuf,
    file: File,
    rotation: Option<Rotation>,
    /// `true` if the last write stopped within a line.
    torn: bool,
}

struct LogWriter {
    sink: LogSink,
    metrics: Arc<Metrics>,
    courtesy: YieldPolicy,
    /// `true` if the last write failed, which has been reported.
    failing: bool,
}

impl LogWriter {
    /// Writes one batch.
    fn work(&mut self, batch: &Batch) {
        batch.parts.iter().for_each(|lines| self.write_in_pieces(lines));
        if batch.reopen {
            match &mut self.sink {
                LogSink::Stdout => {}
                LogSink::File(sink) => sink.reopen(),
                LogSink::Remote(remote) => remote.reopen(),
            }
        }
    }

    /// Writes small pieces until the lines end or a write fails.
    fn write_in_pieces(&mut self, mut lines: &[u8]) {
        if let LogSink::Remote(remote) = &mut self.sink {
            let sent = if lines.is_empty() { Ok(()) } else { remote.send(lines, remote::now()) };
            return self.report_sent(lines.is_empty(), sent);
        }
        while !lines.is_empty() {
            let (piece, rest) = lines.split_at(piece_bytes(lines));
            let result = self.write(piece);
            let is_over = result.is_err() || rest.is_empty();
            self.report(result, lines);
            if is_over {
                return;
            }
            self.give_way();
            lines = rest;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            LogSink::File(sink) => sink.write(bytes),
            _ => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
        }
    }

    /// Counts lines that no receiver took. Reports the failure once until sending works again.
    fn report_sent(&mut self, is_nothing: bool, sent: Result<(), (u64, Option<io::Error>)>) {
        match sent {
            Ok(()) if is_nothing => {}
            Ok(()) => self.report(Ok(()), &[]),
            Err((lost, failure)) => {
                self.metrics.log_lines_dropped.add(lost);
                if !self.failing
                    && let Some(error) = failure
                {
                    tracing::error!(%error, "cannot send the access log; its lines are dropped");
                }
                self.failing = true;
            }
        }
    }

    /// Yields the core to other threads.
    fn give_way(&mut self) {
        let from = Instant::now();
        if self.courtesy.is_due(from) {
            std::thread::yield_now();
            self.courtesy.has_taken(from, Instant::now());
        }
    }

    /// Counts lost `lines`. Reports the failure once until writing works again.
    fn report(&mut self, result: io::Result<()>, lines: &[u8]) {
        match result {
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("the access log is written again");
            }
            Ok(()) => {}
            Err(error) => {
                self.metrics.log_lines_dropped.add(memchr::memchr_iter(b'\n', lines).count() as u64);
                if !self.failing {
                    tracing::error!(%error, "cannot write the access log; its lines are dropped");
                }
                self.failing = true;
            }
        }
    }
}

impl FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
        }
        // write_all may have written a part before it failed
        self.torn = true;
        self.file.write_all(bytes)?;
        self.torn = false;
        let now = remote::now();
        if bytes.ends_with(b"\n")
            && self.rotation.as_mut().is_some_and(|rotation| rotation.wrote(bytes.len(), now))
        {
            self.rotate(now);
        }
        Ok(())
    }

    fn rotate(&mut self, now: shoal_core::Timestamp) {
        let Some(rotation) = &mut self.rotation else { return };
        let before = self.file.metadata().map(|metadata| metadata.permissions());
        let mode = before.as_ref().map_or(MODE_MAX, PermissionsExt::mode);
        let rotated = rotation.rotate(now).and_then(|()| open(&self.path, mode & MODE_MAX));
        match rotated {
            Ok(file) => {
                if let Ok(before) = before
                    && let Err(error) = file.set_permissions(before)
                {
                    tracing::warn!(%error, "the new access log has other permissions than the old one");
                }
                self.file = file;
            }
            Err(error) => tracing::warn!(
                path = %self.path.display(), %error,
                "the access log cannot be rotated; writing on to the old file"
            ),
        }
        // After a failure the next try comes with the next full file.
        rotation.begin(&self.file, now);
    }

    fn reopen(&mut self) {
        match open(&self.path, MODE_MAX) {
            Ok(file) => {
                (self.file, self.torn) = (file, false);
                if let Some(rotation) = &mut self.rotation {
                    rotation.begin(&self.file, remote::now());
                }
                tracing::info!(path = %self.path.display(), "the access log was opened again");
            }
            Err(error) => tracing::warn!(
                path = %self.path.display(), %error,
                "cannot open the access log again; writing on to the old file"
            ),
        }
    }
}

/// Returns the bytes of `lines` to write at once: whole lines, unless one line is longer.
fn piece_bytes(lines: &[u8]) -> usize {
    let some = &lines[..lines.len().min(PIECE)];
    memchr::memrchr(b'\n', some).map_or(some.len(), |end| end + 1)
}

/// Opens for appending. Access logs show which client read which URL, so only owner and group may
/// read a new one; `mode` may narrow that. A pipe without a reader is an error; the call does not
/// wait for a reader. An open pipe may still block the thread.
fn open(path: &Path, mode: u32) -> io::Result<File> {
    debug_assert_eq!(mode & !MODE_MAX, 0, "a log for all");
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(mode).custom_flags(at_once).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, metadata, read_dir};
    use std::time::Duration;

    #[test]
    fn rotated_log_keeps_its_permissions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let rules = RotationRules { bytes_max: 1, age_max: Duration::ZERO, keep: 9, compresses: false };
        let file = open(&path, MODE_MAX).expect("a file");
        let rotation = Some(Rotation::new(&path, rules, &file, remote::now()));
        let mut sink = FileSink { path: path.clone(), file, rotation, torn: false };
        for (number, mode) in [0o600, 0o644, 0o600].into_iter().enumerate() {
            sink.file.set_permissions(Permissions::from_mode(mode)).expect("own file");
            sink.write(b"a line\n").expect("written");
            let new = metadata(&path).expect("there");
            assert_eq!((new.permissions().mode() & 0o777, new.len()), (mode, 0));
            assert_eq!(read_dir(folder.path()).expect("a folder").count(), number + 2);
        }
    }
}

//! The thread that writes the access log: batches out, the file opened again when asked.

use super::courtesy::{PIECE, YieldPolicy};
use super::queue::{Batch, Queue};
use crate::metrics::Metrics;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Where the log goes.
pub(super) enum Target {
    Stdout,
    File(PathBuf),
}

/// Opens the target and starts the thread, which ends when the queue is closed: then what is given
/// here ends, too.
pub(super) fn start(target: Target, queue: Arc<Queue>, metrics: Arc<Metrics>) -> io::Result<Ended> {
    let file = match &target {
        Target::Stdout => None,
        Target::File(path) => Some(open(path)?),
    };
    let courtesy = YieldPolicy::default();
    let mut writer = Writer { target, file, metrics, courtesy, torn: false, failing: false };
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

/// Disconnected once the thread has ended, be it in a panic.
pub(super) type Ended = mpsc::Receiver<()>;

struct Writer {
    target: Target,
    file: Option<File>,
    metrics: Arc<Metrics>,
    courtesy: YieldPolicy,
    /// The last write stopped within a line.
    torn: bool,
    /// The last write failed, which has been reported.
    failing: bool,
}

impl Writer {
    /// Does one batch.
    fn work(&mut self, batch: &Batch) {
        batch.parts.iter().for_each(|lines| self.write_in_pieces(lines));
        if batch.reopen
            && let Target::File(path) = &self.target
        {
            match open(path) {
                Ok(file) => {
                    (self.file, self.torn) = (Some(file), false);
                    tracing::info!(path = %path.display(), "the access log was opened again");
                }
                Err(error) => tracing::warn!(
                    path = %path.display(), %error,
                    "cannot open the access log again; writing on to the old file"
                ),
            }
        }
    }

    /// Writes a little at a time, up to a failure.
    fn write_in_pieces(&mut self, mut lines: &[u8]) {
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
        match &mut self.file {
            Some(file) => {
                if self.torn {
                    file.write_all(b"\n")?;
                }
                // write_all may have written a part when it fails
                self.torn = true;
                file.write_all(bytes)?;
                self.torn = false;
                Ok(())
            }
            None => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
        }
    }

    /// Lets others have the core.
    fn give_way(&mut self) {
        let from = Instant::now();
        if self.courtesy.is_due(from) {
            std::thread::yield_now();
            self.courtesy.has_taken(from, Instant::now());
        }
    }

    /// Counts `lines` where they were lost, and says so once until writing works again.
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

/// How much of `lines` is written at once: whole lines, unless one is longer.
fn piece_bytes(lines: &[u8]) -> usize {
    let some = &lines[..lines.len().min(PIECE)];
    memchr::memrchr(b'\n', some).map_or(some.len(), |end| end + 1)
}

/// Opens for appending. Access logs tell who read what, so others than owner and group may not read
/// them. A pipe that nobody reads is an error, and not waited for; once open, it may keep the
/// thread waiting.
fn open(path: &Path) -> io::Result<File> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(at_once).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

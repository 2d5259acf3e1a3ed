//! The history in the store's folder, so that a restart goes on with it.
//!
//! The file is replaced as a whole, so that a crash leaves the old one or the new one. Bytes in
//! doubt begin an empty history. A disk that does not answer holds up nobody for long.

use shoal_dashboard::History;
use shoal_store::patience::within;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// File of the history.
pub(crate) struct KeptHistory {
    path: PathBuf,
    /// Set while a write is under way, perhaps longer than its caller waits.
    is_writing: Arc<AtomicBool>,
}

impl KeptHistory {
    /// Keeps the history in this folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join(FILE), is_writing: Arc::default() }
    }

    /// Returns the kept history at `unix_s`, if there is one in no doubt.
    pub fn read(&self, unix_s: u64) -> Option<History> {
        let path = self.path.clone();
        let bytes = within(PATIENCE, "shoal-history", move || read_bounded(&path))?;
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, file = %self.path.display(), "the dashboard's history cannot be read");
                return None;
            }
        };
        let read = History::from_bytes(&bytes, unix_s);
        read.inspect_err(|error| {
            tracing::warn!(%error, file = %self.path.display(), "the dashboard's history begins anew");
        })
        .ok()
    }

    /// Replaces the kept history. A failure is logged at the debug level: the disk's state has
    /// lines of its own.
    pub fn write(&self, bytes: Vec<u8>) {
        if self.is_writing.swap(true, Relaxed) {
            return;
        }
        let (path, is_writing) = (self.path.clone(), Arc::clone(&self.is_writing));
        let written = within(PATIENCE, "shoal-history", move || {
            let outcome = replace(&path, &bytes);
            is_writing.store(false, Relaxed);
            outcome
        });
        if let Some(Err(error)) = written {
            tracing::debug!(%error, file = %self.path.display(), "the dashboard's history was not kept");
        }
    }
}

/// Reads a file that is no longer than a history.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(History::BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a new file and puts it in the place of the old one. The folder must exist.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    debug_assert!(bytes.len() <= History::BYTES_MAX, "a history has a limit");
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&new, path)
}

/// Name of the file, beside the store's own files.
const FILE: &str = "dashboard";

/// Longest wait for the disk.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_dashboard::SERIES;

    #[test]
    fn history_reads_back_and_doubtful_bytes_begin_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = KeptHistory::in_folder(folder.path());
        assert!(kept.read(1000).is_none());
        let mut history = History::default();
        (100..200).for_each(|second| history.record(second, &[1.0; SERIES.len()]));
        kept.write(history.to_bytes());
        let read = kept.read(200).expect("the history");
        assert_eq!(read.document(200, 60), history.document(200, 60));
        fs::write(folder.path().join(FILE), b"SHOALHI1 and no more").expect("written");
        assert!(kept.read(200).is_none());
        fs::write(folder.path().join(FILE), vec![0; History::BYTES_MAX + 100]).expect("written");
        assert!(kept.read(200).is_none());
        let names: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        assert_eq!(names.len(), 1, "no new file is left");
    }
}

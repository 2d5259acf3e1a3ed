//! Rotation of the access log's file by size and age.
//!
//! The writer's thread renames the full file to `NAME.20261128T061339Z` and opens a new one. Names
//! sort by time; the oldest beyond the number to keep are removed. Compression runs on a thread of
//! its own, a file at a time. Its output gets the final name when it is whole. Rotation keeps the
//! log's permissions, and compression widens none.

use super::date;
use flate2::Compression;
use flate2::write::GzEncoder;
use shoal_core::Timestamp;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Rules of rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RotationRules {
    /// Bytes of a file; 0 means no limit.
    pub(super) bytes_max: u64,
    /// Age of a file; zero means no limit.
    pub(super) age_max: Duration,
    /// Rotated files that are kept.
    pub(super) keep: usize,
    pub(super) compresses: bool,
}

/// Rotation of one file.
pub(super) struct Rotation {
    path: PathBuf,
    rules: RotationRules,
    bytes: u64,
    since: Timestamp,
    is_compressing: Arc<AtomicBool>,
}

impl Rotation {
    /// Begins with a file that is open.
    pub(super) fn new(path: &Path, rules: RotationRules, file: &File, now: Timestamp) -> Self {
        let mut rotation =
            Self { path: path.to_owned(), rules, bytes: 0, since: now, is_compressing: Arc::default() };
        rotation.begin(file, now);
        rotation
    }

    /// Begins anew with a file that was opened again. A file that was there keeps its age.
    pub(super) fn begin(&mut self, file: &File, now: Timestamp) {
        let found = file.metadata().ok();
        self.bytes = found.as_ref().map_or(0, fs::Metadata::len);
        let made = found.and_then(|found| found.created().ok()).map(Timestamp::from_system);
        self.since = made.filter(|made| *made < now && self.bytes > 0).unwrap_or(now);
    }

    /// Counts written bytes. Returns `true` if the file is to be rotated now.
    pub(super) fn wrote(&mut self, bytes: usize, now: Timestamp) -> bool {
        self.bytes += bytes as u64;
        let RotationRules { bytes_max, age_max, .. } = self.rules;
        let is_full = bytes_max > 0 && self.bytes >= bytes_max;
        let age = now.millis().saturating_sub(self.since.millis());
        let is_old = age_max > Duration::ZERO && u128::from(age) >= age_max.as_millis();
        self.bytes > 0 && (is_full || is_old)
    }

    /// Renames the file. The caller opens a new one.
    ///
    /// # Errors
    /// If the file cannot be renamed; it is written on to.
    pub(super) fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let aside = free_name(&self.path, now);
        fs::rename(&self.path, &aside)?;
        let is_compressing = self.is_compressing.load(SeqCst);
        if let Err(error) = remove_oldest(&self.path, self.rules.keep, is_compressing) {
            tracing::warn!(%error, "old access logs cannot be removed");
        }
        if self.rules.keep > 0 {
            self.compress(aside);
        }
        Ok(())
    }

    fn compress(&self, path: PathBuf) {
        // A file that comes while another is compressed stays as it is.
        if !self.rules.compresses || self.is_compressing.swap(true, SeqCst) {
            return;
        }
        let is_compressing = Arc::clone(&self.is_compressing);
        let work = move || {
            if let Err(error) = compress(&path) {
                tracing::warn!(path = %path.display(), %error, "an access log cannot be compressed and stays as it is");
            }
            is_compressing.store(false, SeqCst);
        };
        if std::thread::Builder::new().name("log-gzip".into()).spawn(work).is_err() {
            self.is_compressing.store(false, SeqCst);
        }
    }
}

/// Returns a name beside the log that no file has.
fn free_name(path: &Path, now: Timestamp) -> PathBuf {
    let mut time = Vec::new();
    date::rfc3339(&mut time, now);
    let time: String =
        time.into_iter().map(char::from).filter(|character| !"-:".contains(*character)).collect();
    let time = time.split_once('.').map_or(&*time, |(seconds, _)| seconds);
    let named = |number: u32| {
        let more = if number == 0 { String::new() } else { format!("-{number:03}") };
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{time}Z{more}"));
        PathBuf::from(name)
    };
    let is_free = |name: &PathBuf| !name.exists() && !with_gz(name).exists();
    (0..1000).map(named).find(is_free).unwrap_or_else(|| named(1000))
}

fn with_gz(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Writes a file's contents compressed beside it, and removes the file.
fn compress(path: &Path) -> io::Result<()> {
    let (to, mut part) = (with_gz(path), path.as_os_str().to_owned());
    part.push(PART);
    let part = PathBuf::from(part);
    let mut from = File::open(path)?;
    let mode = from.metadata()?.permissions().mode() & MODE_MAX;
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A new file: a link that stands there is not followed.
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
    let mut encoder = GzEncoder::new(made, Compression::default());
    io::copy(&mut from, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::rename(&part, &to)?;
    fs::remove_file(path)
}

/// Removes rotated files beyond the `keep` newest. Removes the parts that an unfinished compression
/// has left, unless one is under way.
fn remove_oldest(path: &Path, keep: usize, is_compressing: bool) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let (mut rotated, mut parts) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)?.take(ENTRIES_MAX) {
        let entry = entry?;
        match entry.file_name().to_str() {
            Some(other) if !is_rotated(other, name) => {}
            Some(other) if other.ends_with(PART) => parts.push(entry.path()),
            Some(_) => rotated.push(entry.path()),
            None => {}
        }
    }
    rotated.sort();
    debug_assert!(!rotated.iter().any(|rotated| rotated == path), "the log itself");
    let excess = rotated.len().saturating_sub(keep);
    let parts = parts.iter().filter(|_| !is_compressing);
    rotated[..excess].iter().chain(parts).try_for_each(fs::remove_file)
}

/// Returns `true` for the names that [`free_name`] makes, compressed, in part or not.
fn is_rotated(name: &str, log: &str) -> bool {
    let Some(rest) = name.strip_prefix(log).and_then(|rest| rest.strip_prefix('.')) else { return false };
    let rest = rest.strip_suffix(".gz").or_else(|| rest.strip_suffix(PART)).unwrap_or(rest);
    let (time, number) = rest.split_once('-').unwrap_or((rest, "0"));
    let shape: String =
        time.chars().map(|character| if character.is_ascii_digit() { '9' } else { character }).collect();
    shape == "99999999T999999Z" && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Widest mode of a file that is made: owner and group may read it.
pub(super) const MODE_MAX: u32 = 0o640;

/// End of the name of a file that is being compressed.
const PART: &str = ".part";

/// Most entries of the folder that are looked at.
const ENTRIES_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::{Read, Write};

    fn rules(bytes_max: u64, age_s: u64, keep: usize, compresses: bool) -> RotationRules {
        RotationRules { bytes_max, age_max: Duration::from_secs(age_s), keep, compresses }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(971_186_136 + seconds)
    }

    fn opened(path: &Path, text: &str) -> File {
        let mut file = File::options().append(true).create(true).open(path).expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        file
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    #[test]
    fn file_is_due_by_size_or_age() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let file = opened(&path, "");
        let mut by_size = Rotation::new(&path, rules(100, 0, 3, false), &file, at(0));
        assert!(!by_size.wrote(99, at(100_000)) && by_size.wrote(1, at(0)));
        let mut by_age = Rotation::new(&path, rules(0, 60, 3, false), &file, at(0));
        assert!(!by_age.wrote(1 << 40, at(59)) && by_age.wrote(1, at(60)));
        let mut never = Rotation::new(&path, rules(0, 0, 3, false), &file, at(0));
        assert!(!never.wrote(usize::MAX >> 8, at(1 << 40)));
    }

    #[test]
    fn oldest_files_go_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        for other in ["log.txt", "log.1", "log.20001010T135536Z.txt", "other.20001010T135536Z"] {
            opened(&folder.path().join(other), "x");
        }
        let mut rotation = Rotation::new(&path, rules(1, 0, 2, false), &opened(&path, ""), at(0));
        for second in [0, 0, 1, 2] {
            opened(&path, "text");
            rotation.rotate(at(second)).expect("renamed");
        }
        let expected = [
            "log.1",
            "log.20001010T135537Z",
            "log.20001010T135538Z",
            "log.20001010T135536Z.txt",
            "log.txt",
            "other.20001010T135536Z",
        ];
        let mut expected = expected.map(str::to_owned);
        expected.sort();
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn compressed_file_has_the_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let text = "a line\n".repeat(10_000);
        let file = opened(&path, &text);
        let mut rotation = Rotation::new(&path, rules(1, 0, 5, true), &file, at(0));
        rotation.rotate(at(0)).expect("renamed");
        let compressed = folder.path().join("log.20001010T135536Z.gz");
        while !compressed.exists() || rotation.is_compressing.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut read = String::new();
        GzDecoder::new(File::open(&compressed).expect("there")).read_to_string(&mut read).expect("whole");
        assert_eq!(read, text);
        assert_eq!(names(folder.path()), ["log.20001010T135536Z.gz"]);
    }

    #[test]
    fn compressed_file_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, elsewhere) = (folder.path().join("log"), folder.path().join("elsewhere"));
        opened(&elsewhere, "untouched");
        for (mode, expected) in [(0o600, 0o600), (0o644, 0o640)] {
            opened(&path, "a line\n").set_permissions(fs::Permissions::from_mode(mode)).expect("own file");
            std::os::unix::fs::symlink(&elsewhere, folder.path().join("log.part")).expect("a link");
            compress(&path).expect("compressed");
            let made = fs::symlink_metadata(folder.path().join("log.gz")).expect("there");
            assert!(made.is_file());
            assert_eq!(made.permissions().mode() & 0o777 & !expected, 0, "{mode:o}");
        }
        assert_eq!(fs::read_to_string(&elsewhere).expect("there"), "untouched");
        assert_eq!(names(folder.path()), ["elsewhere", "log.gz"]);
    }

    #[test]
    fn part_of_a_crash_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let (left, other) = ("log.20001010T135500Z-001.part", "log.part");
        [left, other].iter().for_each(|name| drop(opened(&folder.path().join(name), "x")));
        let mut rotation = Rotation::new(&path, rules(1, 0, 1, false), &opened(&path, "text"), at(0));
        rotation.is_compressing.store(true, SeqCst);
        rotation.rotate(at(0)).expect("renamed");
        assert_eq!(names(folder.path()), [left, "log.20001010T135536Z", other], "it may be at work");
        rotation.is_compressing.store(false, SeqCst);
        opened(&path, "text");
        rotation.rotate(at(1)).expect("renamed");
        assert_eq!(names(folder.path()), ["log.20001010T135537Z", other]);
    }
}

//! Files and folders that only this user may read: the one place that makes them.
//!
//! A store holds responses sent to clients, and their requests' keys. Its files get mode 0600 and
//! its folders 0700, under any umask. Existing ones with wider modes are tightened when opened. A
//! symbolic link is refused, so that no user with write access beside a store can lead it
//! elsewhere.

use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file for reading and writing, and makes an absent one.
pub fn file(path: &Path) -> io::Result<File> {
    opened(File::options().create(true), path)
}

/// Opens an existing file for reading and writing.
pub fn existing(path: &Path) -> io::Result<File> {
    opened(&mut File::options(), path)
}

/// Opens an empty file, in place of one that has the name.
pub fn emptied(path: &Path) -> io::Result<File> {
    let file = file(path)?;
    file.set_len(0)?;
    Ok(file)
}

/// Makes a folder, and absent ones above it. An existing folder keeps its mode: another user may
/// need it too.
pub fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER.bits()).create(path)
}

/// Closes a store's folder to others, if it contains only a store. Everything below is closed then
/// too.
pub(crate) fn root(path: &Path) -> io::Result<()> {
    let names = std::fs::read_dir(path)?.take(TOP_MAX + 1).map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    if names.len() <= TOP_MAX && names.iter().all(|name| name.to_str().is_some_and(is_of_a_store)) {
        tighten(File::open(path)?);
    }
    Ok(())
}

/// Returns `true` if a store has a file or folder of this name at its top.
fn is_of_a_store(name: &str) -> bool {
    let (first, _) = name.split_once('.').unwrap_or((name, ""));
    TOP.contains(&first) || !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes others' rights to this file or folder, if this user may change them.
pub(crate) fn tighten(file: impl AsFd) {
    let Ok(stat) = fstat(&file) else { return };
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.intersects(OTHERS)
        && let Err(error) = fchmod(&file, mode.difference(OTHERS))
    {
        tracing::debug!(%error, "a file of the store stays readable for others");
    }
}

fn opened(options: &mut std::fs::OpenOptions, path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = options.read(true).write(true).mode(FILE.bits()).custom_flags(flags).open(path)?;
    only_files(&file)?;
    tighten(&file);
    Ok(file)
}

/// Refuses everything but regular files. Opening or reading a pipe may wait for ever; the flag
/// `NONBLOCK` keeps the opening from waiting.
pub(super) fn only_files(file: impl AsFd) -> io::Result<()> {
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no file but a pipe, a socket or a device; remove it",
        )),
    }
}

/// Mode of a file.
pub(super) const FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Mode of a folder.
pub(super) const FOLDER: Mode = Mode::RWXU;
/// Names at the top of stores, beside folders named by numbers.
const TOP: [&str; 9] =
    ["architecture", "index", "lock", "lost+found", "purges", "segments", "totals", "urls", "volume"];
/// Most names at the top that are looked at.
const TOP_MAX: usize = 8192;
const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn files_and_folders_are_for_their_user_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let (inner, path) = (root.path().join("a/b"), root.path().join("a/b/file"));
        folder(&inner).expect("made");
        assert_eq!((mode(&root.path().join("a")), mode(&inner)), (0o700, 0o700));
        drop(file(&path).expect("made"));
        assert_eq!(mode(&path), 0o600);
        for open in [file, existing, emptied] {
            fs::set_permissions(&path, Permissions::from_mode(0o664)).expect("ours");
            drop(open(&path).expect("there"));
            assert_eq!(mode(&path), 0o600, "tightened");
        }
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let root = tempfile::tempdir().expect("a folder");
        let (target, link) = (root.path().join("target"), root.path().join("link"));
        fs::write(&target, "of somebody").expect("written");
        symlink(&target, &link).expect("made");
        for open in [file, existing, emptied] {
            assert!(open(&link).is_err());
        }
        assert_eq!(fs::read(&target).expect("there"), b"of somebody");
    }
}

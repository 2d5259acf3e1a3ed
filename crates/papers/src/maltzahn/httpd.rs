//! The calls of CERN httpd 3.0 for one request after the other, on the modelled machine.
//!
//! Our architecture `cern` gives every URL its own folder, with a lock file, a metadata file and an
//! object file in it. A process killed at any instant therefore leaves nothing half done. CERN
//! httpd 3.0 made fewer files (its sources, `HTCache.c` and `HTCacheInfo.c`, Luotonen 1994). The
//! URL's path without its last component is the folder, the last component the object's name. One
//! `.cache_info` in a folder has a line for each object there. The lock file *is* the object, which
//! is written under the name `….cache_lock` and renamed. Nothing is promised after a crash, so this
//! is no store; the lab makes the same calls itself, through the same door.

use super::outcome::RunResult;
use super::runs::MachineRuns;
use crate::{LabError, Progress};
use shoal_lab::machine_runs::{READ_BYTES, ZEROS, measured};
use shoal_machine1999::{Machine, Ufs1999};
use shoal_store::fs::{Access, File, FileSystem, read_full, write_full};
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// Use of the lock file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// An empty file beside the object, removed at the end.
    Apart,
    /// The object itself, until it is renamed.
    Renamed,
}

impl Lock {
    /// Returns the name of a run with this lock.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apart => "httpd, lock apart",
            Self::Renamed => NAME,
        }
    }
}

/// Drives httpd's files over all requests, on cern's machine after `change`.
pub fn run(
    name: &str,
    lock: Lock,
    runs: &MachineRuns<'_>,
    change: &dyn Fn(&mut Machine),
    progress: &mut dyn Progress,
) -> Result<RunResult, LabError> {
    let mut machine = runs.machine_for_url_folders();
    change(&mut machine);
    let door = Ufs1999::new(machine);
    let cache = HttpdCache { files: &*door, lock };
    measured((name, &door), runs.workload(), progress, |_, object| {
        let (url, bytes) = runs.object(object);
        cache.serve(url, bytes)
    })
}

/// The calls of CERN httpd for one request after the other.
struct HttpdCache<'a> {
    files: &'a dyn FileSystem,
    lock: Lock,
}

impl HttpdCache<'_> {
    /// Serves an object. Returns `true` if it was there; otherwise writes it.
    fn serve(&self, url: &str, bytes: u64) -> io::Result<bool> {
        let mut place = HttpdPath::of(url);
        // There is no other process that could hold the lock.
        let _ = self.files.length(&place.lock());
        loop {
            match self.files.length(&place.object()) {
                Ok(_) => return self.hit(&place).map(|()| true),
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => place = place.inside(),
                Err(error) if is_absence(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.make_folders(&place)?;
        self.write(&place, bytes)?;
        self.note(&place.folder, &place.name).map(|()| false)
    }

    fn hit(&self, place: &HttpdPath) -> io::Result<()> {
        for path in [format!("{}/{INFO}", place.folder), place.object()] {
            let file = self.files.open(&path, Access::Read)?;
            let (mut buffer, mut offset) = (vec![0; READ_BYTES], 0);
            while let read @ 1.. = read_full(&*file, &mut buffer, offset)? {
                offset += read as u64;
            }
        }
        Ok(())
    }

    /// Makes the missing folders. An object in the place of a folder moves into the folder.
    fn make_folders(&self, place: &HttpdPath) -> io::Result<()> {
        let mut is_new = false;
        let ends = place.folder.match_indices('/').map(|(at, _)| at).chain([place.folder.len()]);
        for folder in ends.map(|end| &place.folder[..end]) {
            if !is_new {
                match self.files.length(folder) {
                    Err(error) if error.kind() == io::ErrorKind::IsADirectory => continue,
                    Ok(_) => {
                        self.move_inside(folder)?;
                        continue;
                    }
                    Err(_) => is_new = true,
                }
            }
            self.files.make_folder(folder)?;
        }
        Ok(())
    }

    fn move_inside(&self, object: &str) -> io::Result<()> {
        let aside = format!("{object}.cache_tmp");
        self.files.rename(object, &aside)?;
        self.files.make_folder(object)?;
        self.files.rename(&aside, &format!("{object}/{INDEX}"))?;
        self.note(object, INDEX)
    }

    fn write(&self, place: &HttpdPath, bytes: u64) -> io::Result<()> {
        let lock = self.files.create(&place.lock())?;
        match self.lock {
            Lock::Renamed => {
                write_body(&*lock, bytes)?;
                self.files.rename(&place.lock(), &place.object())
            }
            Lock::Apart => {
                write_body(&*self.files.create(&place.object())?, bytes)?;
                self.files.unlink(&place.lock())
            }
        }
    }

    /// Writes a line to the end of a folder's metadata file: the object's name, five times and a
    /// separator behind each.
    fn note(&self, folder: &str, name: &str) -> io::Result<()> {
        let path = format!("{folder}/{INFO}");
        let length = match self.files.length(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            length => length.unwrap_or(0),
        };
        let file = match length {
            0 => self.files.create(&path)?,
            _ => self.files.open(&path, Access::Write)?,
        };
        write_full(&*file, &ZEROS[..name.len() + TIMES_BYTES], length)
    }
}

fn write_body(file: &dyn File, bytes: u64) -> io::Result<()> {
    let mut offset = 0;
    while offset < bytes {
        let piece = (bytes - offset).min(READ_BYTES as u64);
        write_full(file, &ZEROS[..piece as usize], offset)?;
        offset += piece;
    }
    Ok(())
}

/// Place of an object.
struct HttpdPath {
    folder: String,
    name: String,
}

impl HttpdPath {
    /// Returns the place of a URL. The last component of the path is the name; a path that ends
    /// with a slash has a special name.
    fn of(url: &str) -> Self {
        let (_, rest) = url.split_once("://").unwrap_or(("", url));
        let mut components: Vec<&str> = rest.split('/').collect();
        let last = components.pop().unwrap_or_default();
        let name = if components.is_empty() || last.is_empty() { WELCOME } else { last };
        let host = match components.first().copied().unwrap_or(rest) {
            // The log of a server does not name the server itself.
            "" => NO_HOST,
            host => host,
        };
        // Empty components vanish, as in a UNIX path.
        let below = components.iter().skip(1).filter(|component| !component.is_empty());
        let mut folder = format!("{ROOT}/{}", shown(&host.to_lowercase()));
        below.for_each(|component| {
            folder.push('/');
            folder.push_str(&shown(component));
        });
        Self { folder, name: shown(name) }
    }

    /// Returns the object's place inside the folder of its name.
    fn inside(self) -> Self {
        Self { folder: self.object(), name: INDEX.into() }
    }

    fn object(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    fn lock(&self) -> String {
        format!("{}.cache_lock", self.object())
    }
}

/// Returns a component as a name: none with a special meaning in a path, none too long.
fn shown(component: &str) -> String {
    match component {
        "." | ".." => component.replace('.', "%2E"),
        _ if component.len() <= NAME_BYTES_MAX => component.into(),
        // The cut name ends with a hash that distinguishes it from others of the same beginning.
        _ => {
            let kept = component.floor_char_boundary(NAME_BYTES_MAX - 16);
            format!("{}{:016x}", &component[..kept], xxh3_64(component.as_bytes()))
        }
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Name of a run with the original's files.
pub const NAME: &str = "httpd";
const ROOT: &str = "urls/http";
const INFO: &str = ".cache_info";
const INDEX: &str = ".cache_dirindex";
const WELCOME: &str = ".cache_welcome";
const NO_HOST: &str = "-";
/// Longest name that httpd caches.
const NAME_BYTES_MAX: usize = 64;
/// Delay, last check, expiry, time unused and last change in decimal, with tabs and a line feed.
const TIMES_BYTES: usize = 42;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_store::fs::{Calls, CountingFs, MemoryFs};
    use std::sync::Arc;

    fn counted() -> Arc<CountingFs> {
        let door = Arc::new(CountingFs::new(Arc::new(MemoryFs::new(1 << 30))));
        door.make_folder("urls").expect("made");
        door
    }

    #[test]
    fn the_calls_are_those_of_httpd() {
        let door = counted();
        let cache = HttpdCache { files: &*door, lock: Lock::Renamed };
        assert!(!cache.serve("http://a.example/one/x.html", 5000).expect("served"));
        door.take();
        // In an existing folder, a file is made, written and renamed, and a line is added. The
        // other calls only look for files.
        assert!(!cache.serve("http://a.example/one/y.html", 5000).expect("served"));
        let calls = door.take();
        assert_eq!((calls.creates, calls.opens, calls.writes, calls.unlinks), (1, 1, 2, 0), "{calls:?}");
        assert!(cache.serve("http://a.example/one/x.html", 5000).expect("served"));
        let calls = Calls { others: 0, bytes_read: 0, ..door.take() };
        assert_eq!((calls.opens, calls.creates, calls.writes), (2, 0, 0), "metadata file and object");
        let info = door.length("urls/http/a.example/one/.cache_info").expect("there");
        assert_eq!(info, 2 * (6 + TIMES_BYTES as u64));
    }

    #[test]
    fn every_url_is_found_again_and_none_for_another() {
        let long = format!("http://a.example/{}", "x".repeat(300));
        let other = format!("{long}y");
        // The second makes a folder of the first one's name.
        let urls = [
            "http://a.example/b",
            "http://a.example/b/c",
            "http://a.example/",
            "http://a.example",
            "http://A.example//b/d/",
            "http://a.example/../e",
            "http://a.example/./e",
            "http://b.example/b",
            "/b",
            "/b/c",
            &long,
            &other,
        ];
        for lock in [Lock::Apart, Lock::Renamed] {
            let door = counted();
            let cache = HttpdCache { files: &*door, lock };
            for (at, url) in urls.into_iter().enumerate() {
                // A host without a path is its welcome page.
                assert_eq!(cache.serve(url, 3000).expect("served"), at == 3, "{url}");
            }
            assert!(urls.into_iter().all(|url| cache.serve(url, 3000).expect("served")));
        }
    }
}

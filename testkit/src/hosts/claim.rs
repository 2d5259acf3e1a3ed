//! Numbers of grounds: one ground has a number at a time, and a number whose creator is gone is
//! swept and given out again.
//!
//! A claim is a file named after the number, with the creator's process id and start time. Process
//! ids come again, both together do not. One lock keeps claims and sweeps apart.

use super::groups::Groups;
use super::names::{GROUNDS_MAX, HOSTS_MAX, Names};
use super::network;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

/// The number of a ground, held until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) names: Names,
    file: PathBuf,
}

impl Claim {
    /// Sweeps what others left and takes a free number.
    pub(super) fn take() -> io::Result<Self> {
        let _lock = lock()?;
        sweep_all()?;
        let creator = std::process::id();
        let identity = format!("{creator} {}\n", start_time(creator).unwrap_or_default());
        for number in 0..GROUNDS_MAX {
            let file = folder()?.join(number.to_string());
            match File::create_new(&file) {
                Ok(mut claim) => {
                    claim.write_all(identity.as_bytes())?;
                    return Ok(Self { names: Names { number, creator }, file });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("all {GROUNDS_MAX} grounds of hosts are in use")))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// Removes all grounds whose creator is gone: processes, namespaces, bridges, control groups.
/// Returns the number of grounds removed.
pub fn sweep() -> io::Result<usize> {
    let _lock = lock()?;
    sweep_all()
}

fn sweep_all() -> io::Result<usize> {
    let mut swept = 0;
    for entry in fs::read_dir(folder()?)?.flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let (creator, started) = text.trim().split_once(' ').unwrap_or_default();
        let creator: u32 = creator.parse().unwrap_or_default();
        if creator != 0 && start_time(creator).is_some_and(|now| now == started) {
            continue;
        }
        clear(Names { number, creator });
        fs::remove_file(entry.path())?;
        swept += 1;
    }
    Ok(swept)
}

/// Ends and removes all that belongs to a ground.
fn clear(names: Names) {
    (0..HOSTS_MAX).for_each(|host| Groups::sweep(&names.group(host)));
    for namespace in network::namespaces(names) {
        network::processes(&namespace).into_iter().for_each(super::end);
    }
    network::remove(names);
}

/// The 22nd field of a process's `stat`: when it started, in ticks since the system did. `None`
/// when there is no such process.
fn start_time(process: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let is_dead = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
    // The state, which has been taken, is the third field.
    let started = fields.nth(18).map(str::to_string);
    started.filter(|_| !is_dead)
}

fn lock() -> io::Result<File> {
    let file = File::options().create(true).append(true).open(folder()?.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Where claims are: a folder of the running system, or of temporary files where that is closed.
fn folder() -> io::Result<PathBuf> {
    let family = PathBuf::from("/run/shoal-hosts");
    if fs::create_dir_all(&family).is_ok() {
        return Ok(family);
    }
    let user = rustix::process::geteuid().as_raw();
    let family = std::env::temp_dir().join(format!("shoal-hosts-{user}"));
    fs::create_dir_all(&family)?;
    Ok(family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_tells_processes_apart() {
        let own = start_time(std::process::id());
        assert!(own.as_deref().is_some_and(|ticks| ticks.parse::<u64>().is_ok()), "{own:?}");
        assert_eq!(start_time(u32::MAX), None);
    }
}

//! Reads the facts of `shoal doctor` from the machine.

mod disks;
mod files;
mod names;
mod system;

use super::facts::{Facts, NodeFact, User};
use super::ports;
use crate::admin_client::AdminNode;
use crate::failure::Failure;
use crate::status::{StatusLook, judge};
use shoal_settings::Settings;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Reads all facts. `node` is the way to the running node, if it is to be asked.
pub fn gather(settings: &Settings, file: Option<&Path>, node: Option<&AdminNode>) -> Facts {
    let (begun, time) = (Instant::now(), SystemTime::now());
    let node = ask(settings, node);
    let (pid, bound) = match &node {
        NodeFact::Answers { status, .. } => {
            (system::is_shoal(status.pid).then_some(status.pid), status.addresses.clone())
        }
        _ => (None, Vec::new()),
    };
    let user = system::user(pid);
    let mut facts = Facts {
        open_files: system::open_files(pid),
        memory: system::memory(pid),
        kernel: system::kernel(),
        clock: system::clock(),
        disks: disks::disks(settings),
        files: files::files(settings, file),
        user,
        names: names::names(settings),
        ports: ports::ports(settings, &bound, matches!(node, NodeFact::Answers { .. })),
        node,
    };
    facts.clock.step = step(begun.elapsed(), time.elapsed());
    debug_assert_eq!(facts.disks.len(), settings.store.all_disks().len(), "a fact for each disk");
    facts
}

/// Returns the difference of the times that two clocks have counted.
fn step(monotonic: Duration, of_day: Result<Duration, std::time::SystemTimeError>) -> Duration {
    match of_day {
        Ok(of_day) => of_day.abs_diff(monotonic),
        Err(error) => error.duration() + monotonic,
    }
}

fn ask(settings: &Settings, node: Option<&AdminNode>) -> NodeFact {
    let Some(node) = node else {
        return if settings.admin.listen.is_none() { NodeFact::NoAddress } else { NodeFact::NotAsked };
    };
    match StatusLook::at(node) {
        Ok(look) => {
            NodeFact::Answers { at: node.to_string(), findings: judge(&look), status: Box::new(look.status) }
        }
        Err(Failure::Unreachable(why)) => {
            let why = why.split(": ").nth(1).unwrap_or(&why).split(';').next().unwrap_or_default().to_owned();
            NodeFact::Silent { at: node.to_string(), why }
        }
        Err(failure) => NodeFact::Refused { why: failure.lines().join("; ") },
    }
}

impl User {
    /// Returns a user of these numbers.
    fn new(uid: u32, gids: Vec<u32>, is_nodes: bool) -> Self {
        Self { uid, gids, is_nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_this_machine_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "[[listen]]\naddress = '127.0.0.1:0'\nmode = 'forward'\n[store]\ndirectory = {:?}\n",
            folder.path()
        );
        let settings = Settings::parse(&text, "f").expect("sound");
        let facts = gather(&settings, None, None);
        assert!(facts.memory.total > 1 << 20 && facts.clock.unix_s > 1_600_000_000, "{facts:?}");
        assert!(facts.disks[0].total > 0 && !facts.disks[0].kind.is_empty(), "{facts:?}");
        assert!(facts.open_files.hard.is_none_or(|limit| limit > 0) && !facts.open_files.is_nodes);
        assert!(facts.files.iter().any(|file| file.path == folder.path()), "{facts:?}");
        assert!(facts.kernel.somaxconn.is_some_and(|most| most > 0));
        assert!(matches!(facts.node, NodeFact::NotAsked));
    }

    #[test]
    fn steps_of_the_clock_are_seen_both_ways() {
        let second = Duration::from_secs(1);
        assert_eq!(step(second, Ok(second)), Duration::ZERO);
        assert_eq!(step(second, Ok(3 * second)), 2 * second);
        let back = SystemTime::now() + 5 * second;
        assert!(step(second, back.elapsed()) > 5 * second);
    }
}

//! One host: starts processes and limits, freezes and delays them.

use super::ground::Ground;
use super::groups::Groups;
use super::link::{Link, LinkSwitch};
use super::{network, tools};
use crate::address;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// One host. Clones are the same host.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    number: usize,
    ip: IpAddr,
    seat: Seat,
    groups: Groups,
    next_port: AtomicU16,
    link: LinkSwitch,
    ground: Arc<Ground>,
}

/// Where a host's processes run.
pub(super) enum Seat {
    /// In the network namespace of this name.
    Namespace(String),
    /// In the test's own.
    Loopback,
}

impl Host {
    pub(super) fn new(ground: &Arc<Ground>, number: usize, ip: IpAddr, seat: Seat) -> Self {
        let (groups, ground) = (ground.groups(number), ground.clone());
        let next_port = AtomicU16::new(FIRST_PORT);
        Self(Arc::new(Inner { number, ip, seat, groups, next_port, link: LinkSwitch::default(), ground }))
    }

    /// Address of the host.
    pub fn ip(&self) -> IpAddr {
        self.0.ip
    }

    /// Network of all hosts and of the test.
    pub fn network(&self) -> String {
        self.0.ground.network()
    }

    /// A port of the host that nobody has been given yet.
    pub fn free_port(&self) -> SocketAddr {
        match self.0.seat {
            Seat::Namespace(_) => (self.0.ip, self.0.next_port.fetch_add(1, Relaxed)).into(),
            Seat::Loopback => address::free_port(self.0.ip),
        }
    }

    /// A command that will run on the host, in its control groups. Its process is the program
    /// itself, so that it can be signalled and waited for.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut words = self.prefix().into_iter();
        let mut command = Command::new(words.next().expect("a prefix begins with a program"));
        command.args(words).arg(program);
        command
    }

    /// The words before a program and its arguments that let it run on the host.
    pub fn prefix(&self) -> Vec<String> {
        let mut words = ["sh", "-c", JOIN, "sh"].map(String::from).to_vec();
        words.extend(self.0.groups.folders().map(|folder| folder.to_string_lossy().into_owned()));
        words.push("--".into());
        if let Seat::Namespace(name) = &self.0.seat {
            words.extend([tools::program("ip"), "netns".into(), "exec".into(), name.clone()]);
        }
        words
    }

    /// Process ids of what runs on the host.
    pub fn processes(&self) -> Vec<u32> {
        let mut found = self.0.groups.processes();
        if let Seat::Namespace(name) = &self.0.seat {
            found.extend(network::processes(name));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Limits what the host sends and what it receives, each to so many bits a second.
    pub fn limit_rate(&self, bits_per_second: u64) -> Result<(), String> {
        self.0.ground.cables()?;
        network::shape(self.0.ground.names(), self.0.number, bits_per_second)
    }

    /// Limits the memory of all its processes together, page cache included.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), String> {
        self.0.groups.limit_memory(bytes)
    }

    /// Limits the CPU time of all its processes together, in hundredths of a core.
    pub fn limit_cpu(&self, percent: u32) -> Result<(), String> {
        assert!(percent > 0, "a host without CPU does not run; freeze it");
        self.0.groups.limit_cpu(percent)
    }

    /// Limits reads and writes, each to so many bytes a second, of the disk that a folder is on.
    pub fn limit_disk(&self, folder: &Path, bytes_per_second: u64) -> Result<(), String> {
        let stat = rustix::fs::stat(folder).map_err(|error| error.to_string())?;
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        self.0.groups.limit_disk(&format!("{major}:{minor}"), bytes_per_second)
    }

    /// Stops all processes where they stand. Their sockets stay open and take what fits.
    pub fn freeze(&self) {
        if self.0.groups.set_frozen(true).is_err() {
            self.signal_all(Signal::STOP);
        }
    }

    /// Lets frozen processes go on.
    pub fn thaw(&self) {
        if self.0.groups.set_frozen(false).is_err() {
            self.signal_all(Signal::CONT);
        }
    }

    /// Puts a link between the host and all others, which delays and loses what its seed says. The
    /// host is without one again when the link is dropped.
    pub fn link(&self, seed: u64) -> Result<Link, String> {
        self.0.ground.cables()?;
        Link::start(self.0.ground.names(), self.0.number, seed, &self.0.link)
    }

    /// The interface by which the host hangs on the bridge.
    pub(super) fn cable_end(&self) -> String {
        let names = self.0.ground.names();
        let [_, end] = names.uplink(self.0.number);
        if self.0.link.is_on() { end } else { names.port(self.0.number) }
    }

    /// Ends all that runs on the host.
    pub(super) fn clear(&self) {
        self.0.groups.remove();
        self.processes().into_iter().for_each(super::end);
    }

    fn signal_all(&self, signal: Signal) {
        self.processes().into_iter().for_each(|process| super::signal(process, signal));
    }
}

/// Joins the groups that are named before `--`, then becomes the program.
const JOIN: &str =
    r#"while [ "$1" != -- ]; do echo $$ >> "$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@""#;

/// Below the ports that the kernel gives to outgoing connections.
const FIRST_PORT: u16 = 10_000;

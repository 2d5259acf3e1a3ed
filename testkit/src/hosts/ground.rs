//! All hosts of a test, and the paths between them.

use super::claim::Claim;
use super::groups::Groups;
use super::host::{Host, Seat};
use super::names::{HOSTS_MAX, Names};
use super::network;
use crate::address::fresh_ip;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Index;
use std::sync::Arc;

/// Hosts of one test, removed with their processes on drop. Declare them before origins and
/// instances, so that they go last.
pub struct Hosts {
    hosts: Vec<Host>,
    ground: Arc<Ground>,
}

/// What hosts have in common; removed when the last of them is.
pub(super) struct Ground {
    names: Names,
    lacks_network: Option<String>,
    _claim: Claim,
}

impl Hosts {
    /// Starts hosts in namespaces, or on loopback addresses where there are none to be had or
    /// `SHOAL_HOSTS` is `loopback`.
    pub fn start(count: usize) -> Self {
        if std::env::var("SHOAL_HOSTS").is_ok_and(|kind| kind == "loopback") {
            return Self::loopback(count, "SHOAL_HOSTS asks for loopback");
        }
        Self::namespaces(count).unwrap_or_else(|why| Self::loopback(count, &why))
    }

    /// Starts hosts in namespaces; an error says why that is not possible here.
    pub fn namespaces(count: usize) -> Result<Self, String> {
        check(count);
        let claim = Claim::take().map_err(|error| error.to_string())?;
        let ground = Arc::new(Ground { names: claim.names, lacks_network: None, _claim: claim });
        network::make(ground.names, count)?;
        let seat = |host| Seat::Namespace(ground.names.namespace(host));
        let ip = |host| IpAddr::V4(ground.names.ip(host));
        let hosts = (0..count).map(|host| Host::new(&ground, host, ip(host), seat(host))).collect();
        Ok(Self { hosts, ground })
    }

    /// Starts hosts on loopback addresses; `why` is what tests are told that need more.
    pub fn loopback(count: usize, why: &str) -> Self {
        check(count);
        let claim = Claim::take().expect("a folder for temporary files takes claims");
        let lacks_network = Some(why.to_string());
        let ground = Arc::new(Ground { names: claim.names, lacks_network, _claim: claim });
        let host = |host| Host::new(&ground, host, fresh_ip(), Seat::Loopback);
        let hosts = (0..count).map(host).collect();
        Self { hosts, ground }
    }

    /// All hosts, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Host> {
        self.hosts.iter()
    }

    /// Number of hosts.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Address of the test itself as hosts see it, for origins.
    pub fn outside(&self) -> IpAddr {
        self.ground.outside()
    }

    /// Network of all hosts and of the test, for lists of allowed clients.
    pub fn network(&self) -> String {
        self.ground.network()
    }

    /// Returns an error with the reason if cables cannot be cut, slowed or delayed here.
    pub fn cuts(&self) -> Result<(), String> {
        self.ground.cables()
    }

    /// Lets everything vanish that one host sends to another. The way back stays open, and neither
    /// is told.
    pub fn cut(&self, from: usize, to: usize) -> Result<(), String> {
        self.set_path(from, to, false)
    }

    /// Cuts two hosts from each other.
    pub fn cut_both(&self, one: usize, other: usize) -> Result<(), String> {
        self.cut(one, other)?;
        self.cut(other, one)
    }

    /// Cuts `group` from all other hosts, both ways. The test still reaches all.
    pub fn split(&self, group: &[usize]) -> Result<(), String> {
        let rest = || (0..self.count()).filter(|host| !group.contains(host));
        group.iter().try_for_each(|one| rest().try_for_each(|other| self.cut_both(*one, other)))
    }

    /// Pulls a host's cable: no host reaches it and neither does the test.
    pub fn unplug(&self, host: usize) -> Result<(), String> {
        self.cuts()?;
        network::plug(self.ground.names, &self.hosts[host].cable_end(), false)
    }

    /// Undoes all cuts and plugs all cables in again.
    pub fn heal(&self) -> Result<(), String> {
        for from in 0..self.count() {
            for to in (0..self.count()).filter(|to| *to != from) {
                self.set_path(from, to, true)?;
            }
            network::plug(self.ground.names, &self.hosts[from].cable_end(), true)?;
        }
        Ok(())
    }

    /// Bytes that hosts have sent to each other, heads of frames included.
    pub fn bytes_between(&self) -> Result<u64, String> {
        self.cuts()?;
        let names = self.ground.names;
        let mut sent = 0;
        for host in 0..self.count() {
            sent += network::received_bytes(&names.port(host))?;
        }
        // Taken afterwards, the bytes for the test itself may be a little more than are in the sum.
        Ok(sent.saturating_sub(network::received_bytes(&names.bridge())?))
    }

    fn set_path(&self, from: usize, to: usize, open: bool) -> Result<(), String> {
        self.cuts()?;
        assert!(from != to && from.max(to) < self.count(), "a path leads from one host to another");
        network::set_path(self.ground.names, from, to, open)
    }
}

impl Index<usize> for Hosts {
    type Output = Host;

    fn index(&self, host: usize) -> &Host {
        &self.hosts[host]
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // A setup that outlives the hosts finds its host empty.
        self.hosts.iter().for_each(Host::clear);
    }
}

impl Ground {
    pub(super) fn names(&self) -> Names {
        self.names
    }

    pub(super) fn cables(&self) -> Result<(), String> {
        self.lacks_network.as_ref().map_or(Ok(()), |why| Err(format!("hosts have no cables: {why}")))
    }

    pub(super) fn groups(&self, host: usize) -> Groups {
        Groups::make(&self.names.group(host))
    }

    pub(super) fn outside(&self) -> IpAddr {
        IpAddr::V4(self.cables().map_or(Ipv4Addr::LOCALHOST, |()| self.names.outside()))
    }

    pub(super) fn network(&self) -> String {
        self.cables().map_or("127.0.0.0/8".into(), |()| self.names.network())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.lacks_network.is_none() {
            network::remove(self.names);
        }
    }
}

fn check(count: usize) {
    assert!((2..=HOSTS_MAX).contains(&count), "a ground has 2 to {HOSTS_MAX} hosts, not {count}");
}

//! Shares of other nodes in this one: connections, messages, asks and calls of each address.
//!
//! A member is trusted with clients' requests, and still gets a share alone: a faulty one that asks
//! for everything, or reads no answer, leaves room for clients and for other nodes.
//!
//! ```text
//!  admit ─┬─ below the limit ─► PeerTurn, which gives its place back when dropped
//!         └─ at the limit ────► refused; REFUSALS_MAX refusals within WINDOW set the node aside,
//!                               for a minute, then for two, up to an hour
//! ```
//!
//! A node that was frozen meets a heap of stale connections of honest nodes when it goes on. So one
//! refusal sets nobody aside. Cost: one lock and one hash of an address for each admission.

use crate::PeerAddresses;
use parking_lot::Mutex;
use shoal_core::Timestamp;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Shares of all addresses.
#[derive(Debug)]
pub struct PeerShares {
    members: Arc<PeerAddresses>,
    table: Mutex<HashMap<IpAddr, PeerShare>>,
    /// `true` once a node was set aside: only then must each ask look.
    has_set_aside: AtomicBool,
}

/// Share of one address.
#[derive(Debug, Default)]
struct PeerShare {
    /// Places taken, by kind.
    taken: [u32; KINDS],
    /// Ports of connections that carry messages.
    links: HashSet<u16>,
    /// Refusals since `since`.
    refusals: u32,
    since: Option<Timestamp>,
    aside: Option<Aside>,
}

/// Pause of a node that was set aside.
#[derive(Clone, Copy, Debug)]
struct Aside {
    until: Timestamp,
    pause: Duration,
}

/// Kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerPlace {
    /// Connection to the listener for peers.
    Connection,
    /// Ask for an object, until its answer has been sent.
    Ask,
    /// Call, until its answer has been sent.
    Call,
}

/// Place that a node has taken, until dropped.
#[derive(Debug)]
pub struct PeerTurn {
    shares: Arc<PeerShares>,
    from: SocketAddr,
    place: PeerPlace,
    /// Places of this kind that the node has taken, this one included.
    pub own: u32,
    /// Addresses that have a place of this kind.
    pub active: u32,
}

/// Refusal of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRefusal {
    /// `true` once for each pause: the node has just been set aside.
    pub sets_aside: bool,
}

impl PeerShares {
    /// Creates the table; addresses that are not in `members` share one share of calls.
    pub fn new(members: Arc<PeerAddresses>) -> Arc<Self> {
        Arc::new(Self { members, table: Mutex::default(), has_set_aside: AtomicBool::new(false) })
    }

    /// Takes a place for the node at an address.
    ///
    /// # Errors
    /// If the node has all of its share.
    pub fn admit(
        self: &Arc<Self>,
        from: SocketAddr,
        place: PeerPlace,
        now: Timestamp,
    ) -> Result<PeerTurn, ShareRefusal> {
        let (address, mut table) = (self.holder(from.ip(), place), self.table.lock());
        let share = table.entry(address).or_default();
        let own = &mut share.taken[place as usize];
        if *own >= LIMITS[place as usize] {
            return Err(self.refused(share, now));
        }
        *own += 1;
        let own = *own;
        // Connections are many and need no such count.
        let active = match place {
            PeerPlace::Connection | PeerPlace::Call => 0,
            PeerPlace::Ask => table.values().filter(|share| share.taken[place as usize] > 0).count(),
        };
        drop(table);
        Ok(PeerTurn { shares: Arc::clone(self), from, place, own, active: active as u32 })
    }

    /// Admits a message on the connection from this address. Messages and their answers are copies,
    /// so that few connections of a node carry them. Its further messages take the ordinary path,
    /// which counts: this refusal sets nobody aside.
    ///
    /// # Errors
    /// If too many other connections of the node do.
    pub fn admit_message(&self, from: SocketAddr) -> Result<(), ShareRefusal> {
        let mut table = self.table.lock();
        let Some(share) = table.get_mut(&self.holder(from.ip(), PeerPlace::Connection)) else {
            return Ok(());
        };
        let is_known = share.links.contains(&from.port());
        if !is_known && share.links.len() >= LINKS_MAX {
            return Err(ShareRefusal { sets_aside: false });
        }
        share.links.insert(from.port());
        Ok(())
    }

    /// Returns `true` while the node at an address is set aside.
    pub fn is_aside(&self, address: IpAddr, now: impl FnOnce() -> Timestamp) -> bool {
        self.has_set_aside.load(Relaxed)
            && self.table.lock().get(&address.to_canonical()).is_some_and(|share| share.is_aside(now()))
    }

    /// Returns the address with the share that the place is of.
    fn holder(&self, address: IpAddr, place: PeerPlace) -> IpAddr {
        // Strangers' connections are counted elsewhere, by network.
        let is_counted = place == PeerPlace::Connection || self.members.has(address);
        if is_counted { address.to_canonical() } else { STRANGERS }
    }

    /// Counts a refusal.
    fn refused(&self, share: &mut PeerShare, now: Timestamp) -> ShareRefusal {
        let begun = *share.since.get_or_insert(now);
        if now.since(begun) > WINDOW {
            (share.since, share.refusals) = (Some(now), 0);
        }
        share.refusals += 1;
        let sets_aside = share.refusals >= REFUSALS_MAX && !share.is_aside(now);
        if sets_aside {
            let again = share.aside.filter(|aside| now.since(aside.until) < FORGOTTEN);
            let pause = again.map_or(PAUSE, |aside| (aside.pause * 2).min(PAUSE_MAX));
            share.aside = Some(Aside { until: now.plus(pause), pause });
            (share.since, share.refusals) = (None, 0);
            self.has_set_aside.store(true, Relaxed);
        }
        ShareRefusal { sets_aside }
    }

    fn release(&self, from: SocketAddr, place: PeerPlace) {
        let mut table = self.table.lock();
        let address = [self.holder(from.ip(), place), STRANGERS, from.ip().to_canonical()];
        // A stranger may have become a member meanwhile, or a member a stranger.
        let taken =
            |address: &&IpAddr| table.get(*address).is_some_and(|share| share.taken[place as usize] > 0);
        let Some(address) = address.iter().find(taken).copied() else { return };
        let Some(share) = table.get_mut(&address) else { return };
        share.taken[place as usize] -= 1;
        if place == PeerPlace::Connection {
            share.links.remove(&from.port());
        }
        if share.taken == [0; KINDS] && share.aside.is_none() && share.refusals == 0 {
            table.remove(&address);
        }
        if table.len() > ADDRESSES_MAX {
            table.retain(|_, share| share.taken != [0; KINDS]);
        }
    }
}

impl PeerShare {
    fn is_aside(&self, now: Timestamp) -> bool {
        self.aside.is_some_and(|aside| now < aside.until)
    }
}

impl Drop for PeerTurn {
    fn drop(&mut self) {
        self.shares.release(self.from, self.place);
    }
}

/// Kinds of places.
const KINDS: usize = 3;

/// Most places of one node, by kind. A node asks another over at most 1,024 connections, and one
/// more for each worker; while it is replaced, two processes do. A call holds up to 1 MiB of a
/// message and of an answer.
const LIMITS: [u32; KINDS] = [2048, 2048, 192];

/// Most connections of a node that carry messages. Each holds up to 1 MiB of a message that is not
/// whole, or of an answer that is not read. A node has two for each worker, and some for pages.
const LINKS_MAX: usize = 256;

/// Refusals within [`WINDOW`] after which a node is set aside.
const REFUSALS_MAX: u32 = 256;

/// Time within which refusals count together.
const WINDOW: Duration = Duration::from_secs(10);

/// First pause of a node that is set aside; a further one is twice as long.
const PAUSE: Duration = Duration::from_secs(60);

/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Time after a pause in which the next one is longer.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// Number of addresses above which those without a place are forgotten.
const ADDRESSES_MAX: usize = 16_384;

/// Address that stands for all that are no member's.
const STRANGERS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> Arc<PeerShares> {
        let members = Arc::new(PeerAddresses::default());
        members.note(
            ["10.0.0.1:3131", "10.0.0.2:3131"].map(|text| text.parse().expect("an address")).into_iter(),
        );
        PeerShares::new(members)
    }

    fn from(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], port))
    }

    #[test]
    fn greedy_node_leaves_places_to_others() {
        let (shares, now) = (shares(), Timestamp::from_seconds(1_000));
        for place in [PeerPlace::Connection, PeerPlace::Ask, PeerPlace::Call] {
            let limit = LIMITS[place as usize];
            let turns: Vec<_> = (0..limit).map(|_| shares.admit(from(1, 1), place, now)).collect();
            assert!(turns.iter().all(Result::is_ok));
            assert_eq!(shares.admit(from(1, 2), place, now).err(), Some(ShareRefusal { sets_aside: false }));
            let other = shares.admit(from(2, 1), place, now).expect("it has a share of its own");
            assert_eq!(other.own, 1);
            assert!(place != PeerPlace::Ask || other.active == 2);
            drop((turns, other));
            assert!(shares.admit(from(1, 2), place, now).is_ok(), "places come back");
        }
    }

    #[test]
    fn strangers_have_one_share_of_calls() {
        let (shares, now) = (shares(), Timestamp::from_seconds(1_000));
        let call = |last| shares.admit(from(last, 1), PeerPlace::Call, now);
        let turns: Vec<_> = (0..LIMITS[2]).map(|number| call(10 + (number % 100) as u8)).collect();
        assert!(turns.iter().all(Result::is_ok));
        assert!(call(200).is_err() && call(1).is_ok());
        drop(turns);
        assert!(call(200).is_ok() && shares.table.lock().get(&STRANGERS).is_some());
    }

    #[test]
    fn many_refusals_set_a_node_aside() {
        let (shares, mut now) = (shares(), Timestamp::from_seconds(1_000));
        let _turns: Vec<_> = (0..LIMITS[2]).map(|_| shares.admit(from(1, 1), PeerPlace::Call, now)).collect();
        let refused = |now| shares.admit(from(1, 1), PeerPlace::Call, now).expect_err("it has its share");
        for pause in [60, 120, 240] {
            let told = (0..REFUSALS_MAX).filter(|_| refused(now).sets_aside).count();
            assert_eq!(told, 1);
            let end = now.plus(Duration::from_secs(pause));
            assert!(shares.is_aside(from(1, 1).ip(), || end.minus(Duration::from_secs(1))));
            assert!(!shares.is_aside(from(1, 1).ip(), || end) && !shares.is_aside(from(2, 1).ip(), || now));
            now = end.plus(WINDOW * 2);
        }
        for second in 0..10_u64 {
            let now = now.plus(Duration::from_secs(second * 11));
            assert!((1..REFUSALS_MAX).all(|_| !refused(now).sets_aside), "refusals far apart do not add up");
        }
    }

    #[test]
    fn few_connections_carry_messages() {
        let (shares, now) = (shares(), Timestamp::from_seconds(1_000));
        let open = |port| shares.admit(from(1, port), PeerPlace::Connection, now).expect("there is room");
        let mut turns: Vec<_> = (0..LINKS_MAX as u16 + 1).map(open).collect();
        let message = |port| shares.admit_message(from(1, port)).is_ok();
        assert!((0..LINKS_MAX as u16).all(message) && (0..LINKS_MAX as u16).all(message));
        assert!(!message(LINKS_MAX as u16));
        drop(turns.remove(0));
        assert!(message(LINKS_MAX as u16), "a connection that ends leaves room");
        drop(turns);
        assert!(
            shares.table.lock().values().all(|share| share.taken == [0; KINDS] && share.links.is_empty())
        );
    }
}

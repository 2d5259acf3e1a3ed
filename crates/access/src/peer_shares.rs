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
//! refusal sets nobody aside. Nor does any refusal of a connection: it comes before the
//! certificate, and others may share the address. Cost: one lock and one hash of an address for
//! each admission.

use crate::{PeerAddresses, client_network};
use parking_lot::Mutex;
use shoal_core::Timestamp;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Shares of all addresses.
#[derive(Debug)]
pub struct PeerShares {
    members: Arc<PeerAddresses>,
    table: Mutex<ShareTable>,
    /// End of the latest pause, in ms since 1970: before it each ask must look.
    aside_until: AtomicU64,
}

#[derive(Debug, Default)]
struct ShareTable {
    shares: HashMap<Holder, PeerShare>,
    /// Holders with an ask.
    asking: u32,
    /// Calls of all strangers.
    strangers_calls: u32,
}

/// Holder of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    /// Address of a member, or of any connection. Strangers' connections are counted by network
    /// elsewhere, too.
    Address(IpAddr),
    /// Network of addresses that are no member's.
    Stranger(IpAddr),
}

/// Share of one holder.
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
    holder: Holder,
    port: u16,
    place: PeerPlace,
    /// Places of this kind that the node has taken, this one included.
    pub own: u32,
    /// Nodes with an ask, if this is one.
    pub active: u32,
}

/// Refusal of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRefusal {
    /// `true` once for each pause: the node has just been set aside.
    pub sets_aside: bool,
}

impl PeerShares {
    /// Creates the table; addresses that are not in `members` are strangers.
    pub fn new(members: Arc<PeerAddresses>) -> Arc<Self> {
        Arc::new(Self { members, table: Mutex::default(), aside_until: AtomicU64::new(0) })
    }

    /// Takes a place for the node at an address.
    ///
    /// # Errors
    /// If the node has all of its share, or strangers have all of theirs.
    pub fn admit(
        self: &Arc<Self>,
        from: SocketAddr,
        place: PeerPlace,
        now: Timestamp,
    ) -> Result<PeerTurn, ShareRefusal> {
        let holder = self.holder(from.ip(), place);
        let mut table = self.table.lock();
        let taken = table.shares.get(&holder).map_or(0, |share| share.taken[place as usize]);
        if taken >= holder.limit(place) {
            return Err(self.refused(&mut table, (holder, place), now));
        }
        let is_strangers_call = holder.is_strangers_call(place);
        if is_strangers_call && table.strangers_calls >= STRANGERS_CALLS_MAX {
            return Err(ShareRefusal { sets_aside: false });
        }
        table.strangers_calls += u32::from(is_strangers_call);
        table.asking += u32::from(place == PeerPlace::Ask && taken == 0);
        table.shares.entry(holder).or_default().taken[place as usize] += 1;
        let active = if place == PeerPlace::Ask { table.asking } else { 0 };
        drop(table);
        Ok(PeerTurn { shares: Arc::clone(self), holder, port: from.port(), place, own: taken + 1, active })
    }

    /// Admits a message on the connection from this address. Messages and their answers are copies,
    /// so that few connections of a node carry them. Its further messages take the ordinary path,
    /// which counts: this refusal sets nobody aside.
    ///
    /// # Errors
    /// If too many other connections of the node do.
    pub fn admit_message(&self, from: SocketAddr) -> Result<(), ShareRefusal> {
        let mut table = self.table.lock();
        let holder = self.holder(from.ip(), PeerPlace::Connection);
        let Some(share) = table.shares.get_mut(&holder) else { return Ok(()) };
        let is_known = share.links.contains(&from.port());
        if !is_known && share.links.len() >= LINKS_MAX {
            return Err(ShareRefusal { sets_aside: false });
        }
        share.links.insert(from.port());
        Ok(())
    }

    /// Returns `true` while the node at an address is set aside.
    pub fn is_aside(&self, address: IpAddr, now: impl FnOnce() -> Timestamp) -> bool {
        let until = self.aside_until.load(Relaxed);
        if until == 0 {
            return false;
        }
        let now = now();
        let holder = Holder::Address(address.to_canonical());
        now.millis() < until && self.table.lock().shares.get(&holder).is_some_and(|share| share.is_aside(now))
    }

    fn holder(&self, address: IpAddr, place: PeerPlace) -> Holder {
        match place == PeerPlace::Connection || self.members.has(address) {
            true => Holder::Address(address.to_canonical()),
            false => Holder::Stranger(client_network(address)),
        }
    }

    /// Counts a refusal.
    fn refused(
        &self,
        table: &mut ShareTable,
        (holder, place): (Holder, PeerPlace),
        now: Timestamp,
    ) -> ShareRefusal {
        let is_proven = matches!(holder, Holder::Address(_)) && place != PeerPlace::Connection;
        let Some(share) = table.shares.get_mut(&holder).filter(|_| is_proven) else {
            return ShareRefusal { sets_aside: false };
        };
        let begun = *share.since.get_or_insert(now);
        if now.since(begun) > WINDOW {
            (share.since, share.refusals) = (Some(now), 0);
        }
        share.refusals += 1;
        let sets_aside = share.refusals >= REFUSALS_MAX && !share.is_aside(now);
        if sets_aside {
            let again = share.aside.filter(|aside| now.since(aside.until) < FORGOTTEN);
            let pause = again.map_or(PAUSE, |aside| (aside.pause * 2).min(PAUSE_MAX));
            let until = now.plus(pause);
            share.aside = Some(Aside { until, pause });
            (share.since, share.refusals) = (None, 0);
            self.aside_until.fetch_max(until.millis(), Relaxed);
        }
        ShareRefusal { sets_aside }
    }

    fn release(&self, turn: &PeerTurn) {
        let (holder, place) = (turn.holder, turn.place);
        let mut table = self.table.lock();
        let Some(share) = table.shares.get_mut(&holder) else {
            debug_assert!(false, "a holder with a place stays in the table");
            return;
        };
        let taken = &mut share.taken[place as usize];
        assert!(*taken > 0, "a place is given back once");
        *taken -= 1;
        let was_last = *taken == 0;
        if place == PeerPlace::Connection {
            share.links.remove(&turn.port);
        }
        if share.taken == [0; KINDS] && share.aside.is_none() && share.refusals == 0 {
            table.shares.remove(&holder);
        }
        table.asking -= u32::from(place == PeerPlace::Ask && was_last);
        table.strangers_calls -= u32::from(holder.is_strangers_call(place));
        if table.shares.len() > HOLDERS_MAX {
            table.shares.retain(|_, share| share.taken != [0; KINDS]);
        }
    }
}

impl Holder {
    /// Returns the most places of one kind.
    fn limit(self, place: PeerPlace) -> u32 {
        match self {
            Self::Address(_) => LIMITS[place as usize],
            Self::Stranger(_) => LIMITS[place as usize].min(STRANGER_MAX),
        }
    }

    fn is_strangers_call(self, place: PeerPlace) -> bool {
        place == PeerPlace::Call && matches!(self, Self::Stranger(_))
    }
}

impl PeerShare {
    fn is_aside(&self, now: Timestamp) -> bool {
        self.aside.is_some_and(|aside| now < aside.until)
    }
}

impl Drop for PeerTurn {
    fn drop(&mut self) {
        self.shares.release(self);
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

/// Most places of one kind of one network of strangers. A node that joins makes few calls at once.
const STRANGER_MAX: u32 = 16;

/// Most calls of all strangers together.
const STRANGERS_CALLS_MAX: u32 = 192;

/// Number of holders above which those without a place are forgotten.
const HOLDERS_MAX: usize = 16_384;

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
    fn strangers_have_few_calls() {
        let (shares, now) = (shares(), Timestamp::from_seconds(1_000));
        let call = |last| shares.admit(from(last, 1), PeerPlace::Call, now);
        let of_one: Vec<_> = (0..STRANGER_MAX).map(|_| call(10)).collect();
        assert!(of_one.iter().all(Result::is_ok));
        assert!((0..2 * REFUSALS_MAX).all(|_| call(10).is_err_and(|refusal| !refusal.sets_aside)));
        let mut turns: Vec<_> = (20..).map_while(|last| call(last).ok()).collect();
        assert_eq!(turns.len() as u32, STRANGERS_CALLS_MAX - STRANGER_MAX, "all of them together");
        assert!(call(1).is_ok(), "a member has its own share");
        turns.pop();
        assert!(call(250).is_ok());
        drop((of_one, turns));
        let table = shares.table.lock();
        assert!(table.strangers_calls == 0 && table.shares.is_empty(), "{table:?}");
    }

    #[test]
    fn place_goes_back_to_its_holder() {
        let (shares, now) = (shares(), Timestamp::from_seconds(1_000));
        let turn = shares.admit(from(10, 1), PeerPlace::Call, now).expect("there is room");
        // The stranger joins during its call.
        shares.members.note([from(10, 3131)].into_iter());
        let own = shares.admit(from(10, 1), PeerPlace::Call, now).expect("there is room");
        assert_eq!(own.own, 1);
        drop(turn);
        assert_eq!(shares.table.lock().strangers_calls, 0);
        assert_eq!(shares.admit(from(10, 1), PeerPlace::Call, now).expect("there is room").own, 2);
    }

    #[test]
    fn refused_connections_set_nobody_aside() {
        let (shares, now) = (shares(), Timestamp::from_seconds(1_000));
        let open = |port| shares.admit(from(1, port), PeerPlace::Connection, now);
        let _turns: Vec<_> = (0..LIMITS[0]).map(|port| open(port as u16)).collect();
        assert!((0..2 * REFUSALS_MAX).all(|_| open(0).is_err_and(|refusal| !refusal.sets_aside)));
        assert!(!shares.is_aside(from(1, 1).ip(), || now));
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
            shares
                .table
                .lock()
                .shares
                .values()
                .all(|share| share.taken == [0; KINDS] && share.links.is_empty())
        );
    }
}

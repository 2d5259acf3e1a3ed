//! Permits for one origin, divided fairly among clients.
//!
//! Each client may hold a multiple of the number of free permits: four times for an address, twice
//! for one connection. The largest holder therefore reaches its limit first. A new client always
//! gets a permit while one is free. The more clients, the fewer permits stay free. Of 256 permits a
//! single address holds at most 205, each of ten 24. A returned permit goes to the waiting address
//! that holds fewest. Equals take turns: an address that had a permit goes behind all others that
//! wait, and one that begins to wait goes behind them too. The queue is divided like the permits,
//! and its last place is for an address that does not wait yet.
//!
//! The rule follows Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
//! switches", IEEE/ACM Transactions on Networking 6(2), 1998. It fits if clients are unknown
//! beforehand and any may be greedy. A single client leaves some permits unused. A permit costs two
//! lookups. A permit returned while others wait costs a walk over their addresses.

use super::few::Few;
use crate::access::client_network;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// Permits of one origin.
pub(crate) struct Gate {
    state: Mutex<GateState>,
    waiting_max: usize,
}

/// Permit, returned when dropped.
pub(crate) struct Permit {
    gate: Arc<Gate>,
    party: Party,
}

/// Client connection that asks for a permit; `None` for the node itself, which has no share.
pub(crate) type Party = Option<SocketAddr>;

/// Place in the queue; dropping it leaves the queue.
pub(crate) struct GateTicket {
    gate: Arc<Gate>,
    party: Party,
    number: u64,
    permit: oneshot::Receiver<Permit>,
}

struct GateState {
    free: usize,
    /// Held permits to be retired on their return.
    owed: usize,
    waiting: usize,
    /// Number of the next waiter or permit.
    next: u64,
    accounts: Few<Option<IpAddr>, AddressAccount>,
}

/// Address that holds or waits for permits.
#[derive(Default)]
struct AddressAccount {
    held: usize,
    /// Permits held by each of its connections.
    connections: Few<SocketAddr, usize>,
    queue: VecDeque<Waiter>,
    /// Number that was next when it got its last permit.
    served: u64,
}

struct Waiter {
    number: u64,
    party: Party,
    permit: oneshot::Sender<Permit>,
}

impl Gate {
    /// Creates a gate with `permits` permits and a queue of at most `waiting_max`.
    pub fn new(permits: usize, waiting_max: usize) -> Arc<Self> {
        let state = GateState { free: permits, owed: 0, waiting: 0, next: 0, accounts: Few::default() };
        Arc::new(Self { state: Mutex::new(state), waiting_max })
    }

    /// Adds `permits` permits and gives one to the party, regardless of its share.
    pub fn enlarge(self: &Arc<Self>, permits: usize, party: Party) -> Permit {
        let mut state = self.state.lock();
        state.add(permits);
        if state.free == 0 {
            // This permit exceeds the number until it is returned.
            state.free += 1;
            state.owed += 1;
        }
        state.take(party);
        drop(state);
        self.hand_out();
        self.permit(party)
    }

    /// Adds `permits` permits.
    pub fn add(self: &Arc<Self>, permits: usize) {
        self.state.lock().add(permits);
        self.hand_out();
    }

    /// Retires `permits` permits: free ones first, then the next ones returned.
    pub fn remove(&self, permits: usize) {
        let mut state = self.state.lock();
        let free = state.free.min(permits);
        state.free -= free;
        state.owed += permits - free;
    }

    /// Takes a permit, if one is free and within the party's share.
    pub fn try_acquire(self: &Arc<Self>, party: Party) -> Option<Permit> {
        let mut state = self.state.lock();
        state.may_take(party).then(|| {
            state.take(party);
            self.permit(party)
        })
    }

    /// Takes a permit for the node itself, if more than `spare` are free and nobody waits.
    pub fn try_acquire_spare(self: &Arc<Self>, spare: usize) -> Option<Permit> {
        let mut state = self.state.lock();
        (state.free > spare && state.waiting == 0).then(|| {
            state.take(None);
            self.permit(None)
        })
    }

    /// Returns a place in the queue, or `None` if the queue or the party's share is full.
    pub fn queue(self: &Arc<Self>, party: Party) -> Option<GateTicket> {
        let (sender, permit) = oneshot::channel();
        let mut state = self.state.lock();
        debug_assert!(state.waiting <= self.waiting_max);
        let left = self.waiting_max - state.waiting;
        let account = state.accounts.get_or_default(address_of(party));
        let of_connection = || account.queue.iter().filter(|waiter| waiter.party == party).count();
        let in_share = party.is_none()
            || account.queue.len() < ADDRESS_SHARE * left
                && of_connection() < CONNECTION_SHARE * left
                && (left > 1 || account.queue.is_empty());
        if left == 0 || !in_share {
            state.tidy(party);
            return None;
        }
        let number = state.next;
        let waiter = Waiter { number, party, permit: sender };
        state.accounts.get_or_default(address_of(party)).queue.push_back(waiter);
        state.next += 1;
        state.waiting += 1;
        debug_assert!(state.waiting <= self.waiting_max);
        state.invariants();
        drop(state);
        // A permit may have been returned since the last try.
        self.hand_out();
        Some(GateTicket { gate: Arc::clone(self), party, number, permit })
    }

    /// Returns the number of free permits.
    pub fn free(&self) -> usize {
        self.state.lock().free
    }

    /// Returns the number of waiters.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Gives free permits to waiters within their shares.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let Some(waiter) = self.state.lock().next_waiter() else { return };
            // A waiter that has left returns its permit at once.
            drop(waiter.permit.send(self.permit(waiter.party)));
        }
    }

    fn permit(self: &Arc<Self>, party: Party) -> Permit {
        Permit { gate: Arc::clone(self), party }
    }
}

impl Permit {
    /// Assigns the permit to the node itself, because its connection now serves all clients.
    pub fn disown(&mut self) {
        let Some(party) = self.party.take() else { return };
        let mut state = self.gate.state.lock();
        state.hand_over(party);
        drop(state);
        self.gate.hand_out();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.state.lock().put_back(self.party);
        self.gate.hand_out();
    }
}

impl Future for GateTicket {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let permit = Pin::new(&mut self.permit).poll(context);
        permit.map(|permit| permit.expect("a waiter leaves the queue with a permit or by itself"))
    }
}

impl Drop for GateTicket {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        let Some(account) = state.accounts.get_mut(&address_of(self.party)) else { return };
        let before = account.queue.len();
        account.queue.retain(|waiter| waiter.number != self.number);
        state.waiting -= before - account.queue.len();
        state.tidy(self.party);
    }
}

impl GateState {
    fn may_take(&self, party: Party) -> bool {
        let Some(connection) = party else { return self.free > 0 };
        let account = self.accounts.get(&address_of(party));
        self.free > 0 && account.is_none_or(|account| account.may_take(connection, self.free))
    }

    fn take(&mut self, party: Party) {
        assert!(self.free > 0, "a permit is taken that is not there");
        self.free -= 1;
        debug_assert!(self.free == 0 || self.owed == 0, "free permits that are not to be there");
        let account = self.accounts.get_or_default(address_of(party));
        account.held += 1;
        account.served = self.next;
        self.next += 1;
        if let Some(connection) = party {
            *account.connections.get_or_default(connection) += 1;
        }
    }

    fn add(&mut self, permits: usize) {
        let paid = self.owed.min(permits);
        self.owed -= paid;
        self.free += permits - paid;
        self.invariants();
    }

    /// Checks the accounts against the counts, in debug builds.
    fn invariants(&self) {
        if cfg!(debug_assertions) {
            let waiting: usize = self.accounts.iter().map(|(_, account)| account.queue.len()).sum();
            assert_eq!(waiting, self.waiting, "waiters of all accounts");
            for (_, account) in self.accounts.iter() {
                let held: usize = account.connections.iter().map(|(_, held)| *held).sum();
                assert!(held <= account.held, "a connection holds for its address");
                assert!(account.connections.iter().all(|(_, held)| *held > 0));
                assert!(account.queue.iter().is_sorted_by_key(|waiter| waiter.number));
            }
        }
    }

    fn put_back(&mut self, party: Party) {
        self.add(1);
        let account =
            self.accounts.get_mut(&address_of(party)).expect("whoever holds a permit has an account");
        debug_assert!(account.held > 0, "a permit that comes back twice");
        account.held -= 1;
        if let Some(connection) = party
            && let Some(held) = account.connections.get_mut(&connection)
        {
            *held -= 1;
            if *held == 0 {
                account.connections.remove(&connection);
            }
        }
        self.tidy(party);
    }

    /// Moves one of the party's permits to the node itself.
    fn hand_over(&mut self, party: SocketAddr) {
        let owed = std::mem::take(&mut self.owed);
        self.put_back(Some(party));
        self.take(None);
        self.owed = owed;
    }

    /// Removes an address that neither holds nor waits.
    fn tidy(&mut self, party: Party) {
        let address = address_of(party);
        if self.accounts.get(&address).is_some_and(|account| account.held == 0 && account.queue.is_empty()) {
            self.accounts.remove(&address);
        }
    }

    /// Takes a permit for the next waiter, and removes the waiter from the queue. The address that
    /// holds fewest permits comes first. Among equals, the one that waits for longest since
    /// its last permit comes first.
    fn next_waiter(&mut self) -> Option<Waiter> {
        if self.free == 0 || self.waiting == 0 {
            return None;
        }
        let free = self.free;
        let may_take = |account: &AddressAccount, party: Party| {
            party.is_none_or(|connection| account.may_take(connection, free))
        };
        let first_of = |account: &AddressAccount| {
            let index = account.queue.iter().position(|waiter| may_take(account, waiter.party))?;
            Some((account.held, account.served.max(account.queue[index].number), index))
        };
        let candidates = self.accounts.iter().filter(|(_, account)| !account.queue.is_empty());
        let chosen = candidates.filter_map(|(address, account)| Some((first_of(account)?, *address)));
        let ((.., index), address) = chosen.min_by_key(|((held, turn, _), _)| (*held, *turn))?;
        let waiter = self.accounts.get_mut(&address)?.queue.remove(index)?;
        self.waiting -= 1;
        self.take(waiter.party);
        Some(waiter)
    }
}

impl AddressAccount {
    fn may_take(&self, connection: SocketAddr, free: usize) -> bool {
        let of_connection = self.connections.get(&connection).copied().unwrap_or(0);
        self.held < ADDRESS_SHARE * free && of_connection < CONNECTION_SHARE * free
    }
}

/// Returns the address that a share belongs to.
fn address_of(party: Party) -> Option<IpAddr> {
    Some(client_network(party?.ip()))
}

/// Permits of one address per free one, and places in the queue per free place.
const ADDRESS_SHARE: usize = 4;
/// Permits and places of one connection likewise.
const CONNECTION_SHARE: usize = 2;

const _: () = assert!(CONNECTION_SHARE <= ADDRESS_SHARE);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn party(address: u8, port: u16) -> Party {
        Some(([192, 0, 2, address], port).into())
    }

    /// Takes all available permits.
    fn take_all(gate: &Arc<Gate>, mut party: impl FnMut(usize) -> Party) -> Vec<Permit> {
        let mut held = Vec::new();
        while let Some(permit) = gate.try_acquire(party(held.len())) {
            held.push(permit);
        }
        held
    }

    #[test]
    fn one_client_leaves_permits_for_others() {
        let gate = Gate::new(256, 1);
        let of_connection = take_all(&gate, |_| party(1, 1));
        assert_eq!(of_connection.len(), 171);
        let of_address = take_all(&gate, |number| party(1, 2 + number as u16));
        assert_eq!(of_connection.len() + of_address.len(), 205);
        assert!(gate.try_acquire(party(2, 1)).is_some(), "a newcomer has one at once");
        drop((of_connection, of_address));
        assert_eq!(gate.free(), 256);
        assert!(gate.state.lock().accounts.is_empty());
    }

    #[test]
    fn the_node_itself_has_all_permits() {
        let gate = Gate::new(8, 1);
        assert_eq!(take_all(&gate, |_| None).len(), 8);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let gate = Gate::new(10, 1);
        let held = take_all(&gate, |number| {
            Some(SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number as u16).into(), 1))
        });
        assert_eq!(held.len(), 8);
    }

    #[tokio::test]
    async fn permit_goes_to_the_address_with_fewest() {
        let gate = Gate::new(3, 8);
        let mut held: Vec<_> = (0..3).filter_map(|port| gate.try_acquire(party(1, port))).collect();
        assert_eq!(held.len(), 3);
        let greedy = gate.queue(party(1, 9)).expect("room");
        let newcomer = gate.queue(party(2, 1)).expect("room");
        held.pop();
        let permit = newcomer.await;
        assert_eq!((gate.free(), gate.waiting()), (0, 1));
        drop(greedy);
        drop(permit);
        assert_eq!((gate.free(), gate.waiting()), (1, 0));
    }

    #[tokio::test]
    async fn one_client_leaves_room_in_the_queue() {
        let gate = Gate::new(1, 100);
        let held = gate.try_acquire(None).expect("a permit");
        let greedy: Vec<_> = std::iter::from_fn(|| gate.queue(party(1, 1))).collect();
        assert_eq!(greedy.len(), 67);
        let newcomer = gate.queue(party(2, 1)).expect("room");
        drop(held);
        // The greedy party's first waiter was first in the queue; once gone, it passes the permit
        // on.
        drop(greedy);
        drop(newcomer.await);
        assert_eq!((gate.free(), gate.waiting()), (1, 0));
        assert!(gate.state.lock().accounts.is_empty());
    }

    /// One permit: no waiting address holds fewer than another.
    #[tokio::test]
    async fn waiting_addresses_take_turns() {
        let gate = Gate::new(1, 100);
        let mut held = gate.try_acquire(party(1, 1));
        let mut waiting: Vec<_> = (0..6).filter_map(|port| gate.queue(party(1, port))).collect();
        waiting.extend((0..2).filter_map(|port| gate.queue(party(2, port))));
        waiting.extend(gate.queue(party(3, 1)));
        assert_eq!(waiting.len(), 9);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(held.take());
            let next = std::future::poll_fn(|context| {
                let ready = waiting.iter_mut().enumerate().find_map(|(index, waiting)| {
                    match Pin::new(waiting).poll(context) {
                        Poll::Ready(permit) => Some((index, permit)),
                        Poll::Pending => None,
                    }
                });
                ready.map_or(Poll::Pending, Poll::Ready)
            });
            let (index, permit) = next.await;
            let IpAddr::V4(address) = permit.party.expect("a client").ip() else { panic!("IPv4") };
            order.push(address.octets()[3]);
            held = Some(permit);
            drop(waiting.remove(index));
        }
        assert_eq!(order, [1, 2, 3, 1, 2, 1, 1, 1, 1]);
    }

    #[test]
    fn last_place_is_for_another_address() {
        for places in 2..6 {
            let gate = Gate::new(1, places);
            let _held = gate.try_acquire(party(1, 1)).expect("a permit");
            let mut port = 1;
            let next = || {
                port += 1;
                gate.queue(party(1, port))
            };
            let greedy: Vec<_> = std::iter::from_fn(next).collect();
            assert_eq!(greedy.len(), places - 1);
            assert!(gate.queue(party(2, 1)).is_some(), "{places}");
        }
    }

    #[tokio::test]
    async fn permits_become_more_and_fewer() {
        let gate = Gate::new(0, 8);
        let waiting = gate.queue(party(1, 1)).expect("room");
        let first = gate.enlarge(3, party(2, 1));
        let second = waiting.await;
        assert_eq!(gate.free(), 1);
        gate.remove(3);
        drop(first);
        assert_eq!(gate.free(), 0, "it was owed");
        gate.add(1);
        assert_eq!(gate.free(), 0, "another was owed still");
        drop(second);
        assert_eq!(gate.free(), 1);
        let third = gate.enlarge(0, party(1, 1));
        let beyond = gate.enlarge(0, party(1, 1));
        drop((third, beyond));
        assert_eq!(gate.free(), 1);
        assert!(gate.state.lock().accounts.is_empty());
    }

    #[tokio::test]
    async fn a_disowned_permit_is_in_nobodys_share() {
        let gate = Gate::new(4, 8);
        let mut held: Vec<_> = take_all(&gate, |_| party(1, 1));
        assert_eq!(held.len(), 3);
        let waiting = gate.queue(party(1, 1)).expect("room");
        held.iter_mut().for_each(Permit::disown);
        drop(waiting.await);
        drop(held);
        assert_eq!(gate.free(), 4);
    }
}

//! Permits for one origin, shared out fairly among clients.
//!
//! Each client may hold a multiple of the permits that are free: four times as many for an address,
//! twice for one of its connections. Whoever holds most is held back first, a newcomer never while
//! a permit is free, and what stays free shrinks as clients become more. Of 256 permits a lone
//! address holds 205 at most, each of ten 24. Permits that come back go to the waiting address that
//! holds fewest; among those that hold as many, to the one that has waited longest.
//!
//! The rule is that of Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
//! packet switches", IEEE/ACM Transactions on Networking 6(2), 1998. It fits where nobody is known
//! beforehand and any of them may be greedy. It costs some permits that a lone client leaves
//! unused. A permit costs two lookups, one that comes back while others wait a walk over their
//! addresses.

use super::few::Few;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The permits of one origin.
pub(in crate::upstream) struct Gate {
    state: Mutex<State>,
    waiting_max: usize,
}

/// A permit; it goes back when dropped.
pub(in crate::upstream) struct Permit {
    gate: Arc<Gate>,
    party: Party,
}

/// The client connection that asks for a permit; `None` for the node itself, which has no share.
pub(in crate::upstream) type Party = Option<SocketAddr>;

/// A place in the queue; dropping it leaves the queue.
pub(in crate::upstream) struct Waiting {
    gate: Arc<Gate>,
    party: Party,
    number: u64,
    permit: oneshot::Receiver<Permit>,
}

struct State {
    free: usize,
    /// Permits that are held and are not to come back.
    owed: usize,
    waiting: usize,
    /// Numbers waiters in their order.
    next: u64,
    accounts: Few<Option<IpAddr>, Account>,
}

/// An address that holds permits or waits for some.
#[derive(Default)]
struct Account {
    held: usize,
    /// Permits held by each of its connections.
    connections: Few<SocketAddr, usize>,
    queue: VecDeque<Waiter>,
}

struct Waiter {
    number: u64,
    party: Party,
    permit: oneshot::Sender<Permit>,
}

impl Gate {
    /// A gate with `permits`, for which `waiting_max` may wait.
    pub fn new(permits: usize, waiting_max: usize) -> Arc<Self> {
        let state = State { free: permits, owed: 0, waiting: 0, next: 0, accounts: Few::default() };
        Arc::new(Self { state: Mutex::new(state), waiting_max })
    }

    /// Makes so many permits more; gives one to the party, whatever its share.
    pub fn enlarge(self: &Arc<Self>, permits: usize, party: Party) -> Permit {
        let mut state = self.state.lock();
        state.add(permits);
        if state.free == 0 {
            // This one is beyond the number until it comes back.
            state.free += 1;
            state.owed += 1;
        }
        state.take(party);
        drop(state);
        self.hand_out();
        self.permit(party)
    }

    /// Makes so many permits more.
    pub fn add(self: &Arc<Self>, permits: usize) {
        self.state.lock().add(permits);
        self.hand_out();
    }

    /// Takes so many permits out of use: those that are free, then those that come back next.
    pub fn remove(&self, permits: usize) {
        let mut state = self.state.lock();
        let free = state.free.min(permits);
        state.free -= free;
        state.owed += permits - free;
    }

    /// A permit, if one is free and within the party's share.
    pub fn try_acquire(self: &Arc<Self>, party: Party) -> Option<Permit> {
        let mut state = self.state.lock();
        state.may_take(party).then(|| {
            state.take(party);
            self.permit(party)
        })
    }

    /// A place in the queue; `None` when the party has its share of places, or all are taken.
    pub fn queue(self: &Arc<Self>, party: Party) -> Option<Waiting> {
        let (sender, permit) = oneshot::channel();
        let mut state = self.state.lock();
        debug_assert!(state.waiting <= self.waiting_max);
        let left = self.waiting_max - state.waiting;
        let account = state.accounts.get_or_default(address_of(party));
        let of_connection = || account.queue.iter().filter(|waiter| waiter.party == party).count();
        let in_share = party.is_none()
            || account.queue.len() < ADDRESS_SHARE * left && of_connection() < CONNECTION_SHARE * left;
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
        // A permit may have come back since it was asked for.
        self.hand_out();
        Some(Waiting { gate: Arc::clone(self), party, number, permit })
    }

    /// Permits that nobody holds.
    pub fn free(&self) -> usize {
        self.state.lock().free
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Gives free permits to those who wait and may have one.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let Some(waiter) = self.state.lock().next_waiter() else { return };
            // One that has left gives it back at once.
            drop(waiter.permit.send(self.permit(waiter.party)));
        }
    }

    fn permit(self: &Arc<Self>, party: Party) -> Permit {
        Permit { gate: Arc::clone(self), party }
    }
}

impl Permit {
    /// Counts the permit for no client any longer: what it is for serves all of them.
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

impl Future for Waiting {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let permit = Pin::new(&mut self.permit).poll(context);
        permit.map(|permit| permit.expect("a waiter leaves the queue with a permit or by itself"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        let Some(account) = state.accounts.get_mut(&address_of(self.party)) else { return };
        let before = account.queue.len();
        account.queue.retain(|waiter| waiter.number != self.number);
        state.waiting -= before - account.queue.len();
        state.tidy(self.party);
    }
}

impl State {
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

    /// Has the node itself hold one of the party's permits.
    fn hand_over(&mut self, party: SocketAddr) {
        let owed = std::mem::take(&mut self.owed);
        self.put_back(Some(party));
        self.take(None);
        self.owed = owed;
    }

    /// Forgets an address that neither holds nor waits.
    fn tidy(&mut self, party: Party) {
        let address = address_of(party);
        if self.accounts.get(&address).is_some_and(|account| account.held == 0 && account.queue.is_empty()) {
            self.accounts.remove(&address);
        }
    }

    /// Takes a permit for the waiter whose address holds fewest, and the waiter out of the queue.
    fn next_waiter(&mut self) -> Option<Waiter> {
        if self.free == 0 || self.waiting == 0 {
            return None;
        }
        let free = self.free;
        let may_take = |account: &Account, party: Party| {
            party.is_none_or(|connection| account.may_take(connection, free))
        };
        let first_of = |account: &Account| {
            let index = account.queue.iter().position(|waiter| may_take(account, waiter.party))?;
            Some((account.held, account.queue[index].number, index))
        };
        let candidates = self.accounts.iter().filter(|(_, account)| !account.queue.is_empty());
        let chosen = candidates.filter_map(|(address, account)| Some((first_of(account)?, *address)));
        let ((.., index), address) = chosen.min_by_key(|((held, number, _), _)| (*held, *number))?;
        let waiter = self.accounts.get_mut(&address)?.queue.remove(index)?;
        self.waiting -= 1;
        self.take(waiter.party);
        Some(waiter)
    }
}

impl Account {
    fn may_take(&self, connection: SocketAddr, free: usize) -> bool {
        let of_connection = self.connections.get(&connection).copied().unwrap_or(0);
        self.held < ADDRESS_SHARE * free && of_connection < CONNECTION_SHARE * free
    }
}

/// What counts as one address: of IPv6 the network, since its owner has all addresses in it.
fn address_of(party: Party) -> Option<IpAddr> {
    match party?.ip().to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Some(IpAddr::V6(Ipv6Addr::from(network)))
        }
        address => Some(address),
    }
}

/// Permits of one address for each that is free, and places in the queue likewise.
const ADDRESS_SHARE: usize = 4;
/// The same of one connection.
const CONNECTION_SHARE: usize = 2;

const _: () = assert!(CONNECTION_SHARE <= ADDRESS_SHARE);

#[cfg(test)]
mod tests {
    use super::*;

    fn party(address: u8, port: u16) -> Party {
        Some(([192, 0, 2, address], port).into())
    }

    /// As many permits as there are to be had.
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
    async fn permits_go_to_whom_holds_fewest() {
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
        // The first of the greedy one's was first; one that left passes the permit on.
        drop(greedy);
        drop(newcomer.await);
        assert_eq!((gate.free(), gate.waiting()), (1, 0));
        assert!(gate.state.lock().accounts.is_empty());
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

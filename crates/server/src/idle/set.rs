//! Set of idle connections, with the epoll descriptor that reports the readable ones.
//!
//! Each connection has a key that is used only once. An event of a closed connection therefore
//! never counts for the next connection in the slot.

use super::IdleStream;
use crate::connection::ConnectionContext;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Connection that waits for a request.
pub(crate) struct IdleConnection {
    /// Client socket.
    pub stream: IdleStream,
    /// Client, limits and permit of the connection.
    pub standing: ConnectionContext,
    /// Time at which the connection is closed.
    pub due: Instant,
    /// The client has sent a request before.
    pub has_spoken: bool,
}

/// All idle connections of one thread.
pub(super) struct IdleSet {
    epoll: Arc<OwnedFd>,
    /// Buffer for the kernel's events.
    events: Vec<epoll::Event>,
    slots: Vec<Slot>,
    /// Indexes of empty slots.
    free: Vec<u32>,
    /// Lower bound of all due times.
    due_next: Option<Instant>,
    /// Waker called when `due_next` becomes earlier.
    waker: Option<Waker>,
}

#[derive(Default)]
struct Slot {
    /// Number of connections that the slot held before.
    round: u32,
    guest: Option<IdleConnection>,
}

/// Key of an idle connection: slot index and the slot's `round`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleKey(u64);

/// Readiness event of an idle connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyEvent {
    /// Key of the connection.
    pub key: IdleKey,
    /// The peer may have closed after the readable bytes.
    pub is_last: bool,
}

impl IdleSet {
    /// Creates an empty set.
    pub fn new() -> io::Result<Self> {
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let events = Vec::with_capacity(CALLS_MAX);
        Ok(Self { epoll, events, slots: Vec::new(), free: Vec::new(), due_next: None, waker: None })
    }

    /// Returns the epoll descriptor. The descriptor is readable while a connection has events.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    /// Adds a connection. Returns the connection if the kernel refuses it.
    pub fn admit(&mut self, guest: IdleConnection) -> Result<(), IdleConnection> {
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        if index as usize == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let slot = &mut self.slots[index as usize];
        let key = u64::from(slot.round) << 32 | u64::from(index);
        let wanted = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if epoll::add(&*self.epoll, &guest.stream, epoll::EventData::new_u64(key), wanted).is_err() {
            self.free.push(index);
            return Err(guest);
        }
        let due = guest.due;
        let before = slot.guest.replace(guest);
        debug_assert!(before.is_none(), "a guest in another's place");
        if self.expect(due) {
            self.waker.iter().for_each(Waker::wake_by_ref);
        }
        Ok(())
    }

    /// Records a due time. Returns `true` if `due` is earlier than all recorded times.
    pub fn expect(&mut self, due: Instant) -> bool {
        let is_sooner = self.due_next.is_none_or(|next| due < next);
        if is_sooner {
            self.due_next = Some(due);
        }
        is_sooner
    }

    /// Returns the connection with this key, if the set still holds it.
    pub fn guest(&mut self, key: IdleKey) -> Option<&mut IdleConnection> {
        let slot = self.slots.get_mut(key.index())?;
        slot.guest.as_mut().filter(|_| slot.round == key.round())
    }

    /// Removes a connection from the set.
    pub fn release(&mut self, key: IdleKey) -> Option<IdleConnection> {
        self.guest(key)?;
        let guest = self.take(key.index())?;
        // An error means that the kernel has already dropped the descriptor.
        let _ = epoll::delete(&*self.epoll, &guest.stream);
        Some(guest)
    }

    fn take(&mut self, index: usize) -> Option<IdleConnection> {
        let slot = &mut self.slots[index];
        let guest = slot.guest.take()?;
        slot.round = slot.round.wrapping_add(1);
        self.free.push(index as u32);
        debug_assert!(self.free.len() <= self.slots.len(), "a place that is free twice");
        Some(guest)
    }

    /// Appends the pending events of at most [`CALLS_MAX`] connections to `calls`, without waiting.
    /// Returns `true` if there may be more.
    pub fn calls(&mut self, calls: &mut Vec<ReadyEvent>) -> io::Result<bool> {
        self.events.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        debug_assert!(self.events.capacity() >= CALLS_MAX);
        let count = epoll::wait(&*self.epoll, spare_capacity(&mut self.events), Some(&at_once))?;
        calls.extend(self.events.drain(..).map(ReadyEvent::from));
        Ok(count == self.events.capacity())
    }

    /// Sets the waker to call when the earliest due time moves forward.
    pub fn wake_by(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// Returns the time of the next search for overdue connections. A search visits every slot, so
    /// at least [`SWEEP_MIN`] passes between two.
    pub fn sweep_next(&self) -> Option<Instant> {
        Some(self.due_next? + SWEEP_MIN)
    }

    /// Closes all connections.
    pub fn close(mut self) {
        let guests = self.slots.drain(..).filter_map(|slot| slot.guest);
        guests.for_each(drop);
    }

    /// Closes overdue connections. No remaining connection is due before `now`.
    pub fn close_overdue(&mut self, now: Instant) {
        self.due_next = None;
        for index in 0..self.slots.len() {
            let Some(due) = self.slots[index].guest.as_ref().map(|guest| guest.due) else { continue };
            match due <= now {
                true => drop(self.take(index)),
                false => _ = self.expect(due),
            }
        }
    }
}

impl IdleKey {
    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    fn round(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl From<epoll::Event> for ReadyEvent {
    fn from(event: epoll::Event) -> Self {
        let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        Self { key: IdleKey(event.data.u64()), is_last: { event.flags }.intersects(ends) }
    }
}

/// Maximum delay of closing an overdue connection, and minimum time between two searches.
pub(super) const SWEEP_MIN: Duration = Duration::from_millis(100);

/// Maximum number of events per system call.
const CALLS_MAX: usize = 64;

const _: () = assert!(CALLS_MAX > 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ConnectionPermit;
    use shoal_settings::ClientLimits;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use tokio::sync::Semaphore;

    fn guest(stream: TcpStream, due: Instant) -> IdleConnection {
        let metrics = Arc::<crate::metrics::Metrics>::default();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("it is free");
        let address = ([127, 0, 0, 1], 1).into();
        let client = crate::message::Client {
            address,
            local: address,
            listener: 0,
            tls: false,
            server_name: None,
            certificate: None,
            intercepted: None,
        };
        let live = crate::limits::ConnectionLimits::new(&ClientLimits::default(), Arc::clone(&metrics));
        let standing = ConnectionContext {
            client: Arc::new(client),
            live: Arc::new(live),
            _seat: ConnectionPermit::new(metrics, place),
        };
        IdleConnection { stream: IdleStream::new(stream), standing, due, has_spoken: false }
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let far = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (listener.accept().expect("it connects").0, far)
    }

    fn calls(room: &mut IdleSet) -> Vec<ReadyEvent> {
        let mut calls = Vec::new();
        while calls.is_empty() {
            room.calls(&mut calls).expect("a sound descriptor");
        }
        calls
    }

    #[test]
    fn a_call_is_for_the_guest_that_it_was_made_of() {
        let mut room = IdleSet::new().expect("a descriptor");
        let due = Instant::now();
        let (near, mut far) = pair();
        assert!(room.admit(guest(near, due)).is_ok());
        far.write_all(b"x").expect("it is open");
        let first = calls(&mut room)[0];
        assert!(!first.is_last && room.guest(first.key).is_some());
        assert!(room.release(first.key).is_some());
        assert!(room.release(first.key).is_none());
        let (near, far) = pair();
        assert!(room.admit(guest(near, due)).is_ok());
        drop(far);
        let second = calls(&mut room)[0];
        assert!(second.is_last && second.key.index() == first.key.index());
        assert!(room.guest(first.key).is_none() && room.guest(second.key).is_some());
    }

    #[test]
    fn refused_descriptor_is_returned() {
        let mut room = IdleSet::new().expect("a descriptor");
        // epoll refuses files, which have no readiness.
        let not_a_socket = std::env::current_exe().and_then(std::fs::File::open).map(OwnedFd::from);
        let given_back = room.admit(guest(not_a_socket.expect("this test").into(), Instant::now()));
        assert!(given_back.is_err() && room.due_next.is_none());
        let (near, _far) = pair();
        assert!(room.admit(guest(near, Instant::now())).is_ok());
    }

    #[test]
    fn only_overdue_connections_are_closed() {
        let mut room = IdleSet::new().expect("a descriptor");
        let now = Instant::now();
        let far: Vec<_> = (1..=3)
            .map(|seconds| {
                let (near, far) = pair();
                assert!(room.admit(guest(near, now + Duration::from_secs(seconds))).is_ok());
                far
            })
            .collect();
        assert_eq!(room.due_next, Some(now + Duration::from_secs(1)));
        room.close_overdue(now + Duration::from_secs(2));
        assert_eq!(room.due_next, Some(now + Duration::from_secs(3)));
        room.close_overdue(now + Duration::from_secs(3));
        assert_eq!((room.due_next, room.free.len(), far.len()), (None, 3, 3));
    }

    /// A search visits every idle connection.
    #[test]
    fn however_many_are_due_there_are_few_looks() {
        let mut room = IdleSet::new().expect("a descriptor");
        let start = Instant::now();
        let milliseconds = |count| start + Duration::from_millis(count);
        let far: Vec<_> = (0..300)
            .map(|due| {
                let (near, far) = pair();
                assert!(room.admit(guest(near, milliseconds(due))).is_ok());
                far
            })
            .collect();
        let mut looks = 0;
        for now in (0..500).map(milliseconds) {
            if room.sweep_next().is_some_and(|next| next <= now) {
                room.close_overdue(now);
                looks += 1;
            }
        }
        assert_eq!((room.free.len(), looks), (far.len(), 3));
    }
}

//! Shared memory: the idle RAM of some nodes serves the busy ones.
//!
//! ```text
//!  RAM ─ evicted ─► queue ─► PutPlan ─► memory/ask put ──► other node: GuestPages
//!  miss in RAM ─► PlacedPages ─ PageCosts ─► memory/ask get ──► page, or the own disk
//!  each second: reports by memory/ask state, plan, epoch, gauges
//! ```
//!
//! The decisions are those of `shoal_cooperation::global_memory` (Voelker 2000, chapter 3). Their
//! meters, locks and messages are here. The queue is bounded in bytes and count: an object that
//! finds no room is dropped, and no client waits for it. One thread with its own runtime puts; gets
//! run within the request that misses, for one time-out of the peer at most.
//!
//! No lock is held while bytes are charged: the budget takes pages of other nodes back at once when
//! this node needs memory, and calls [`GuestHolder::give_up`] for that.

mod answering;
mod get_lanes;
mod getting;
mod meters;
mod putting;
mod status;

pub use status::{MemoryReport, MemoryRow};

use crate::clock;
use crate::cluster::ClusterHandle;
use crate::metrics::{Counter, Metrics};
use arc_swap::ArcSwap;
use bytes::Bytes;
use meters::NodeLoad;
use parking_lot::Mutex;
use shoal_cache::hybrid_cache::HybridCache;
use shoal_cache::io_pool::Urgency;
use shoal_cache::shared_memory::{
    EvictedObject, GuestCharge, GuestHolder, GuestRoom, PlacedPage, SharedMemory,
};
use shoal_cluster::{MemoryAsk, MemoryMatter};
use shoal_cooperation::NodeId;
use shoal_cooperation::directory::DigestTrust;
use shoal_cooperation::global_memory::{
    CostMeter, Epochs, GuestPages, PeerSwitch, Place, PlacedPages, PutPlan, PutReserve, Reports, Role,
    ServerReport, TierAge,
};
use shoal_core::{Key, ObjectKey};
use shoal_settings::{Settings, SharedMemory as Mode};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// This node's part in the shared memory of its cluster.
pub struct ClusterMemory {
    me: Weak<Self>,
    handle: Weak<ClusterHandle>,
    node: NodeId,
    /// Number of this process among those of the node: its start.
    life: u64,
    /// Seed of the hashes by which pages are known again.
    seed: u64,
    started: Instant,
    is_on: AtomicBool,
    /// `true` if a page is asked for at any cost.
    is_always: AtomicBool,
    metrics: Arc<Metrics>,
    room: GuestRoom,
    /// Keeps the registration at the budget.
    registration: OnceLock<Arc<dyn Send + Sync>>,
    guests: Mutex<GuestPages<HeldPage>>,
    placed: Mutex<PlacedPages>,
    queue: Mutex<PutQueue>,
    wake: Arc<Notify>,
    /// Pages that this node has forgotten, for their holders.
    forgotten: Mutex<HashMap<NodeId, Vec<u128>>>,
    peers: Mutex<HashMap<NodeId, PeerMemory>>,
    reports: Mutex<Reports>,
    own: ArcSwap<ServerReport>,
    plan: ArcSwap<PutPlan>,
    tier_age: Mutex<TierAge>,
    epochs: Mutex<Epochs>,
    disk: Mutex<CostMeter>,
    load: NodeLoad,
    gets: AtomicU32,
}

/// Page of another node.
pub(super) struct HeldPage {
    bytes: Bytes,
    _charge: GuestCharge,
}

/// Objects that have left RAM, in their order.
struct PutQueue {
    objects: VecDeque<PutCandidate>,
    bytes: u64,
    /// Most bytes of objects. [`Self::charged`] has the bytes that are charged for them.
    reserve: PutReserve,
    /// `None` if memory is not shared, and while the reserve changes.
    charge: Option<GuestCharge>,
}

/// Object on its way to another node.
struct PutCandidate {
    object: EvictedObject,
    /// Age when it left RAM.
    age: Duration,
    /// Nodes that have declined it.
    refused: Vec<NodeId>,
}

/// Another node as a server of memory.
#[derive(Default)]
struct PeerMemory {
    /// Version that both nodes know; `None` before the node's first answer.
    version: Option<u8>,
    /// Time before which a node that knows no shared memory is not asked.
    asked_after: Duration,
    /// Process of the node, from its latest ask.
    life: u64,
    heard: Option<Duration>,
    latency: CostMeter,
    switch: PeerSwitch,
    trust: DigestTrust,
    row: MemoryRow,
}

/// Function that returns the CPU time of this process so far in milliseconds.
pub type CpuTime = Box<dyn Fn() -> Option<u64> + Send + Sync>;

impl ClusterMemory {
    /// Starts to share memory as the settings say.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        handle: &Arc<ClusterHandle>,
        cache: &HybridCache,
        (settings, metrics, cpu): (&Settings, &Arc<Metrics>, CpuTime),
    ) -> io::Result<Arc<Self>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let room = cache.guest_room();
        let reserve = PutReserve::of(room.usage().0);
        let queue = PutQueue { objects: VecDeque::new(), bytes: 0, reserve, charge: None };
        let memory = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            handle: Arc::downgrade(handle),
            node: handle.own(),
            life: clock::now().millis(),
            seed: Key::of(b"pages at other nodes").low(),
            started: Instant::now(),
            is_on: AtomicBool::new(false),
            is_always: AtomicBool::new(false),
            metrics: Arc::clone(metrics),
            room,
            registration: OnceLock::new(),
            guests: Mutex::default(),
            placed: Mutex::new(PlacedPages::new(PLACED_MAX)),
            queue: Mutex::new(queue),
            wake: Arc::new(Notify::new()),
            forgotten: Mutex::default(),
            peers: Mutex::default(),
            reports: Mutex::default(),
            own: ArcSwap::from_pointee(STRANGER),
            plan: ArcSwap::default(),
            tier_age: Mutex::default(),
            epochs: Mutex::new(Epochs::new(None, Duration::ZERO)),
            disk: Mutex::default(),
            load: NodeLoad::new(cpu, cores),
            gets: AtomicU32::new(0),
        });
        let holder: Weak<dyn GuestHolder> = Weak::<Self>::clone(&memory.me);
        drop(memory.registration.set(memory.room.register(holder)));
        cache.share_memory(&(Arc::clone(&memory) as Arc<dyn SharedMemory>));
        memory.set(settings);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (weak, wake) = (Weak::clone(&memory.me), Arc::clone(&memory.wake));
        let thread = std::thread::Builder::new().name("shared-memory".into());
        thread.spawn(move || runtime.block_on(putting::work(weak, wake)))?;
        Ok(memory)
    }

    /// Takes the settings that may change without a restart. Off gives all pages back.
    pub fn set(&self, settings: &Settings) {
        let mode = settings.cluster.shared_memory;
        self.is_always.store(mode == Mode::Always, Relaxed);
        self.epochs.lock().fix(settings.cluster.shared_memory_balance);
        let is_on = mode != Mode::Off;
        let was_on = self.is_on.swap(is_on, Relaxed);
        if is_on && !was_on {
            let (charge, reserve) = (self.room.charge(0, false), PutReserve::of(self.room.usage().0));
            let mut queue = self.queue.lock();
            (queue.charge, queue.reserve) = (charge, reserve);
            drop(queue);
            self.adapt_reserve(true);
        }
        if was_on && !is_on {
            let guests = std::mem::take(&mut *self.guests.lock());
            let queue = {
                let mut queue = self.queue.lock();
                queue.reserve.set(0);
                queue.charge.take()
            };
            drop((guests, queue));
            self.placed.lock().keep(|_| false);
            self.plan.store(Arc::default());
        }
        self.wake.notify_one();
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the version of messages that this node and the other one know.
    fn version_of(&self, node: NodeId) -> Option<u8> {
        self.peers.lock().get(&node)?.version
    }

    /// Makes an ask of this node.
    fn ask<'a>(&self, handle: &ClusterHandle, matter: MemoryMatter<'a>) -> MemoryAsk<'a> {
        let report = **self.own.load();
        MemoryAsk { from: self.node, life: self.life, purges: handle.purges(), report, matter }
    }

    /// Notes that a page is known no more, for its holder.
    fn forget(&self, key: Key, place: Option<Place>) {
        let Some(place) = place else { return };
        let mut forgotten = self.forgotten.lock();
        let pages = forgotten.entry(place.node).or_default();
        // Beyond it, the holder gives the pages up when they are its oldest.
        if pages.len() < FORGOTTEN_MAX {
            pages.push(page_number(key));
        }
    }

    /// Returns a number from 0 up to 1 that nobody foresees.
    fn draw(&self) -> f64 {
        let draws = self.load.next_draw();
        (Key::of(&(draws ^ self.seed).to_le_bytes()).low() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl SharedMemory for ClusterMemory {
    fn begin(&self, key: Key) -> u64 {
        if !self.is_on() {
            // Older pages end all the same.
            self.end(key);
            return 0;
        }
        let (turn, before) = self.placed.lock().begin(key);
        self.forget(key, before);
        turn
    }

    fn end(&self, key: Key) {
        let before = self.placed.lock().end(key);
        self.forget(key, before);
    }

    fn evicted(&self, object: EvictedObject) {
        let age = object.age();
        self.tier_age.lock().evicted(age, self.now());
        if !self.is_on() || !self.plan.load().takes(age) {
            return;
        }
        let (key, turn, weight) = (object.key(), object.turn(), object.weight());
        // Dropped outside the lock.
        let mut worth_less = Vec::new();
        let mut queue = self.queue.lock();
        let has_room = queue.make_room((weight, age), &mut worth_less);
        {
            let mut placed = self.placed.lock();
            worth_less.iter().for_each(|it| placed.stays_away(it.object.key(), it.object.turn()));
            if has_room && placed.leaves(key, turn) {
                queue.bytes += weight;
                queue.objects.push_back(PutCandidate { object, age, refused: Vec::new() });
            }
        }
        let in_use = queue.bytes;
        queue.reserve.used(in_use);
        // In between, more objects are gathered.
        let is_due = queue.objects.len() <= 1 || queue.is_full_message();
        drop(queue);
        self.metrics.memory_puts_dropped.add(worth_less.len() as u64 + u64::from(!has_room));
        if is_due {
            self.wake.notify_one();
        }
    }

    fn find(&self, key: &ObjectKey, on_disk: bool, urgency: Urgency) -> Option<PlacedPage> {
        if self.is_on() { self.find_page(key, on_disk, urgency) } else { None }
    }

    fn disk_took(&self, time: Duration) {
        self.disk.lock().took(time);
        self.epochs.lock().faulted(1, time.as_secs_f64());
    }
}

impl GuestHolder for ClusterMemory {
    fn held_bytes(&self) -> u64 {
        self.guests.lock().usage().1
    }

    fn give_up(&self, bytes: u64) -> u64 {
        let (mut given, mut pages) = (0, 0);
        while given < bytes {
            // The page is dropped, and its charge released, outside the lock.
            let Some(page) = self.guests.lock().give_up(None) else { break };
            given += page.weight();
            pages += 1;
        }
        self.metrics.memory_yielded.add(pages);
        given
    }
}

impl HeldPage {
    fn weight(&self) -> u64 {
        held_weight(self.bytes.len())
    }
}

impl PutQueue {
    /// Takes the object that has waited longest for a round that has `taken` bytes. A round has one
    /// object, or those within its bytes. The object's bytes stay counted until [`Self::done`].
    fn next(&mut self, taken: u64) -> Option<PutCandidate> {
        let round = self.round_bytes();
        self.objects.pop_front_if(|first| taken == 0 || taken + first.object.weight() <= round)
    }

    fn round_bytes(&self) -> u64 {
        self.reserve.round(putting::MESSAGE_BYTES as u64)
    }

    /// Returns the bytes that are charged for a reserve of `size` bytes: only the objects of a
    /// round are copied.
    fn charged(&self, size: u64) -> u64 {
        size + ROUND_COPIES * size.min(self.round_bytes())
    }

    /// Makes room for an object of this weight and age. Objects that are older are worth less, and
    /// go to `dropped` one by one. Returns `false` if those do not suffice.
    fn make_room(&mut self, (weight, age): (u64, Duration), dropped: &mut Vec<PutCandidate>) -> bool {
        if weight > self.reserve.size() {
            self.reserve.dropped();
            return false;
        }
        while self.objects.len() >= QUEUE_MAX || self.bytes + weight > self.reserve.size() {
            self.reserve.dropped();
            let ages = self.objects.iter().map(|waiting| waiting.age).enumerate();
            let Some((oldest, _)) = ages.filter(|(_, other)| *other > age).max_by_key(|(_, age)| *age) else {
                return false;
            };
            let Some(worth_less) = self.objects.remove(oldest) else { return false };
            self.done(worth_less.object.weight());
            dropped.push(worth_less);
        }
        true
    }

    /// Returns `true` if the objects are enough for a message.
    fn is_full_message(&self) -> bool {
        self.bytes >= self.reserve.together(putting::MESSAGE_BYTES as u64)
    }

    /// Counts bytes no more.
    fn done(&mut self, bytes: u64) {
        debug_assert!(self.bytes >= bytes, "each object is counted once");
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Returns the bytes that a held page is charged.
fn held_weight(bytes: usize) -> u64 {
    bytes as u64 + GUEST_OVERHEAD
}

/// Returns the number by which other nodes know the page of a key. The key is a hash under the
/// secret of this process, so that no other node can name the page.
fn page_number(key: Key) -> u128 {
    u128::from_le_bytes(key.to_bytes())
}

/// Sets a gauge that one thread alone changes.
fn set_gauge(gauge: &Counter, value: u64) {
    gauge.add(value.wrapping_sub(gauge.value()));
}

/// Report of a node that has measured nothing yet.
const STRANGER: ServerReport = ServerReport {
    role: Role::Local,
    age: Duration::ZERO,
    spare_bytes: 0,
    most_permille: 0,
    unused_permille: 0,
    service_us: SERVICE_US,
};

/// Service time before it was measured, in microseconds.
const SERVICE_US: u32 = 100;

/// Most objects on their way. A full queue is searched for the oldest one.
const QUEUE_MAX: usize = 1024;

/// Copies of the objects of a round beside themselves: first the pages and the messages, then the
/// messages and the buffers of their connections.
const ROUND_COPIES: u64 = 2;

/// Most pages of this node at others. An entry takes about 100 bytes.
const PLACED_MAX: usize = 1 << 18;

/// Most forgotten pages that wait to be told to a node.
const FORGOTTEN_MAX: usize = shoal_cluster::DROPPED_MAX;

/// Bytes of a held page beside its bytes: places in two tables, and the allocation.
const GUEST_OVERHEAD: u64 = 256;

/// Utilization of the CPU from which this node takes no pages.
const CPU_CAP: f64 = 0.8;

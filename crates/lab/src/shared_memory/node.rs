//! A node of a fleet: RAM by S3-FIFO, pages of others, directories, plan.

use super::{FleetBalance, FleetSource, FleetTimes};
use shoal_cooperation::NodeId;
use shoal_cooperation::global_memory::{
    AGE_MAX, Epochs, GuestPages, OwnRate, PageRoom, Place, PlacedPages, PutPlan, Reports, Role, RoomChoice,
    ServerReport, TierAge, spare_bytes,
};
use shoal_core::Key;
use shoal_policy::{Handle, Replacement, S3Fifo};
use std::collections::HashMap;
use std::time::Duration;

/// Object that has left RAM: key, weight, age, turn.
pub(super) type Evicted = (Key, u64, Duration, u64);

/// Result of a look into memory and disk.
pub(super) enum FleetLookup {
    /// The object was there.
    Found(FleetSource),
    /// The node does not have it.
    Absent,
}

/// A node.
pub(super) struct FleetNode {
    pub ram_bytes: u64,
    ram: HashMap<Key, InRam>,
    order: S3Fifo,
    ram_used: u64,
    /// Objects of the disk, with the time of their arrival.
    pub stored: HashMap<Key, Duration>,
    /// Fates of objects that left RAM.
    pub fates: HashMap<Key, FleetSource>,
    pub placed: PlacedPages,
    pub guests: GuestPages<()>,
    pub reports: Reports,
    pub plan: PutPlan,
    tier: TierAge,
    epochs: Epochs,
    service_us: u32,
}

#[derive(Clone, Copy)]
struct InRam {
    handle: Handle,
    turn: u64,
    used: Duration,
}

impl FleetNode {
    pub fn new(ram_bytes: u64, nodes: usize, times: Option<FleetTimes>) -> Self {
        let mut guests = GuestPages::default();
        for owner in 0..nodes {
            let dropped = guests.greet(NodeId(owner as u64), 1);
            debug_assert!(dropped.is_ok_and(|dropped| dropped.is_empty()));
        }
        Self {
            ram_bytes,
            ram: HashMap::new(),
            order: S3Fifo::new(),
            ram_used: 0,
            stored: HashMap::new(),
            fates: HashMap::new(),
            placed: PlacedPages::new(PLACED_MAX),
            guests,
            reports: Reports::default(),
            plan: PutPlan::default(),
            tier: TierAge::default(),
            epochs: Epochs::new(None, Duration::ZERO),
            service_us: times.map_or(SERVICE_US, |times| (times.service_seconds * 1e6) as u32).max(1),
        }
    }

    /// Returns `true` if RAM has the object, and counts a use.
    pub fn hit(&mut self, object: Key, now: Duration) -> bool {
        let Some(found) = self.ram.get_mut(&object) else { return false };
        found.used = now;
        self.order.hit(found.handle);
        true
    }

    /// Records a page that came back, with its time.
    pub fn got_page(&mut self, seconds: Option<f64>) {
        self.epochs.requested(1);
        seconds.into_iter().for_each(|seconds| self.epochs.faulted(1, seconds));
    }

    /// Records an object that was read from disk, with its time.
    pub fn read_disk(&mut self, seconds: Option<f64>) {
        seconds.into_iter().for_each(|seconds| self.epochs.faulted(1, seconds));
    }

    /// Returns the load balancing rate in force.
    pub fn balance(&self, source: FleetBalance) -> f64 {
        match source {
            FleetBalance::Fixed(rate) => rate,
            FleetBalance::Tuned => self.epochs.b(),
        }
    }

    /// Forgets the fate of an object that comes back.
    pub fn forget(&mut self, object: Key) {
        self.fates.remove(&object);
    }

    /// Makes room for an own object: pages of others go first, then own objects, which are
    /// returned.
    pub fn make_room(&mut self, weight: u64, now: Duration) -> Vec<Evicted> {
        let mut left = Vec::new();
        while self.free() < weight {
            if self.guests.give_up(None).is_some() {
                continue;
            }
            let Some(evicted) = self.evict(now) else { break };
            left.push(evicted);
        }
        left
    }

    /// Puts an object into RAM.
    pub fn insert(&mut self, object: Key, weight: u64, now: Duration) {
        let (turn, _) = self.placed.begin(object);
        let handle = self.order.insert(object, weight);
        let before = self.ram.insert(object, InRam { handle, turn, used: now });
        debug_assert!(before.is_none(), "an object comes into RAM once");
        self.ram_used += weight;
        debug_assert_eq!(self.ram.len(), self.order.len());
    }

    fn evict(&mut self, now: Duration) -> Option<Evicted> {
        let victim = self.order.evict()?;
        let gone = self.ram.remove(&victim.key)?;
        self.ram_used -= victim.weight;
        let age = now.saturating_sub(gone.used);
        self.tier.evicted(age, now);
        Some((victim.key, victim.weight, age, gone.turn))
    }

    /// Makes room for a page of another node, as a running node does. Returns the number of the
    /// kind of memory that it replaces, and the own objects that left for it.
    pub fn room_for(
        &mut self,
        owner: NodeId,
        weight: u64,
        (age, now): (Duration, Duration),
    ) -> Option<(usize, Vec<Evicted>)> {
        let mut left = Vec::new();
        let choice = self.page_room(now).choose(weight, age);
        match choice {
            RoomChoice::Free => return Some((0, left)),
            RoomChoice::Own => {
                while self.free() < weight {
                    match self.evict(now) {
                        Some(evicted) => left.push(evicted),
                        None => return None,
                    }
                }
                return Some((1, left));
            }
            RoomChoice::Guests => {}
            RoomChoice::Declined => return None,
        }
        let mut given = 0;
        while given < weight {
            if self.guests.oldest_age(now)? <= age {
                return None;
            }
            let (_, before) = self.guests.usage();
            self.guests.give_up(Some(owner))?;
            given += before - self.guests.usage().1;
        }
        Some((2, left))
    }

    /// Records a page that another node has taken.
    pub fn is_placed(&mut self, object: Key, turn: u64, node: NodeId, weight: u64) {
        let bytes = u32::try_from(weight).unwrap_or(u32::MAX);
        let is_recorded = self.placed.placed(object, Place { node, turn, sum: turn, bytes });
        debug_assert!(is_recorded, "the object was on its way");
        self.epochs.requested(1);
    }

    /// Records that no node takes an object.
    pub fn stays(&mut self, object: Key, turn: u64, fate: FleetSource) {
        self.placed.stays_away(object, turn);
        self.fates.insert(object, fate);
    }

    /// Returns the report of this node about itself.
    pub fn report(&self, now: Duration) -> ServerReport {
        let told = self.reports.fresh(now);
        let room = self.page_room(now);
        let age = room.next_age(SLACK);
        let youngest = told.iter().map(|(_, report)| report.age).min().unwrap_or(AGE_MAX);
        ServerReport {
            role: Role::of(age, told.iter().map(|(_, report)| report.age), true),
            age,
            spare_bytes: spare_bytes((room.free, room.held, self.ram_used), (age, youngest), room.most),
            most_permille: 800,
            unused_permille: 800,
            service_us: self.service_us,
        }
    }

    /// Makes the plan of the next second.
    pub fn make_plan(&mut self, role: Role, balance: FleetBalance, now: Duration) {
        self.epochs.tick(now);
        let rate = OwnRate {
            seconds_between: self.epochs.seconds_between(),
            global_nodes: self.reports.global_nodes(now, role == Role::Global),
        };
        let plan = PutPlan::new(&self.reports.fresh(now), rate, self.balance(balance));
        debug_assert!(plan.is_ok(), "{plan:?}");
        self.plan = plan.unwrap_or_default();
    }

    /// Returns the objects in the memory of this node, own ones and pages.
    pub fn objects(&self) -> impl Iterator<Item = Key> {
        let pages = self.guests.pages().map(|page| Key::from_bytes(page.to_le_bytes()));
        self.ram.keys().copied().chain(pages)
    }

    fn free(&self) -> u64 {
        self.ram_bytes.saturating_sub(self.ram_used + self.guests.usage().1)
    }

    fn page_room(&self, now: Duration) -> PageRoom {
        PageRoom {
            most: PageRoom::most_of(self.ram_bytes),
            held: self.guests.usage().1,
            free: self.free(),
            own_age: self.tier.age(now),
            oldest_guest: self.guests.oldest_age(now),
        }
    }
}

/// Most pages at other nodes.
const PLACED_MAX: usize = 1 << 18;

/// Bytes below their share from which pages replace pages of others.
const SLACK: u64 = 64 << 10;

/// Time of a server for a page, in microseconds.
const SERVICE_US: u32 = 100;

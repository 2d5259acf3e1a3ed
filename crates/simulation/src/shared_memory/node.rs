//! A node of the simulation of shared memory.

use super::{DISK_TIME, MemoryFault, MemorySettings};
use shoal_cluster::{
    GONE_MAX, MEMORY_VERSION, MemoryAnswer, MemoryAsk, MemoryMatter, MemoryRefusal, MemoryReply, PagePut,
    PagePuts, PutResult, PutResults,
};
use shoal_cooperation::NodeId;
use shoal_cooperation::directory::DigestTrust;
use shoal_cooperation::global_memory::{
    AGE_MAX, GuestPages, OwnRate, Place, PlacedPages, PutPlan, Reports, Role, ServerReport, TierAge,
    spare_bytes,
};
use shoal_core::{Key, mixed};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

/// Message to another node: receiver, bytes, number of the get.
type OutboundMessage = (usize, Vec<u8>, Option<u64>);

/// A node.
pub(super) struct MemoryNode {
    number: usize,
    pub life: u64,
    pub outbox: Vec<OutboundMessage>,
    nodes: usize,
    ram_pages: usize,
    /// Objects in RAM: version, turn, time of arrival, number of the last use.
    ram: HashMap<u64, InRam>,
    order: BTreeMap<u64, u64>,
    uses: u64,
    /// Objects on disk: others come from the origin.
    on_disk: HashSet<u64>,
    /// Latest version of each object that was changed.
    versions: HashMap<u64, u64>,
    placed: PlacedPages,
    guests: GuestPages<Vec<u8>>,
    reports: Reports,
    trust: HashMap<NodeId, DigestTrust>,
    tier: TierAge,
    plan: PutPlan,
    leaving: VecDeque<(u64, u64, u64, Duration)>,
    gets: BTreeMap<u64, PendingGet>,
    next_get: u64,
}

struct InRam {
    version: u64,
    turn: u64,
    since: Duration,
    used: u64,
}

/// Page that is asked for.
struct PendingGet {
    object: u64,
    least_version: u64,
    place: Place,
    began: Duration,
}

/// Matter of an answer, as its asker needs it to settle a put.
#[derive(Clone, Debug)]
pub(super) struct AnswerFacts {
    puts: Vec<(u64, u64)>,
    kind: u8,
}

/// Answer to a client, if a request has ended.
#[derive(Default)]
pub(super) struct ClientAnswer {
    pub body: Option<ClientBody>,
    pub is_wrong: bool,
}

/// ClientBody for a client.
pub(super) struct ClientBody {
    pub version: u64,
    pub least_version: u64,
    pub began: Duration,
    /// Time that is still to pass: that of the disk.
    pub beyond: Duration,
    pub from_disk: bool,
    pub from_peer: bool,
    pub in_vain: bool,
}

impl MemoryNode {
    pub fn new(number: usize, settings: &MemorySettings) -> Self {
        Self {
            number,
            life: 1,
            outbox: Vec::new(),
            nodes: settings.nodes,
            ram_pages: settings.ram,
            ram: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            on_disk: HashSet::new(),
            versions: HashMap::new(),
            placed: PlacedPages::new(PLACED_MAX),
            guests: GuestPages::default(),
            reports: Reports::default(),
            trust: HashMap::new(),
            tier: TierAge::default(),
            plan: PutPlan::default(),
            leaving: VecDeque::new(),
            gets: BTreeMap::new(),
            next_get: 0,
        }
    }

    /// Starts again: RAM, directories and guests are gone, the disk stays.
    pub fn restart(&mut self) {
        let (versions, on_disk) = (std::mem::take(&mut self.versions), std::mem::take(&mut self.on_disk));
        let settings = MemorySettings {
            seed: 0,
            nodes: self.nodes,
            objects: 0,
            ram: self.ram_pages,
            requests: 0,
            fault: MemoryFault::None,
            is_shared: true,
        };
        let life = self.life + 1;
        *self = Self { versions, on_disk, life, ..Self::new(self.number, &settings) };
    }

    /// Returns `true` if a client waits for a page.
    pub fn waits(&self) -> bool {
        !self.gets.is_empty()
    }

    /// Changes an object on disk, and purges the older version.
    pub fn change(&mut self, object: u64) {
        *self.versions.entry(object).or_default() += 1;
        if let Some(gone) = self.ram.remove(&object) {
            self.order.remove(&gone.used);
        }
        self.placed.end(key(object));
    }

    /// Answers a client from RAM or disk, or asks another node.
    pub fn request(&mut self, object: u64, now: Duration) -> ClientAnswer {
        let least_version = self.version(object);
        let began = now;
        let whole = |version, from_disk, from_peer| ClientBody {
            version,
            least_version,
            began,
            beyond: if from_disk { DISK_TIME } else { Duration::ZERO },
            from_disk,
            from_peer,
            in_vain: false,
        };
        if let Some(version) = self.ram.get(&object).map(|found| found.version) {
            self.touch(object);
            return ClientAnswer { body: Some(whole(version, false, false)), is_wrong: false };
        }
        if let Some(place) = self.placed.take(key(object)) {
            self.next_get += 1;
            self.gets.insert(self.next_get, PendingGet { object, least_version, place, began });
            let ask = self.ask(MemoryMatter::Get(page_of(object)), now);
            self.outbox.push((place.node.0 as usize, ask, Some(self.next_get)));
            return ClientAnswer::default();
        }
        let was_there = !self.on_disk.insert(object);
        self.bring_in(object, least_version, now);
        let body = ClientBody { from_disk: was_there, ..whole(least_version, true, false) };
        ClientAnswer { body: Some(body), is_wrong: false }
    }

    /// Ends a get that got no answer in time.
    pub fn late(&mut self, get: u64, now: Duration) -> ClientAnswer {
        let Some(getting) = self.gets.remove(&get) else { return ClientAnswer::default() };
        self.reports.forget(getting.place.node);
        self.read_disk(&getting, now)
    }

    /// Takes the answer of a node.
    pub fn answered(
        &mut self,
        from: usize,
        (bytes, get, reply): (&[u8], Option<u64>, AnswerFacts),
        now: Duration,
    ) -> ClientAnswer {
        let node = NodeId(from as u64);
        let Some(answer) = MemoryAnswer::decode(bytes, reply.kind, reply.puts.len()) else {
            return ClientAnswer::default();
        };
        self.reports.heard(node, answer.report(), now);
        for page in &answer.gone {
            self.placed.gone(Key::from_bytes(page.to_le_bytes()), node);
        }
        if let Ok(MemoryReply::Put(results)) = &answer.told {
            for ((object, turn), result) in reply.puts.iter().zip(results.iter()) {
                self.settle((*object, *turn), node, result);
            }
        }
        let Some(getting) = get.and_then(|get| self.gets.remove(&get)) else {
            return ClientAnswer::default();
        };
        let page = match answer.told {
            Ok(MemoryReply::Get(Some(page))) => Some(page),
            _ => None,
        };
        let is_wrong = page.is_some_and(|page| sum(page) != getting.place.sum);
        let version = page.filter(|_| !is_wrong).and_then(|page| read_page(page, getting.object));
        self.trust.entry(node).or_default().note(version.is_some(), now);
        let Some(version) = version else {
            return ClientAnswer { is_wrong, ..self.read_disk(&getting, now) };
        };
        if self.version(getting.object) != version {
            // Purged meanwhile.
            return self.read_disk(&getting, now);
        }
        self.bring_in(getting.object, version, now);
        let body = ClientBody {
            version,
            least_version: getting.least_version,
            began: getting.began,
            beyond: Duration::ZERO,
            from_disk: false,
            from_peer: true,
            in_vain: false,
        };
        ClientAnswer { body: Some(body), is_wrong: false }
    }

    fn read_disk(&mut self, getting: &PendingGet, now: Duration) -> ClientAnswer {
        let version = self.version(getting.object);
        self.bring_in(getting.object, version, now);
        let body = ClientBody {
            version,
            least_version: getting.least_version,
            began: getting.began,
            beyond: DISK_TIME,
            from_disk: true,
            from_peer: false,
            in_vain: true,
        };
        ClientAnswer { body: Some(body), is_wrong: false }
    }

    fn settle(&mut self, (object, turn): (u64, u64), node: NodeId, result: PutResult) {
        if result != PutResult::Kept {
            return self.placed.stays_away(key(object), turn);
        }
        let version = self.version(object);
        let page = page(object, version);
        debug_assert_eq!(read_page(&page, object), Some(version));
        let place = Place { node, turn, sum: sum(&page), bytes: page.len() as u32 };
        if self.ram.contains_key(&object) || !self.placed.placed(key(object), place) {
            self.placed.stays_away(key(object), turn);
        }
    }

    /// Answers an ask of another node.
    pub fn answer(
        &mut self,
        from: NodeId,
        bytes: &[u8],
        (fault, now): (MemoryFault, Duration),
    ) -> Option<(Vec<u8>, AnswerFacts)> {
        let ask = MemoryAsk::decode(bytes)?;
        let kind = ask.matter.kind();
        let mut report = self.report(now);
        if fault == MemoryFault::Lies {
            report =
                ServerReport { age: Duration::MAX, spare_bytes: u64::MAX, most_permille: u16::MAX, ..report };
        }
        self.reports.heard(from, ask.report, now);
        let mut puts = Vec::new();
        if self.guests.greet(from, ask.life).is_err() {
            let refused = MemoryAnswer::new(kind, &report, Err(MemoryRefusal::Unwanted)).encode();
            return Some((refused, AnswerFacts { puts, kind }));
        }
        let (held, codes): (_, Vec<u8>);
        let told = match &ask.matter {
            MemoryMatter::State { .. } => MemoryReply::State(MEMORY_VERSION),
            MemoryMatter::Put(pages) => {
                codes = pages.iter().map(|page| self.keep(from, &page, (fault, now)).code()).collect();
                puts = pages.iter().map(|page| (object_of(page.bytes), page.page as u64)).collect();
                MemoryReply::Put(PutResults::read(&codes)?)
            }
            MemoryMatter::Get(page) => {
                held = self.guests.take(from, *page).map(|mut bytes| {
                    if fault == MemoryFault::Lies {
                        bytes[8] ^= 1;
                    }
                    bytes
                });
                MemoryReply::Get(held.as_deref())
            }
            // Nodes of the simulation ask for one page at a time.
            MemoryMatter::Gets(_) => return None,
        };
        // The asker knows the turns of its pages; here they ride in the place of the sums.
        let puts = puts.into_iter().map(|(object, _)| (object, turn_of(&ask.matter, object))).collect();
        let gone = self.guests.take_gone(from, GONE_MAX);
        Some((
            MemoryAnswer::new(kind, &report, Ok(told)).with_gone(gone).encode(),
            AnswerFacts { puts, kind },
        ))
    }

    fn keep(&mut self, from: NodeId, page: &PagePut<'_>, (fault, now): (MemoryFault, Duration)) -> PutResult {
        if fault == MemoryFault::Fills {
            return PutResult::Declined;
        }
        if fault == MemoryFault::Forgets {
            return PutResult::Kept;
        }
        // Free memory, own objects that are older, guests that are older.
        if self.ram.len() + self.guests.usage().0 >= self.ram_pages {
            let is_own_older = page.age < self.tier.age(now);
            let is_guest_older = self.guests.oldest_age(now).is_some_and(|age| age > page.age);
            match self.guests.usage().0 * 4 < self.ram_pages * 3 && is_own_older {
                true => self.evict(now),
                false if is_guest_older => drop(self.guests.give_up(Some(from))),
                false => return PutResult::Declined,
            }
        }
        self.guests.put(from, page.page, page.bytes.to_vec(), (1, now.saturating_sub(page.age)));
        PutResult::Kept
    }

    /// Exchanges reports, makes the plan, and puts objects that have left RAM.
    pub fn tick(&mut self, now: Duration, draw: u64) {
        for node in (0..self.nodes).filter(|node| *node != self.number) {
            let ask = self.ask(MemoryMatter::State { newest: MEMORY_VERSION, dropped: Vec::new() }, now);
            self.outbox.push((node, ask, None));
        }
        let is_trusted = |node: NodeId| self.trust.get(&node).is_none_or(|trust| trust.is_trusted(now));
        let usable: Vec<_> =
            self.reports.fresh(now).into_iter().filter(|(node, _)| is_trusted(*node)).collect();
        let rate = OwnRate { seconds_between: 0.005, global_nodes: 1 };
        self.plan = PutPlan::new(&usable, rate, 0.5).expect("settings within their bounds");
        for number in 0..self.leaving.len() as u64 {
            let Some((object, version, turn, age)) = self.leaving.pop_front() else { break };
            let is_wanted = self.placed.is_on_its_way(key(object), turn)
                && !self.ram.contains_key(&object)
                && self.version(object) == version;
            let draw = (mixed(draw ^ number) >> 11) as f64 / (1u64 << 53) as f64;
            let Some(server) = self.plan.choose(age, draw, &[]).filter(|_| is_wanted) else {
                self.placed.stays_away(key(object), turn);
                continue;
            };
            let bytes = page(object, version);
            let put = PagePut { page: page_of(object), age, sum: turn, bytes: &bytes };
            let ask = self.ask(MemoryMatter::Put(PagePuts::Listed(&[put])), now);
            self.outbox.push((server.0 as usize, ask, None));
        }
    }

    /// Checks the bounds.
    pub fn check(&self) -> Result<(), String> {
        let (guests, _) = self.guests.usage();
        if self.ram.len() + guests > self.ram_pages + 1 {
            return Err(format!("node {} holds {} and {guests} pages", self.number, self.ram.len()));
        }
        if self.placed.usage().0 > PLACED_MAX || self.leaving.len() > LEAVING_MAX {
            return Err(format!("a table of node {} is beyond its bound", self.number));
        }
        Ok(())
    }

    fn version(&self, object: u64) -> u64 {
        self.versions.get(&object).copied().unwrap_or(0)
    }

    fn touch(&mut self, object: u64) {
        self.uses += 1;
        if let Some(found) = self.ram.get_mut(&object) {
            self.order.remove(&found.used);
            found.used = self.uses;
            self.order.insert(self.uses, object);
        }
    }

    fn bring_in(&mut self, object: u64, version: u64, now: Duration) {
        // Two requests may bring the same object in.
        if let Some(before) = self.ram.remove(&object) {
            self.order.remove(&before.used);
        }
        let (turn, _) = self.placed.begin(key(object));
        // Memory of other nodes' pages is taken back at once.
        while self.ram.len() + self.guests.usage().0 >= self.ram_pages {
            if self.guests.give_up(None).is_none() {
                self.evict(now);
            }
        }
        self.ram.insert(object, InRam { version, turn, since: now, used: 0 });
        self.touch(object);
        debug_assert_eq!(self.ram.len(), self.order.len(), "each object has a place in the order");
        debug_assert!(self.ram.len() <= self.ram_pages);
    }

    fn evict(&mut self, now: Duration) {
        let Some((_, object)) = self.order.pop_first() else { return };
        let Some(gone) = self.ram.remove(&object) else { return };
        debug_assert!(gone.since <= now);
        let age = now.saturating_sub(gone.since);
        self.tier.evicted(age, now);
        if self.leaving.len() < LEAVING_MAX && self.placed.leaves(key(object), gone.turn) {
            self.leaving.push_back((object, gone.version, gone.turn, age));
        }
    }

    fn report(&self, now: Duration) -> ServerReport {
        let told = self.reports.fresh(now);
        let age = self.tier.age(now);
        let youngest = told.iter().map(|(_, report)| report.age).min().unwrap_or(AGE_MAX);
        let (guests, own) = (self.guests.usage().0 as u64, self.ram.len() as u64);
        let free = (self.ram_pages as u64).saturating_sub(guests + own);
        ServerReport {
            role: Role::of(age, told.iter().map(|(_, report)| report.age), true),
            age,
            spare_bytes: spare_bytes((free, guests, own), (age, youngest), self.ram_pages as u64),
            most_permille: 700,
            unused_permille: 600,
            service_us: 50,
        }
    }

    fn ask(&self, matter: MemoryMatter<'_>, now: Duration) -> Vec<u8> {
        let from = NodeId(self.number as u64);
        MemoryAsk { from, life: self.life, purges: 0, report: self.report(now), matter }.encode()
    }
}

fn turn_of(matter: &MemoryMatter<'_>, object: u64) -> u64 {
    let MemoryMatter::Put(pages) = matter else { return 0 };
    pages.iter().find(|page| object_of(page.bytes) == object).map_or(0, |page| page.sum)
}

fn key(object: u64) -> Key {
    Key::unkeyed(&object.to_le_bytes())
}

fn page_of(object: u64) -> u128 {
    u128::from_le_bytes(key(object).to_bytes())
}

fn page(object: u64, version: u64) -> Vec<u8> {
    [object.to_le_bytes(), version.to_le_bytes()].concat()
}

fn object_of(page: &[u8]) -> u64 {
    page.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn read_page(page: &[u8], object: u64) -> Option<u64> {
    let version = u64::from_le_bytes(page.get(8..)?.first_chunk().copied()?);
    (object_of(page) == object).then_some(version)
}

fn sum(page: &[u8]) -> u64 {
    Key::unkeyed(page).low()
}

/// Most pages at other nodes, and on their way.
const PLACED_MAX: usize = 500;
const LEAVING_MAX: usize = 200;

//! The server's side: keeps pages of other nodes, and returns them.
//!
//! A page comes in if the memory that it replaces is older: free memory, then objects of this node
//! that nobody has used for longer, then older pages of other nodes. A node that has too much to do
//! refuses. All is done at once, without waiting.

use super::{CPU_CAP, ClusterMemory, HeldPage, held_weight};
use bytes::Bytes;
use shoal_cluster::{
    CallError, CallFuture, Caller, GONE_MAX, MEMORY_CALL, MEMORY_VERSION, MemoryAnswer, MemoryAsk,
    MemoryMatter, MemoryRefusal, MemoryReply, PAGE_BYTES_MAX, PagePut, PeerService, PutResult,
};
use shoal_cooperation::NodeId;
use shoal_cooperation::global_memory::{PageRoom, RoomChoice, ServerReport};
use shoal_cooperation::invalidation::Coverage;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

impl PeerService for ClusterMemory {
    fn answer(&self, from: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
        let is_known = name == MEMORY_CALL;
        Box::pin(async move {
            if !is_known {
                return Err(CallError::Unknown);
            }
            self.answer_ask(&from, &body)
        })
    }
}

impl ClusterMemory {
    fn answer_ask(&self, from: &Caller, body: &Bytes) -> Result<Bytes, CallError> {
        let began = Instant::now();
        let ask = MemoryAsk::decode(body).ok_or(CallError::Malformed("a malformed ask for memory"))?;
        if !self.is_of(from, ask.from) {
            return Err(CallError::Refused("the ask names another node than it comes from".into()));
        }
        self.heard(ask.from, ask.report);
        self.heard_life(ask.from, ask.life);
        let own: ServerReport = **self.own.load();
        let answer = |told: Result<MemoryReply<'_>, MemoryRefusal>| {
            let gone = self.guests.lock().take_gone(ask.from, GONE_MAX);
            Bytes::from(MemoryAnswer::new(ask.matter.kind(), &own, told).with_gone(gone).encode())
        };
        if !self.is_on() {
            return Ok(answer(Err(MemoryRefusal::Off)));
        }
        let Ok(earlier) = self.guests.lock().greet(ask.from, ask.life) else {
            return Ok(answer(Err(MemoryRefusal::Unwanted)));
        };
        drop(earlier);
        let (answer, requests) = match &ask.matter {
            MemoryMatter::State { newest, dropped } => {
                let pages: Vec<HeldPage> = {
                    let mut guests = self.guests.lock();
                    dropped.iter().filter_map(|page| guests.take(ask.from, *page)).collect()
                };
                drop(pages);
                return Ok(answer(Ok(MemoryReply::State(MEMORY_VERSION.min(*newest)))));
            }
            MemoryMatter::Put(pages) => (answer(self.keep_pages(&ask, pages)), pages.len()),
            MemoryMatter::Get(page) => {
                let held = self.guests.lock().take(ask.from, *page);
                match held.is_some() {
                    true => self.metrics.memory_served_hit.increment(),
                    false => self.metrics.memory_served_gone.increment(),
                }
                (answer(Ok(MemoryReply::Get(held.as_ref().map(|held| &held.bytes[..])))), 1)
            }
        };
        self.load.served(began.elapsed(), u32::try_from(requests).unwrap_or(u32::MAX));
        Ok(answer)
    }

    /// Forgets the pages at a node that has started again: it has forgotten them, too.
    fn heard_life(&self, node: NodeId, life: u64) {
        let before = {
            let mut peers = self.peers.lock();
            let known = peers.entry(node).or_default();
            let latest = life.max(known.life);
            std::mem::replace(&mut known.life, latest)
        };
        if before != 0 && before < life {
            self.placed.lock().keep(|other| other != node);
        }
    }

    /// Returns `true` if the caller is at the address of the member that it says it is.
    fn is_of(&self, from: &Caller, node: NodeId) -> bool {
        let Some(handle) = self.handle.upgrade() else { return false };
        let members = handle.members();
        let address = members.view.member(node).map(|member| member.address.ip().to_canonical());
        node != self.node && address == Some(from.address.ip().to_canonical())
    }

    /// Keeps pages, each if it is worth more than the memory that it replaces.
    fn keep_pages(
        &self,
        ask: &MemoryAsk<'_>,
        pages: &[PagePut<'_>],
    ) -> Result<MemoryReply<'static>, MemoryRefusal> {
        if self.load.used() >= CPU_CAP {
            self.metrics.memory_refused_busy.increment();
            return Err(MemoryRefusal::Busy);
        }
        if self.knows_more(ask.purges) {
            self.metrics.memory_refused_behind.increment();
            return Err(MemoryRefusal::Behind);
        }
        let results = pages.iter().map(|page| self.keep_page(ask.from, page)).collect();
        Ok(MemoryReply::Put(results))
    }

    /// Returns `true` if this node has purges that the asker lacks: its page may be purged already.
    fn knows_more(&self, theirs: u64) -> bool {
        let Some(handle) = self.handle.upgrade() else { return true };
        let Some(purges) = handle.invalidation() else { return theirs != 0 };
        purges.vector_hash() != theirs && purges.covers(theirs) == Coverage::Covered
    }

    fn keep_page(&self, owner: NodeId, page: &PagePut<'_>) -> PutResult {
        if xxh3_64(page.bytes) != page.sum {
            self.metrics.memory_kept_wrong.increment();
            return PutResult::Wrong;
        }
        let now = self.now();
        let weight = held_weight(page.bytes.len());
        let Some(charge) = self.room_for(owner, weight, (page.age, now)) else {
            self.metrics.memory_kept_declined.increment();
            return PutResult::Declined;
        };
        debug_assert!(page.bytes.len() <= PAGE_BYTES_MAX, "longer pages are refused");
        let held = HeldPage { bytes: Bytes::copy_from_slice(page.bytes), _charge: charge };
        let used = now.saturating_sub(page.age);
        let before = self.guests.lock().put(owner, page.page, held, (weight, used));
        drop(before);
        self.metrics.memory_kept.increment();
        PutResult::Kept
    }

    /// Returns the memory of this node, as a page finds it.
    pub(super) fn page_room(&self, now: Duration) -> PageRoom {
        let own_age = self.tier_age.lock().age(now);
        let (limit, free, _) = self.room.usage();
        let guests = self.guests.lock();
        PageRoom {
            most: PageRoom::most_of(limit),
            held: guests.usage().1,
            free,
            own_age,
            oldest_guest: guests.oldest_age(now),
        }
    }

    /// Charges a page of this age, if the memory for it is free or older.
    fn room_for(
        &self,
        owner: NodeId,
        weight: u64,
        (age, now): (Duration, Duration),
    ) -> Option<shoal_cache::shared_memory::GuestCharge> {
        match self.page_room(now).choose(weight, age) {
            RoomChoice::Free => return self.room.charge(weight, false),
            RoomChoice::Declined => return None,
            RoomChoice::Own => {
                if let Some(charge) = self.room.charge(weight, true) {
                    return Some(charge);
                }
            }
            RoomChoice::Guests => {}
        }
        let mut given = 0;
        while given < weight {
            let oldest = self.guests.lock().oldest_age(now)?;
            if oldest <= age {
                return None;
            }
            let page = self.guests.lock().give_up(Some(owner))?;
            given += page.weight();
        }
        self.room.charge(weight, false)
    }
}

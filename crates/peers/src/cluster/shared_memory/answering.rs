//! The server's side: keeps pages of other nodes, and returns them.
//!
//! A page comes in if the memory that it replaces is older: free memory, then objects of this node
//! that nobody has used for longer, then older pages of other nodes. A node that has too much to do
//! refuses. All is done at once, without waiting, in the loop of the connection that the message
//! came on. A put allocates its pages, and a get nothing: the answer goes where the loop sends
//! from.

use super::{CPU_CAP, ClusterMemory, HeldPage, held_weight};
use bytes::Bytes;
use shoal_cluster::{
    CallError, CallFuture, Caller, GETS_BYTES_MAX, GETS_MAX, GONE_MAX, MEMORY_CALL, MEMORY_VERSION,
    MemoryAnswer, MemoryAsk, MemoryMatter, MemoryRefusal, MemoryReply, PAGE_BYTES_MAX, PAGES_MAX,
    PageAnswers, PageNumber, PagePut, PagePuts, PeerService, PutResult, PutResults,
};
use shoal_cooperation::NodeId;
use shoal_cooperation::global_memory::{PageRoom, RoomChoice, ServerReport};
use shoal_cooperation::invalidation::Coverage;
use std::net::IpAddr;
use std::time::{Duration, Instant};

impl PeerService for ClusterMemory {
    fn answer(&self, from: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
        let is_known = name == MEMORY_CALL;
        Box::pin(async move {
            if !is_known {
                return Err(CallError::Unknown);
            }
            let mut answer = Vec::new();
            self.answer_message(from.address.ip(), &body, &mut answer)?;
            self.metrics.memory_messages_task.increment();
            Ok(answer.into())
        })
    }
}

impl ClusterMemory {
    /// Answers a message in the loop of its connection, at the end of `out`. Returns `false`, and
    /// has changed nothing, if the message is refused.
    pub fn try_message(&self, from: IpAddr, message: &[u8], out: &mut Vec<u8>) -> bool {
        let is_answered = self.answer_message(from, message, out).is_ok();
        self.metrics.memory_messages_at_once.add(u64::from(is_answered));
        is_answered
    }

    /// Answers a message that came from this address, at the end of `out`.
    ///
    /// # Errors
    /// If the message is refused. Then it has changed nothing, and `out` is as before.
    fn answer_message(&self, from: IpAddr, message: &[u8], out: &mut Vec<u8>) -> Result<(), CallError> {
        let began = Instant::now();
        let ask = MemoryAsk::decode(message).ok_or(CallError::Malformed("a malformed ask for memory"))?;
        if !self.is_of(from, ask.from) {
            return Err(CallError::Refused("the ask names another node than it comes from".into()));
        }
        let now = began.saturating_duration_since(self.started);
        self.heard_ask(&ask, now);
        let own: ServerReport = **self.own.load();
        if !self.is_on() {
            self.end_answer(&ask, &own, (Err(MemoryRefusal::Off), out));
            return Ok(());
        }
        let Ok(earlier) = self.guests.lock().greet(ask.from, ask.life) else {
            self.end_answer(&ask, &own, (Err(MemoryRefusal::Unwanted), out));
            return Ok(());
        };
        drop(earlier);
        let requests = match &ask.matter {
            MemoryMatter::State { newest, dropped } => {
                let pages: Vec<HeldPage> = {
                    let mut guests = self.guests.lock();
                    dropped.iter().filter_map(|page| guests.take(ask.from, *page)).collect()
                };
                drop(pages);
                let version = MEMORY_VERSION.min(*newest);
                self.end_answer(&ask, &own, (Ok(MemoryReply::State(version)), out));
                return Ok(());
            }
            MemoryMatter::Put(pages) => {
                let mut codes = [PutResult::Declined.code(); PAGES_MAX];
                let told = self.keep_pages(&ask, (pages, now), &mut codes);
                self.end_answer(&ask, &own, (told, out));
                pages.len()
            }
            MemoryMatter::Get(page) => {
                self.return_pages(&ask, &own, (&[page.to_le_bytes()], out));
                1
            }
            MemoryMatter::Gets(pages) => {
                self.return_pages(&ask, &own, (pages, out));
                pages.len()
            }
        };
        self.load.served(began.elapsed(), u32::try_from(requests).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Writes an answer, with the pages that were given up.
    fn end_answer(
        &self,
        ask: &MemoryAsk<'_>,
        own: &ServerReport,
        (told, out): (Result<MemoryReply<'_>, MemoryRefusal>, &mut Vec<u8>),
    ) {
        let gone = self.guests.lock().take_gone(ask.from, GONE_MAX);
        MemoryAnswer::new(ask.matter.kind(), own, told).with_gone(gone).write(out);
    }

    /// Takes pages out for their owner, and writes them into the answer. Pages beyond the bytes of
    /// an answer stay.
    fn return_pages(
        &self,
        ask: &MemoryAsk<'_>,
        own: &ServerReport,
        (wanted, out): (&[PageNumber], &mut Vec<u8>),
    ) {
        debug_assert!(wanted.len() <= GETS_MAX, "longer messages are refused");
        let mut held: [Option<HeldPage>; GETS_MAX] = [const { None }; GETS_MAX];
        let gone = {
            let (mut guests, mut bytes) = (self.guests.lock(), 0);
            for (place, page) in held.iter_mut().zip(wanted) {
                if bytes >= GETS_BYTES_MAX {
                    break;
                }
                *place = guests.take(ask.from, u128::from_le_bytes(*page));
                bytes += place.as_ref().map_or(0, |page| page.bytes.len());
            }
            guests.take_gone(ask.from, GONE_MAX)
        };
        let held = &held[..wanted.len().min(GETS_MAX)];
        let hits = held.iter().flatten().count() as u64;
        self.metrics.memory_served_hit.add(hits);
        self.metrics.memory_served_gone.add(held.len() as u64 - hits);
        let mut pages = [None; GETS_MAX];
        for (page, held) in pages.iter_mut().zip(held) {
            *page = held.as_ref().map(|held| &held.bytes[..]);
        }
        let told = match ask.matter {
            MemoryMatter::Gets(_) => MemoryReply::Gets(PageAnswers::Listed(&pages[..held.len()])),
            _ => MemoryReply::Get(pages[0]),
        };
        MemoryAnswer::new(ask.matter.kind(), own, Ok(told)).with_gone(gone).write(out);
    }

    /// Records the report of the asker. Forgets the pages at a node that has started again: it has
    /// forgotten them, too.
    fn heard_ask(&self, ask: &MemoryAsk<'_>, now: Duration) {
        self.reports.lock().heard(ask.from, ask.report, now);
        let before = {
            let mut peers = self.peers.lock();
            let known = peers.entry(ask.from).or_default();
            known.heard = Some(now);
            let latest = ask.life.max(known.life);
            std::mem::replace(&mut known.life, latest)
        };
        if before != 0 && before < ask.life {
            self.placed.lock().keep(|other| other != ask.from);
        }
    }

    /// Returns `true` if the caller is at the address of the member that it says it is.
    fn is_of(&self, from: IpAddr, node: NodeId) -> bool {
        let Some(handle) = self.handle.upgrade() else { return false };
        let members = handle.members();
        let address = members.view.member(node).map(|member| member.address.ip().to_canonical());
        node != self.node && address == Some(from.to_canonical())
    }

    /// Keeps pages, each if it is worth more than the memory that it replaces. The results go to
    /// `codes`.
    fn keep_pages<'c>(
        &self,
        ask: &MemoryAsk<'_>,
        (pages, now): (&PagePuts<'_>, Duration),
        codes: &'c mut [u8; PAGES_MAX],
    ) -> Result<MemoryReply<'c>, MemoryRefusal> {
        if self.load.used() >= CPU_CAP {
            self.metrics.memory_refused_busy.increment();
            return Err(MemoryRefusal::Busy);
        }
        if self.knows_more(ask.purges) {
            self.metrics.memory_refused_behind.increment();
            return Err(MemoryRefusal::Behind);
        }
        for (code, page) in codes.iter_mut().zip(pages.iter()) {
            *code = self.keep_page(ask.from, &page, now).code();
        }
        let results = PutResults::read(&codes[..pages.len().min(PAGES_MAX)]);
        Ok(MemoryReply::Put(results.expect("codes of results")))
    }

    /// Returns `true` if this node has purges that the asker lacks: its page may be purged already.
    fn knows_more(&self, theirs: u64) -> bool {
        let Some(handle) = self.handle.upgrade() else { return true };
        let Some(purges) = handle.invalidation() else { return theirs != 0 };
        purges.vector_hash() != theirs && purges.covers(theirs) == Coverage::Covered
    }

    /// Keeps a page, unchecked. Its owner alone gets it, and compares it with a sum of its own.
    fn keep_page(&self, owner: NodeId, page: &PagePut<'_>, now: Duration) -> PutResult {
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
        let (limit, free) = self.room.free();
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

//! Putpage: offers objects that leave RAM to other nodes, and exchanges reports with them.
//!
//! One thread does this, in rounds. A round has a message for each node that is drawn, with pages
//! of [`MESSAGE_BYTES`] in all, or one longer page. A node that declines a page, or has too much to
//! do, is left out, and another is drawn, twice at most.

use super::{ClusterMemory, PutCandidate, ROUND_COPIES, page_number, set_gauge};
use crate::cluster::{ClusterHandle, LinkCall, MessageLink, PeerNode};
use shoal_cache::shared_memory::GuestCharge;
use shoal_cluster::{
    CallError, DROPPED_MAX, GETS_VERSION, MEMORY_CALL, MEMORY_VERSION, MemoryAnswer, MemoryMatter,
    MemoryRefusal, MemoryReply, PAGE_BYTES_MAX, PAGES_MAX, PagePut, PagePuts, PutResult,
};
use shoal_cooperation::global_memory::{
    AGE_MAX, OwnRate, PageRoom, Place, PutPlan, Role, ServerReport, most_for_others, spare_bytes,
};
use shoal_cooperation::{MemberState, NodeId};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use xxhash_rust::xxh3::xxh3_64;

/// Works until the node has ended.
pub(super) async fn work(memory: Weak<ClusterMemory>, wake: Arc<Notify>) {
    let mut due = Instant::now();
    loop {
        let waits = |memory: Arc<ClusterMemory>| !memory.queue.lock().objects.is_empty();
        if !memory.upgrade().is_some_and(waits) {
            tokio::select! {
                () = wake.notified() => {}
                () = sleep_until(due) => {}
            }
        }
        let Some(memory) = memory.upgrade() else { return };
        if Instant::now() >= due {
            due = Instant::now() + TICK;
            memory.tick().await;
        }
        memory.gather(&wake).await;
        let Some(handle) = memory.handle.upgrade() else { return };
        memory.put_some(&handle).await;
    }
}

/// Pages for one node, with their objects.
struct Parcel {
    peer: Arc<PeerNode>,
    pages: Vec<(PutCandidate, Vec<u8>)>,
    bytes: usize,
}

/// Object of which the page is on its way.
struct SentPage {
    outgoing: PutCandidate,
    /// Keyed hash of the page.
    sum: u64,
    /// Length of the page.
    bytes: u32,
}

impl ClusterMemory {
    /// Does the work of a second: reads meters, exchanges reports, makes the plan.
    async fn tick(self: &Arc<Self>) {
        let Some(handle) = self.handle.upgrade() else { return };
        let now = self.now();
        self.load.read(now);
        self.own.store(Arc::new(self.own_report(now)));
        self.leave_gone_members(&handle);
        self.epochs.lock().tick(now);
        self.adapt_reserve(true);
        if self.is_on() {
            self.exchange_reports(&handle).await;
            self.make_plan();
        }
        self.show();
    }

    fn own_report(&self, now: Duration) -> ServerReport {
        let told = self.reports.lock().fresh(now);
        let age = self.next_age(now);
        let (used, for_others) = (self.load.used(), self.load.for_others());
        let most_used = most_for_others(super::CPU_CAP, used - for_others);
        let has_time = used < super::CPU_CAP;
        let youngest = told.iter().map(|(_, report)| report.age).min().unwrap_or(AGE_MAX);
        let (limit, free, own) = self.room.usage();
        let (_, guests) = self.guests.lock().usage();
        let most = PageRoom::most_of(limit);
        let spare = match self.is_on() && has_time {
            true => spare_bytes((free, guests, own), (age, youngest), most),
            false => 0,
        };
        let permille = |share: f64| (share.clamp(0.0, 1.0) * 1e3) as u16;
        let service = self.load.service_seconds().map_or(super::SERVICE_US, |seconds| (seconds * 1e6) as u32);
        ServerReport {
            role: Role::of(age, told.iter().map(|(_, report)| report.age), has_time),
            age,
            spare_bytes: spare,
            most_permille: permille(most_used),
            unused_permille: permille(most_used - for_others),
            service_us: service.max(1),
        }
    }

    /// Returns the age of the memory that a page would replace: that of own objects, or of the
    /// oldest page of others if those have their share.
    fn next_age(&self, now: Duration) -> Duration {
        let (_, _, objects) = self.room.usage();
        let room = self.page_room(now);
        // Without own objects, pages of others alone can make room.
        let slack = if room.free + objects < FULL_BELOW { room.most } else { FULL_BELOW };
        room.next_age(slack)
    }

    /// Adapts the memory for objects on their way; `is_over` says that a second has passed. Called
    /// without a lock: growing takes memory of objects and of pages of others.
    pub(super) fn adapt_reserve(&self, is_over: bool) {
        let (size, charged, mut charge) = {
            let mut queue = self.queue.lock();
            let (before, in_use) = (queue.reserve.size(), queue.bytes);
            let size = queue.reserve.adapt(is_over).max(in_use);
            if size == before {
                return;
            }
            let Some(charge) = queue.charge.take() else { return };
            // From now on no object comes beyond the new size.
            queue.reserve.set(size.min(before));
            (size, queue.charged(size), charge)
        };
        let is_charged = charge.resize(charged);
        let mut queue = self.queue.lock();
        if !self.is_on() {
            queue.reserve.set(0);
            drop(queue);
            return;
        }
        if is_charged {
            queue.reserve.set(size);
        }
        queue.charge = Some(charge);
    }

    fn leave_gone_members(&self, handle: &ClusterHandle) {
        let members = handle.members();
        let is_member =
            |node: NodeId| members.view.member(node).is_some_and(|member| member.state != MemberState::Out);
        self.reports.lock().keep(is_member);
        self.peers.lock().retain(|node, _| is_member(*node));
        self.forgotten.lock().retain(|node, _| is_member(*node));
        self.placed.lock().keep(is_member);
        let gone = self.guests.lock().keep(is_member);
        drop(gone);
    }

    /// Exchanges reports with nodes that have not told theirs lately, or must hear of forgotten
    /// pages.
    async fn exchange_reports(self: &Arc<Self>, handle: &Arc<ClusterHandle>) {
        let now = self.now();
        let mut calls = JoinSet::new();
        let due: Vec<Arc<PeerNode>> = {
            let (members, mut peers) = (handle.members(), self.peers.lock());
            let forgotten = self.forgotten.lock();
            let others = members
                .view
                .members()
                .iter()
                .filter(|member| member.id != self.node && member.state != MemberState::Out);
            let mut is_due = |node: NodeId| {
                let known = peers.entry(node).or_default();
                let is_old = known.heard.is_none_or(|heard| now.saturating_sub(heard) >= REPORT_AFTER);
                let has_news = forgotten.get(&node).is_some_and(|pages| !pages.is_empty());
                now >= known.asked_after && (is_old || has_news || known.version.is_none())
            };
            let due: Vec<NodeId> = others.map(|member| member.id).filter(|node| is_due(*node)).collect();
            due.into_iter().filter_map(|node| members.peer(node).cloned()).collect()
        };
        for peer in due {
            if calls.len() >= CALLS_MAX {
                calls.join_next().await;
            }
            let (memory, handle) = (Arc::clone(self), Arc::clone(handle));
            calls.spawn(async move { memory.exchange_with(&handle, &peer).await });
        }
        while calls.join_next().await.is_some() {}
    }

    async fn exchange_with(&self, handle: &ClusterHandle, peer: &PeerNode) {
        let mut dropped = self.forgotten.lock().remove(&peer.node).unwrap_or_default();
        dropped.truncate(DROPPED_MAX);
        let ask = self.ask(handle, MemoryMatter::State { newest: MEMORY_VERSION, dropped });
        let call =
            timeout(handle.peer_timeout(), handle.call_peer(peer, MEMORY_CALL, ask.encode().into())).await;
        let answer = match &call {
            Ok(Ok(bytes)) => MemoryAnswer::decode(bytes, ask.matter.kind(), 0),
            _ => None,
        };
        if let Some(answer) = &answer {
            self.heard_answer(peer.node, answer);
        }
        let mut peers = self.peers.lock();
        let known = peers.entry(peer.node).or_default();
        known.version = match answer.map(|answer| answer.told) {
            Some(Ok(MemoryReply::State(version))) if version <= MEMORY_VERSION => Some(version),
            _ => None,
        };
        if known.version.is_none() {
            // An older node, one that has it off, or one that does not answer.
            let is_older = matches!(call, Ok(Err(CallError::Unknown)));
            known.asked_after = self.now() + if is_older { OLDER_PAUSE } else { REPORT_AFTER };
        }
    }

    /// Makes the plan for the next second from the reports of nodes that speak, are trusted, and
    /// are not slower than the disk.
    fn make_plan(&self) {
        let now = self.now();
        let (fresh, global_nodes) = {
            let reports = self.reports.lock();
            (reports.fresh(now), reports.global_nodes(now, self.own.load().role == Role::Global))
        };
        let is_usable = |node: NodeId| {
            let peers = self.peers.lock();
            peers.get(&node).is_some_and(|known| known.version.is_some() && known.switch.is_on(now))
        };
        let usable: Vec<(NodeId, ServerReport)> =
            fresh.into_iter().filter(|(node, _)| is_usable(*node) && self.is_trusted(*node, now)).collect();
        let (seconds_between, b) = {
            let epochs = self.epochs.lock();
            (epochs.seconds_between(), epochs.b())
        };
        let plan = PutPlan::new(&usable, OwnRate { seconds_between, global_nodes }, b);
        // Settings and reports are within their bounds.
        debug_assert!(plan.is_ok(), "{plan:?}");
        self.plan.store(Arc::new(plan.unwrap_or_default()));
    }

    /// Waits until the objects on their way fill a message, for [`GATHERING`] at most. A message
    /// costs its server as much as some pages.
    async fn gather(&self, wake: &Notify) {
        let end = Instant::now() + GATHERING;
        let goes = || {
            let queue = self.queue.lock();
            queue.objects.is_empty() || queue.is_full_message()
        };
        while !goes() && timeout_at(end, wake.notified()).await.is_ok() {}
    }

    /// Puts the pages of a round.
    async fn put_some(self: &Arc<Self>, handle: &Arc<ClusterHandle>) {
        self.adapt_reserve(false);
        let (parcels, _charge) = self.parcels(handle);
        let mut sending = JoinSet::new();
        for parcel in parcels.into_values() {
            let (memory, handle) = (Arc::clone(self), Arc::clone(handle));
            sending.spawn(async move { memory.send(&handle, parcel).await });
        }
        while sending.join_next().await.is_some() {}
    }

    /// Takes the objects of a round out of the queue and writes them as pages for the nodes that
    /// are drawn. The charge is for the copies of an object that is longer than a round.
    fn parcels(&self, handle: &ClusterHandle) -> (HashMap<NodeId, Parcel>, Option<GuestCharge>) {
        let (plan, members) = (self.plan.load_full(), handle.members());
        let (mut parcels, mut taken, mut charge) = (HashMap::<NodeId, Parcel>::new(), 0, None);
        let round = self.queue.lock().round_bytes();
        for _ in 0..OBJECTS_AT_ONCE {
            let Some(outgoing) = self.queue.lock().next(taken) else { break };
            let chosen = match self.is_worth_sending(&outgoing) {
                true => plan.choose(outgoing.age, self.draw(), &outgoing.refused),
                false => None,
            };
            let Some(peer) = chosen.and_then(|node| members.peer(node)).filter(|_| self.is_on()) else {
                self.gives_up(&outgoing);
                continue;
            };
            let weight = outgoing.object.weight();
            if weight > round {
                charge = self.room.charge(ROUND_COPIES * (weight - round), true);
                if charge.is_none() {
                    self.gives_up(&outgoing);
                    continue;
                }
            }
            let page = outgoing.object.page();
            if page.len() > PAGE_BYTES_MAX {
                self.gives_up(&outgoing);
                continue;
            }
            taken += weight.max(page.len() as u64);
            let fresh = || Parcel { peer: Arc::clone(peer), pages: Vec::new(), bytes: 0 };
            let parcel = parcels.entry(peer.node).or_insert_with(fresh);
            parcel.bytes += page.len();
            parcel.pages.push((outgoing, page));
            if parcel.pages.len() >= PAGES_MAX {
                break;
            }
        }
        (parcels, charge)
    }

    /// Returns `true` if the object may still be put: not removed, not back in RAM, and fresh.
    fn is_worth_sending(&self, outgoing: &PutCandidate) -> bool {
        let (key, turn) = (outgoing.object.key(), outgoing.object.turn());
        self.placed.lock().is_on_its_way(key, turn) && !self.room.is_in_ram(key) && outgoing.object.is_fresh()
    }

    /// Drops an object for good.
    fn gives_up(&self, outgoing: &PutCandidate) {
        self.placed.lock().stays_away(outgoing.object.key(), outgoing.object.turn());
        self.queue.lock().done(outgoing.object.weight());
        self.metrics.memory_puts_left.increment();
    }

    async fn send(&self, handle: &ClusterHandle, parcel: Parcel) {
        debug_assert!(parcel.bytes <= MESSAGE_BYTES + PAGE_BYTES_MAX, "a message is bounded");
        let Parcel { peer, pages, .. } = parcel;
        // A node of the first version checks its pages. Later ones leave that to the owner.
        let is_checked = self.version_of(peer.node).is_none_or(|version| version < GETS_VERSION);
        let puts = pages.iter().map(|(outgoing, bytes)| PagePut {
            page: page_number(outgoing.object.key()),
            age: outgoing.age,
            sum: if is_checked { xxh3_64(bytes) } else { 0 },
            bytes,
        });
        let puts: Vec<PagePut<'_>> = puts.collect();
        let ask = self.ask(handle, MemoryMatter::Put(PagePuts::Listed(&puts)));
        let (message, kind) = (ask.encode(), ask.matter.kind());
        drop(puts);
        // The pages are in the message: while it travels, their facts suffice.
        let sent: Vec<SentPage> = pages
            .into_iter()
            .map(|(outgoing, page)| SentPage { sum: self.sum(&page), bytes: page.len() as u32, outgoing })
            .collect();
        let call = MessageLink::send(handle, &peer, (LinkCall::Memory, &message));
        let call = timeout(handle.peer_timeout(), call).await;
        self.epochs.lock().requested(sent.len() as u64);
        let came = call.ok().and_then(Result::ok);
        let answer = came.as_ref().and_then(|came| MemoryAnswer::decode(came.bytes(), kind, sent.len()));
        if let Some(answer) = &answer {
            self.heard_answer(peer.node, answer);
        }
        let told = answer.map(|answer| answer.told);
        let is_sound = told.is_some();
        self.settle(peer.node, sent, told);
        if let Some(came) = came.filter(|_| is_sound) {
            came.keep(&peer);
        }
    }

    /// Records the results of a put. A page that was refused goes to another node.
    fn settle(
        &self,
        node: NodeId,
        sent: Vec<SentPage>,
        told: Option<Result<MemoryReply<'_>, MemoryRefusal>>,
    ) {
        let results: Vec<PutResult> = match told {
            Some(Ok(MemoryReply::Put(results))) => results.iter().collect(),
            Some(Err(MemoryRefusal::Busy | MemoryRefusal::Behind)) => {
                self.metrics.memory_puts_refused.add(sent.len() as u64);
                vec![PutResult::Declined; sent.len()]
            }
            _ => {
                // It does not answer, or has shared memory off now: others get pages until it
                // reports.
                self.metrics.memory_puts_failed.add(sent.len() as u64);
                self.reports.lock().forget(node);
                vec![PutResult::Declined; sent.len()]
            }
        };
        for (SentPage { mut outgoing, sum, bytes }, result) in sent.into_iter().zip(results) {
            if result != PutResult::Kept {
                outgoing.refused.push(node);
                match result == PutResult::Declined && outgoing.refused.len() < SERVERS_A_PAGE {
                    true => self.queue.lock().objects.push_back(outgoing),
                    false => self.gives_up(&outgoing),
                }
                continue;
            }
            let (key, turn) = (outgoing.object.key(), outgoing.object.turn());
            let place = Place { node, turn, sum, bytes };
            let is_current = !self.room.is_in_ram(key) && self.placed.lock().placed(key, place);
            match is_current {
                true => self.metrics.memory_puts_kept.increment(),
                false => {
                    self.metrics.memory_puts_late.increment();
                    self.placed.lock().stays_away(key, turn);
                    self.forget(key, Some(place));
                }
            }
            if let Some(known) = self.peers.lock().get_mut(&node) {
                known.row.puts += 1;
            }
            self.queue.lock().done(outgoing.object.weight());
        }
    }

    /// Shows the gauges.
    fn show(&self) {
        let (pages, bytes) = self.guests.lock().usage();
        set_gauge(&self.metrics.memory_guest_pages, pages as u64);
        set_gauge(&self.metrics.memory_guest_bytes, bytes);
        let (pages, bytes) = self.placed.lock().usage();
        set_gauge(&self.metrics.memory_placed_pages, pages as u64);
        set_gauge(&self.metrics.memory_placed_bytes, bytes);
        let charged = self.queue.lock().charge.as_ref().map_or(0, GuestCharge::bytes);
        set_gauge(&self.metrics.memory_on_way_bytes, charged);
        set_gauge(&self.metrics.memory_gets_under_way, u64::from(self.gets.load(Relaxed)));
    }
}

/// Interval of reports, plans and gauges.
const TICK: Duration = Duration::from_secs(1);

/// Bytes below their share, or of free and own memory, from which pages replace pages of others.
const FULL_BELOW: u64 = 64 << 10;

/// Longest time for which more objects are waited for before they are put.
const GATHERING: Duration = Duration::from_millis(16);

/// Time after which a report is asked for.
const REPORT_AFTER: Duration = Duration::from_secs(3);

/// Time for which a node that knows no shared memory is not asked: it may be upgraded.
const OLDER_PAUSE: Duration = Duration::from_secs(60);

/// Most calls at the same time.
const CALLS_MAX: usize = 8;

/// Bytes from which a message is sent.
pub(super) const MESSAGE_BYTES: usize = 256 << 10;

/// Most objects that are written as pages at once.
const OBJECTS_AT_ONCE: usize = 256;

/// Nodes that are offered a page.
const SERVERS_A_PAGE: usize = 2;

const _: () = assert!(MESSAGE_BYTES + PAGE_BYTES_MAX < shoal_cluster::CALL_BYTES_MAX);

//! Gets on their way: those that come up together share a message to the node.
//!
//! ```text
//!  requests that run in one turn of the worker ─► lane of the node ─► one message ─► pages
//! ```
//!
//! A get waits for no other one, and for no answer: the message leaves once the tasks that were
//! ready with it have run. Under load more tasks are ready, and messages have more pages. A message
//! has [`GETS_MAX`] pages and [`GETS_BYTES_MAX`] bytes of them at most. A node of an earlier
//! version gets a message for each page.

use super::getting::GetEnd;
use super::{ClusterMemory, page_number};
use crate::cluster::{LinkAnswer, LinkCall, MessageLink, PeerNode};
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_cluster::{
    CallError, GETS_BYTES_MAX, GETS_MAX, GETS_VERSION, MemoryAnswer, MemoryMatter, MemoryRefusal,
    MemoryReply, PageNumber,
};
use shoal_cooperation::global_memory::Place;
use shoal_core::Key;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Page that is asked for. It has left the directory.
#[derive(Clone, Copy)]
pub(super) struct WantedPage {
    /// Hash of the object's key.
    pub key: Key,
    /// Place of the page, and its sum.
    pub place: Place,
}

/// Page that a request waits for.
struct WaitingGet {
    page: WantedPage,
    told: oneshot::Sender<GetEnd>,
}

/// Gets for one node that leave together.
struct GetLane {
    peer: Arc<PeerNode>,
    /// Gets that wait for the message; `None` once they have left.
    waiting: Mutex<Option<Vec<WaitingGet>>>,
}

/// Lane that a task is about to take. If the task never runs, as at a shutdown, the gets fail.
struct LaneSeat(Arc<GetLane>);

thread_local! {
    /// Lanes of this thread that gets may join.
    static LANES: RefCell<Vec<Arc<GetLane>>> = const { RefCell::new(Vec::new()) };
}

/// Asks a node for a page, with all others that come up meanwhile.
pub(super) async fn bring(memory: &Arc<ClusterMemory>, peer: &Arc<PeerNode>, page: WantedPage) -> GetEnd {
    let (told, end) = oneshot::channel();
    if let Some(seat) = join(peer, WaitingGet { page, told }) {
        tokio::spawn(carry(Arc::clone(memory), seat));
    }
    end.await.unwrap_or(GetEnd::Failed)
}

/// Adds a get to the lane of its node. The first get of a lane also gets its seat.
fn join(peer: &Arc<PeerNode>, get: WaitingGet) -> Option<LaneSeat> {
    LANES.with_borrow_mut(|lanes| {
        lanes.retain(|lane| lane.waiting.lock().is_some());
        if let Some(lane) = lanes.iter().find(|lane| Arc::ptr_eq(&lane.peer, peer))
            && let Some(waiting) = &mut *lane.waiting.lock()
        {
            waiting.push(get);
            return None;
        }
        let lane = GetLane { peer: Arc::clone(peer), waiting: Mutex::new(Some(vec![get])) };
        let lane = Arc::new(lane);
        lanes.push(Arc::clone(&lane));
        Some(LaneSeat(lane))
    })
}

impl LaneSeat {
    /// Takes all gets of the lane, which ends.
    fn leave(&self) -> Vec<WaitingGet> {
        self.0.waiting.lock().take().unwrap_or_default()
    }
}

impl Drop for LaneSeat {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

/// Sends the gets of a lane. Requests that have ended meanwhile lose their pages, as an answer that
/// comes too late does.
async fn carry(memory: Arc<ClusterMemory>, seat: LaneSeat) {
    let (mut gets, peer) = (seat.leave(), Arc::clone(&seat.0.peer));
    drop(seat);
    let most = match memory.version_of(peer.node) {
        Some(version) if version >= GETS_VERSION => GETS_MAX,
        _ => 1,
    };
    while !gets.is_empty() {
        let count = message_pages(gets.iter().map(|get| get.page.place.bytes as usize), most);
        let rest = gets.split_off(count);
        let message = std::mem::replace(&mut gets, rest);
        match gets.is_empty() {
            true => send(&memory, &peer, message).await,
            // Further messages do not wait for this one.
            false => {
                let (memory, peer) = (Arc::clone(&memory), Arc::clone(&peer));
                drop(tokio::spawn(async move { send(&memory, &peer, message).await }));
            }
        }
    }
}

/// Returns the number of pages, of these lengths, that go in one message.
fn message_pages(lengths: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut bytes = 0;
    let fitting = lengths.take(most).take_while(|length| {
        bytes += length;
        bytes <= GETS_BYTES_MAX
    });
    fitting.count().max(1)
}

/// Sends one message, and tells the requests of its answer.
async fn send(memory: &ClusterMemory, peer: &Arc<PeerNode>, gets: Vec<WaitingGet>) {
    let pages: Vec<WantedPage> = gets.iter().map(|get| get.page).collect();
    let ends = memory.ask_for(peer, &pages).await;
    debug_assert_eq!(ends.len(), gets.len(), "an end for each get");
    for (get, end) in gets.into_iter().zip(ends) {
        // The request may have ended.
        let _ = get.told.send(end);
    }
}

impl ClusterMemory {
    /// Asks for pages in one message. Returns the end of each get.
    async fn ask_for(&self, peer: &Arc<PeerNode>, pages: &[WantedPage]) -> Vec<GetEnd> {
        debug_assert!((1..=GETS_MAX).contains(&pages.len()), "a message is bounded");
        let all = |end: fn() -> GetEnd| pages.iter().map(|_| end()).collect::<Vec<GetEnd>>();
        let (Some(handle), Some(patience)) = (self.handle.upgrade(), peer.admit()) else {
            return all(|| GetEnd::Failed);
        };
        let mut trial = peer.begin();
        let numbers: Vec<PageNumber> = pages.iter().map(|page| page.key.to_bytes()).collect();
        let matter = match pages {
            [page] => MemoryMatter::Get(page_number(page.key)),
            _ => MemoryMatter::Gets(&numbers),
        };
        let ask = self.ask(&handle, matter);
        let message = ask.encode();
        self.metrics.memory_get_messages.increment();
        let sending = MessageLink::send(&handle, peer, (LinkCall::Memory, &message));
        let answer = match timeout(patience, sending).await {
            Err(_) => {
                trial.timed_out(patience);
                return all(|| GetEnd::Failed);
            }
            Ok(Err(CallError::Unreachable(_))) => {
                trial.refused();
                return all(|| GetEnd::Failed);
            }
            Ok(Err(_)) => {
                trial.answered();
                return all(|| GetEnd::Failed);
            }
            Ok(Ok(answer)) => answer,
        };
        trial.answered();
        let ends = self.read_answer(peer, (pages, ask.matter.kind()), &answer);
        if let Some(ends) = ends {
            answer.keep(peer);
            return ends;
        }
        peer.lied();
        all(|| GetEnd::Wrong)
    }

    /// Reads an answer. Returns `None` if it is malformed.
    fn read_answer(
        &self,
        peer: &PeerNode,
        (pages, kind): (&[WantedPage], u8),
        answer: &LinkAnswer,
    ) -> Option<Vec<GetEnd>> {
        let answer = MemoryAnswer::decode(answer.bytes(), kind, pages.len())?;
        self.heard_answer(peer.node, &answer);
        let end = |page: &WantedPage, found: Option<&[u8]>| self.judge(peer, page, found);
        Some(match answer.told {
            Ok(MemoryReply::Get(found)) => pages.iter().map(|page| end(page, found)).collect(),
            Ok(MemoryReply::Gets(found)) => {
                pages.iter().zip(found.iter()).map(|(page, found)| end(page, found)).collect()
            }
            Err(MemoryRefusal::Off) => pages.iter().map(|_| GetEnd::Off).collect(),
            Ok(_) | Err(MemoryRefusal::Unwanted) => pages.iter().map(|_| GetEnd::Gone).collect(),
            Err(_) => pages.iter().map(|_| GetEnd::Failed).collect(),
        })
    }

    /// Returns the end of a get that this page, or none, has answered.
    fn judge(&self, peer: &PeerNode, wanted: &WantedPage, found: Option<&[u8]>) -> GetEnd {
        match found {
            None => GetEnd::Gone,
            // A copy: the connection's buffer serves the next message.
            Some(page) if self.sum(page) == wanted.place.sum => GetEnd::Page(Bytes::copy_from_slice(page)),
            Some(_) => {
                tracing::warn!(peer = %peer.name, "a peer returned another page than it got, and is set aside");
                peer.lied();
                GetEnd::Wrong
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_bounded_in_pages_and_bytes() {
        let pages = |lengths: &[usize], most| message_pages(lengths.iter().copied(), most);
        assert_eq!(pages(&[8192; 40], GETS_MAX), GETS_MAX);
        assert_eq!(pages(&[8192; 40], 1), 1, "a node of an earlier version");
        assert_eq!(pages(&[100 << 10; 3], GETS_MAX), 2);
        assert_eq!(pages(&[512 << 10, 1], GETS_MAX), 1, "a long page goes alone");
        assert_eq!(pages(&[1, 512 << 10], GETS_MAX), 1);
    }
}

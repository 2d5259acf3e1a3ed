//! Another node that puts pages of 8 KiB into this node's memory and asks for them, for counting
//! allocations and instructions.
//!
//! The messages are those that nodes send, and the connection loop is that of the listener for
//! peers. Only the socket is missing ([`super::rig`]).

use super::rig::{self, Rig};
use shoal_cluster::{MemoryAsk, MemoryMatter, PageNumber, PagePut, PagePuts};
use shoal_cooperation::global_memory::{Role, ServerReport};
use shoal_cooperation::{Member, MemberState, NodeId, View};
use shoal_core::KeySecret;
use shoal_message::Client;
use shoal_peers::cluster::ClusterHandle;
use shoal_settings::{Log, Settings, SharedMemory};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xxhash_rust::xxh3::xxh3_64;

/// A node that holds pages, and the next pages to put and to get.
pub struct PageRig {
    rig: Rig,
    _cluster: Arc<ClusterHandle>,
    next_put: AtomicU64,
    next_get: AtomicU64,
}

impl PageRig {
    /// Starts a node with memory for all pages.
    pub fn start() -> Self {
        let mut settings =
            Settings { log: Log { access: "none".into(), ..Log::default() }, ..Settings::default() };
        settings.cluster.name = "test".into();
        settings.cluster.peer = Some(OWN);
        settings.cluster.shared_memory = SharedMemory::Always;
        let cluster = ClusterHandle::new(&settings).expect("links").expect("a cluster");
        let members = [OWN, OTHER].map(member).into();
        cluster.set_view(Arc::new(View::new(members, KeySecret::NONE)));
        let rig = Rig::start_holder(settings, &cluster);
        Self { rig, _cluster: cluster, next_put: AtomicU64::new(0), next_get: AtomicU64::new(0) }
    }

    /// Puts this many pages, `together` in a message.
    pub fn put(&self, pages: u64, together: usize) {
        let before = self.rig.metrics.memory_kept.value();
        let first = self.next_put.fetch_add(pages, Relaxed);
        self.send(put_message(together), (PUT_PLACE, PUT_BYTES), (first, pages / together as u64, together));
        assert_eq!(self.rig.metrics.memory_kept.value() - before, pages, "all pages are kept");
    }

    /// Gets this many pages that were put, `together` in a message.
    pub fn get(&self, pages: u64, together: usize) {
        let before = self.rig.metrics.memory_served_hit.value();
        let first = self.next_get.fetch_add(pages, Relaxed);
        let message = match together {
            1 => ask(MemoryMatter::Get(0)),
            _ => ask(MemoryMatter::Gets(&vec![PageNumber::default(); together])),
        };
        let place = message.len() - 16 * together;
        self.send(message, (place, 16), (first, pages / together as u64, together));
        assert_eq!(self.rig.metrics.memory_served_hit.value() - before, pages, "all pages return");
    }

    /// Sends a message again and again on one connection. Each time it names the next pages, from
    /// `place` on, one in every `stride` bytes.
    fn send(&self, message: Vec<u8>, (place, stride): (usize, usize), sent: (u64, u64, usize)) {
        let head = format!(
            "POST /shoal/memory/ask HTTP/1.1\r\nHost: shoal\r\nContent-Length: {}\r\n\r\n",
            message.len()
        );
        let (next, left, together) = sent;
        let at_once = self.rig.metrics.memory_messages_at_once.value();
        let node = OtherNode {
            request: [head.as_bytes(), &message].concat(),
            pages: (head.len() + place, stride, together),
            next,
            left,
            read: 0,
            unanswered: false,
        };
        self.rig.runtime.block_on(self.rig.server.serve(node, client()));
        assert_eq!(self.rig.metrics.memory_messages_at_once.value() - at_once, left, "none needs a task");
    }
}

fn member(address: SocketAddr) -> Member {
    let name: Arc<str> = address.to_string().into();
    let (id, state) = (NodeId::named(&name), MemberState::In);
    Member { id, name, address, weight: 1.0, state, life: 1, level: 0 }
}

/// Returns the other node as the client of the listener for peers.
fn client() -> Client {
    Client { address: OTHER, listener: Client::PEER_LISTENER, ..rig::client() }
}

fn ask(matter: MemoryMatter<'_>) -> Vec<u8> {
    let report = ServerReport {
        role: Role::Global,
        age: Duration::from_secs(1),
        spare_bytes: 0,
        most_permille: 0,
        unused_permille: 0,
        service_us: 20,
    };
    MemoryAsk { from: member(OTHER).id, life: 1, purges: 0, report, matter }.encode()
}

fn put_message(together: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..PAGE_BYTES).map(|at| at as u8).collect();
    let page = PagePut { page: 0, age: Duration::from_secs(1), sum: xxh3_64(&bytes), bytes: &bytes };
    let message = ask(MemoryMatter::Put(PagePuts::Listed(&vec![page; together])));
    assert_eq!(message.len(), PUT_PLACE + together * PUT_BYTES, "the layout of the message");
    message
}

/// Another node, which sends its next message as soon as the answer has come.
struct OtherNode {
    request: Vec<u8>,
    /// Place of the first page's number, bytes to the next one, and the number of pages.
    pages: (usize, usize, usize),
    next: u64,
    left: u64,
    /// Bytes of the request that were read.
    read: usize,
    unanswered: bool,
}

impl AsyncRead for OtherNode {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unanswered {
            return Poll::Pending;
        }
        if self.read == 0 {
            if self.left == 0 {
                return Poll::Ready(Ok(()));
            }
            self.left -= 1;
            let (place, stride, together) = self.pages;
            for each in 0..together {
                let (at, page) = (place + each * stride, u128::from(self.next));
                self.request[at..at + 16].copy_from_slice(&page.to_le_bytes());
                self.next += 1;
            }
        }
        let count = buffer.remaining().min(self.request.len() - self.read);
        let (from, to) = (self.read, self.read + count);
        buffer.put_slice(&self.request[from..to]);
        self.read = to;
        if to == self.request.len() {
            (self.read, self.unanswered) = (0, true);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for OtherNode {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"), "an answer");
        self.unanswered = false;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Bytes of a page.
const PAGE_BYTES: usize = 8192;

/// Place of the first page in a put: after the head of the ask and the count.
const PUT_PLACE: usize = 53;

/// Bytes of a page in a put: number, age, sum, length, and the page.
const PUT_BYTES: usize = 36 + PAGE_BYTES;

const OWN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1)), 3131);
const OTHER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2)), 3131);

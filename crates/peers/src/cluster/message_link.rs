//! Links for frequent messages: connections of this thread to other nodes, each of which carries
//! one message at a time.
//!
//! The links between nodes make any request and read any response. Messages about hits and pages
//! are so frequent that they have a way of their own, with the head that they need and one buffer.
//! The connection's loop at the other node knows the head, and answers without a task. A node of an
//! earlier version answers the same request on its ordinary path. A kept connection is replaced
//! once if it turns out to be closed: a message may come twice.

use super::{ClusterHandle, PeerNode};
use crate::message::TunnelIo;
use shoal_cluster::{CALL_BYTES_MAX, CallError};
use std::cell::RefCell;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Call that goes over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCall {
    /// `objects/hits`.
    Hits,
    /// `memory/ask`.
    Memory,
}

/// Connection to a node.
pub struct MessageLink {
    io: Box<dyn TunnelIo>,
    /// Bytes of the message, then of the answer.
    buffer: Vec<u8>,
    is_kept: bool,
}

/// Answer to a message, in the buffer of its connection.
pub struct LinkAnswer {
    link: MessageLink,
    body: Range<usize>,
}

impl MessageLink {
    /// Sends a message to a node, and returns the answer.
    ///
    /// # Errors
    /// If the node cannot be reached, breaks off, or answers with another status than 200.
    pub async fn send(
        cluster: &ClusterHandle,
        peer: &Arc<PeerNode>,
        (call, message): (LinkCall, &[u8]),
    ) -> Result<LinkAnswer, CallError> {
        if message.len() > CALL_BYTES_MAX {
            return Err(CallError::Malformed("a message that is too large"));
        }
        let link = take(peer);
        let mut link = match link {
            Some(link) => link,
            None => Self::open(cluster, peer).await?,
        };
        let answered = link.exchange(call, message).await;
        let body = match answered {
            Err(LinkFault::Closed) if link.is_kept => {
                link = Self::open(cluster, peer).await?;
                link.exchange(call, message).await
            }
            answered => answered,
        };
        match body {
            Ok(body) => Ok(LinkAnswer { link, body }),
            Err(LinkFault::Status(404)) => Err(CallError::Unknown),
            Err(LinkFault::Status(status)) => Err(CallError::Refused(format!("status {status}"))),
            Err(LinkFault::Closed) => Err(CallError::Unreachable("the connection was closed".into())),
            Err(LinkFault::Malformed) => Err(CallError::Malformed("no answer to a message")),
        }
    }

    async fn open(cluster: &ClusterHandle, peer: &PeerNode) -> Result<Self, CallError> {
        let io = cluster.links().open_link(&peer.target).await.map_err(CallError::Unreachable)?;
        Ok(Self { io, buffer: Vec::new(), is_kept: false })
    }

    /// Sends a message. Returns the place of the answer in the buffer.
    async fn exchange(&mut self, call: LinkCall, message: &[u8]) -> Result<Range<usize>, LinkFault> {
        let closed = |_| LinkFault::Closed;
        self.buffer.clear();
        self.buffer.extend_from_slice(call.head());
        write!(self.buffer, "{}\r\n\r\n", message.len()).map_err(closed)?;
        self.buffer.extend_from_slice(message);
        self.io.write_all(&self.buffer).await.map_err(closed)?;
        self.io.flush().await.map_err(closed)?;
        self.buffer.clear();
        let mut whole = None;
        loop {
            let rest = whole.as_ref().map_or(0, |place: &Range<usize>| place.end - self.buffer.len());
            self.buffer.reserve(rest.clamp(READ_BYTES, READ_BYTES_MAX));
            if self.io.read_buf(&mut self.buffer).await.map_err(closed)? == 0 {
                return Err(LinkFault::Closed);
            }
            if whole.is_none() {
                whole = place_of_body(&self.buffer)?;
            }
            match &whole {
                Some(place) if self.buffer.len() == place.end => return Ok(place.clone()),
                Some(place) if self.buffer.len() > place.end => return Err(LinkFault::Malformed),
                _ => {}
            }
        }
    }
}

impl LinkAnswer {
    /// Returns the answer.
    pub fn bytes(&self) -> &[u8] {
        &self.link.buffer[self.body.clone()]
    }

    /// Keeps the connection for the next message to its node.
    pub fn keep(mut self, peer: &Arc<PeerNode>) {
        debug_assert_eq!(self.link.buffer.len(), self.body.end, "nothing else has come");
        self.link.is_kept = true;
        self.link.buffer.clear();
        self.link.buffer.shrink_to(BUFFER_BYTES_KEPT);
        // The thread may be ending.
        let _ = LINKS.try_with(|links| {
            let mut links = links.borrow_mut();
            // Nodes that have left, or have another address now, are not asked again.
            links.retain(|(node, _)| Arc::strong_count(node) > 1);
            if links.len() < LINKS_MAX {
                links.push((Arc::clone(peer), self.link));
            }
        });
    }
}

/// Message at the start of bytes that came, as this module writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingMessage<'a> {
    /// Call of the message.
    pub call: LinkCall,
    /// Bytes of the request: its head and the message.
    pub whole_bytes: usize,
    /// The message; `None` if more of it is still to come.
    pub body: Option<&'a [u8]>,
}

impl LinkCall {
    /// Returns the head of a request up to the value of Content-Length.
    fn head(self) -> &'static [u8] {
        match self {
            Self::Hits => b"POST /shoal/objects/hits HTTP/1.1\r\nHost: shoal\r\nContent-Length: ",
            Self::Memory => b"POST /shoal/memory/ask HTTP/1.1\r\nHost: shoal\r\nContent-Length: ",
        }
    }
}

impl<'a> IncomingMessage<'a> {
    /// Returns the message that these bytes begin with, if nothing follows it. Anything else, such
    /// as a head that is incomplete, takes the ordinary path.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let with_head = |call: LinkCall| Some((call, bytes.strip_prefix(call.head())?));
        let (call, rest) = with_head(LinkCall::Memory).or_else(|| with_head(LinkCall::Hits))?;
        let digits = rest.iter().take(LENGTH_DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
        let length: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let body = rest[digits..].strip_prefix(b"\r\n\r\n")?;
        if length > CALL_BYTES_MAX || body.len() > length {
            return None;
        }
        let whole_bytes = bytes.len() - body.len() + length;
        Some(Self { call, whole_bytes, body: (body.len() == length).then_some(body) })
    }
}

/// Reason why a message has no answer.
#[derive(Debug, PartialEq, Eq)]
enum LinkFault {
    /// The connection was closed or reset.
    Closed,
    /// Another status than 200.
    Status(u16),
    /// Bytes that are no answer.
    Malformed,
}

/// Takes a kept connection to a node.
fn take(peer: &Arc<PeerNode>) -> Option<MessageLink> {
    LINKS.with_borrow_mut(|links| {
        let at = links.iter().position(|(node, _)| Arc::ptr_eq(node, peer))?;
        Some(links.swap_remove(at).1)
    })
}

/// Returns the place of the body that these bytes begin with their head; `None` while the head is
/// incomplete.
fn place_of_body(bytes: &[u8]) -> Result<Option<Range<usize>>, LinkFault> {
    let Some(end) = bytes.windows(4).take(HEAD_BYTES_MAX).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX { Err(LinkFault::Malformed) } else { Ok(None) };
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| LinkFault::Malformed)?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    match status.ok_or(LinkFault::Malformed)? {
        200 => {}
        status => return Err(LinkFault::Status(status)),
    }
    let mut lengths = head.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    let length = lengths.next().filter(|_| lengths.next().is_none()).and_then(|text| text.parse().ok());
    let length: usize = length.filter(|length| *length <= CALL_BYTES_MAX).ok_or(LinkFault::Malformed)?;
    debug_assert!(end + 4 <= bytes.len(), "the head was found");
    Ok(Some(end + 4..end + 4 + length))
}

/// Most digits of a message's length.
const LENGTH_DIGITS_MAX: usize = 7;

/// Room for one read, and for one read of a long answer.
const READ_BYTES: usize = 16 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a head.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Bytes of a buffer that is kept between messages.
const BUFFER_BYTES_KEPT: usize = 256 << 10;

/// Connections that a worker keeps.
const LINKS_MAX: usize = 256;

thread_local! {
    /// Connections that no message uses now.
    static LINKS: RefCell<Vec<(Arc<PeerNode>, MessageLink)>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_as_they_are_written() {
        for call in [LinkCall::Hits, LinkCall::Memory] {
            let whole = [call.head(), b"3\r\n\r\nabc"].concat();
            let whole_bytes = whole.len();
            let found = IncomingMessage { call, whole_bytes, body: Some(b"abc") };
            assert_eq!(IncomingMessage::of(&whole), Some(found));
            for end in 0..whole_bytes - 3 {
                assert_eq!(IncomingMessage::of(&whole[..end]), None, "{end}");
            }
            for end in whole_bytes - 3..whole_bytes {
                let begun = IncomingMessage { call, whole_bytes, body: None };
                assert_eq!(IncomingMessage::of(&whole[..end]), Some(begun), "{end}");
            }
            assert_eq!(IncomingMessage::of(&[&whole[..], b"x"].concat()), None, "more follows");
            for odd in [
                "+3\r\n\r\nabc",
                "3\r\nVia: a\r\n\r\nabc",
                "12345678\r\n\r\n",
                "9999999\r\n\r\n",
                "\r\n\r\n",
                "3 \r\n\r\nabc",
            ] {
                assert_eq!(IncomingMessage::of(&[call.head(), odd.as_bytes()].concat()), None, "{odd}");
            }
        }
    }

    #[test]
    fn answers_are_framed_by_their_length() {
        let place = |text: &str| place_of_body(text.as_bytes());
        assert_eq!(place("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), Ok(Some(38..41)));
        assert_eq!(place("HTTP/1.1 200 OK\r\ncontent-length: 0000000003\r\n\r\n"), Ok(Some(47..50)));
        assert_eq!(place("HTTP/1.1 200 OK\r\nContent-Le"), Ok(None));
        assert_eq!(place("HTTP/1.1 404 Not Found\r\n\r\n"), Err(LinkFault::Status(404)));
        for text in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
            "lies\r\n\r\n",
            &"x".repeat(HEAD_BYTES_MAX + 1),
        ] {
            assert_eq!(place(text), Err(LinkFault::Malformed), "{text:.40}");
        }
    }
}

//! Messages of other nodes that the loop of their connection answers, without a task: asks for
//! hits, and pages of shared memory.
//!
//! ```text
//!  read loop ─► try_message ─┬─ objects/hits ─► HitHome       ─┐
//!                            ├─ memory/ask ───► ClusterMemory ─┴─► reply, behind its head
//!                            └─ anything else ─► ordinary path
//! ```
//!
//! A message has the very head that nodes write. A message that its service refuses takes the
//! ordinary path, which says why and counts it.

use super::hits_home::HitHome;
use crate::CacheEngine;
use crate::cluster::{ClusterHandle, IncomingMessage, LinkCall};
use crate::message::Client;
use std::net::SocketAddr;
use std::time::Instant;

/// Node that answers messages.
pub(crate) struct MessageDesk<'a>(pub &'a CacheEngine);

impl MessageDesk<'_> {
    /// Answers a message at the start of `bytes` if it is whole and as nodes write it. The reply is
    /// added to `replies`. Returns `false`, and adds nothing, for anything else.
    pub fn try_message(
        &self,
        bytes: &[u8],
        client: &Client,
        received: Instant,
        replies: &mut Vec<u8>,
    ) -> bool {
        let Some((cluster, message)) = self.message_of(bytes, client) else { return false };
        let Some(body) = message.body else { return false };
        let before = replies.len();
        replies.extend_from_slice(REPLY_HEAD);
        let start = replies.len();
        let is_answered = match message.call {
            LinkCall::Hits => self.answer_hits(body, (client.address, received), replies),
            LinkCall::Memory => cluster
                .shared_memory()
                .filter(|_| cluster.takes_messages(client.address))
                .is_some_and(|memory| memory.try_message(client.address.ip(), body, replies)),
        };
        if !is_answered {
            replies.truncate(before);
            return false;
        }
        // The length has ten digits, so that it can be written last.
        let mut length = replies.len() - start;
        for place in (start - 14..start - 4).rev() {
            replies[place] = b'0' + (length % 10) as u8;
            length /= 10;
        }
        debug_assert_eq!(length, 0, "an answer has at most ten digits of bytes");
        self.0.metrics.cluster_calls.increment();
        true
    }

    /// Returns the bytes of the request at the start of `bytes`, if it is a message of which more
    /// is to come.
    pub fn awaited_message(&self, bytes: &[u8], client: &Client) -> Option<usize> {
        let (cluster, message) = self.message_of(bytes, client)?;
        let is_cut = message.body.is_none() && cluster.takes_messages(client.address);
        is_cut.then_some(message.whole_bytes)
    }

    /// Returns the message of a member that `bytes` begin with.
    fn message_of<'b>(
        &self,
        bytes: &'b [u8],
        client: &Client,
    ) -> Option<(&ClusterHandle, IncomingMessage<'b>)> {
        debug_assert!(client.is_peer(), "clients send no messages");
        let message = IncomingMessage::of(bytes)?;
        let cluster = self.0.cluster.as_deref()?;
        let is_member = client.certificate.is_some() || cluster.members().has_address(client.address.ip());
        is_member.then_some((cluster, message))
    }

    fn answer_hits(&self, message: &[u8], from: (SocketAddr, Instant), replies: &mut Vec<u8>) -> bool {
        replies.reserve(message.len() + (16 << 10));
        match HitHome(self.0).answer_hits(message, std::mem::take(replies), from) {
            Ok(whole) => {
                *replies = whole;
                true
            }
            Err(unchanged) => {
                *replies = unchanged;
                false
            }
        }
    }
}

/// Head of the reply to a message; its length is written last.
const REPLY_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0000000000\r\n\r\n";

//! Sealed datagrams: one node seals its messages, the others open them.
//!
//! ```text
//! 0   'S'                       14  life, u64: the sender's start
//! 1   version, 1                22  counter, u64: never twice in a life
//! 2   key id, u32; 0: keyless   30  body under ChaCha20-Poly1305
//! 6   sender, u64               n   tag, 16 bytes
//! ```
//!
//! Numbers are big-endian. The bytes before the body, and the cluster's name, are associated data.
//! HKDF derives the key from the cluster's key, the sender and its life, and the counter is the
//! nonce. Without keys the body is in the clear, and the tag is a checksum of all of it.
//!
//! A datagram that does not open is dropped without an answer and counted by reason. A forged one
//! costs a derivation and a check, and leaves no trace in any table.

use super::replay::ReplayWindow;
use super::{ClusterKey, KeyRing};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use shoal_cooperation::NodeId;
use shoal_core::Key;
use std::collections::HashMap;
use std::sync::Arc;

/// Seals the datagrams of one node in one life.
pub struct Sealer {
    cluster: Arc<str>,
    sender: NodeId,
    life: u64,
    counter: u64,
    key: Option<(u32, LessSafeKey)>,
}

/// Opens the datagrams of other nodes. Remembers for each sender its life and a replay window.
pub struct Opener {
    cluster: Arc<str>,
    own: NodeId,
    keys: Vec<(u32, ClusterKey)>,
    senders: HashMap<NodeId, SenderState>,
    opened: u64,
}

/// Opened datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct PlainDatagram<'a> {
    /// Node that sealed it.
    pub sender: NodeId,
    /// Life of that node.
    pub life: u64,
    /// Message within.
    pub body: &'a [u8],
}

/// State of one sender.
struct SenderState {
    life: u64,
    window: ReplayWindow,
    /// Key of its last datagram.
    key: Option<(u32, LessSafeKey)>,
    /// Number of the last datagram of this sender, among all that were opened.
    last: u64,
}

impl Sealer {
    /// Makes a sealer that counts from `counter` on. The caller draws it: a node that starts twice
    /// in one millisecond must not use one nonce twice.
    pub fn new(ring: &KeyRing, sender: NodeId, life: u64, counter: u64) -> Self {
        let cluster = Arc::clone(ring.cluster());
        let key =
            ring.keys().first().map(|key| (key_id(key, &cluster), sender_key(key, &cluster, sender, life)));
        Self { cluster, sender, life, counter, key }
    }

    /// Returns the sealer with the keys of another ring, or for another life. Counting goes on.
    pub fn renewed(&self, ring: &KeyRing, life: u64) -> Self {
        Self::new(ring, self.sender, life, self.counter)
    }

    /// Seals a body of at most [`DATAGRAM_BYTES_MAX`] − [`SEAL_BYTES`] bytes.
    pub fn seal(&mut self, body: &[u8]) -> Vec<u8> {
        assert!(body.len() + SEAL_BYTES <= DATAGRAM_BYTES_MAX, "a body fits one datagram");
        self.counter = self.counter.checked_add(1).expect("2^63 datagrams take longer than a life");
        let key_id = self.key.as_ref().map_or(KEYLESS, |(id, _)| *id);
        let mut datagram = Vec::with_capacity(body.len() + SEAL_BYTES);
        datagram.extend([MAGIC, VERSION]);
        datagram.extend(key_id.to_be_bytes());
        datagram.extend(self.sender.0.to_be_bytes());
        datagram.extend(self.life.to_be_bytes());
        datagram.extend(self.counter.to_be_bytes());
        debug_assert_eq!(datagram.len(), HEAD_BYTES);
        let associated = associated(&datagram, &self.cluster);
        datagram.extend(body);
        let tag: [u8; TAG_BYTES] = match &self.key {
            None => checksum(&associated, body),
            Some((_, key)) => key
                .seal_in_place_separate_tag(
                    nonce(self.counter),
                    Aad::from(&associated),
                    &mut datagram[HEAD_BYTES..],
                )
                .expect("a datagram is shorter than the cipher's limit")
                .as_ref()
                .try_into()
                .expect("a tag of 16 bytes"),
        };
        datagram.extend(tag);
        datagram
    }
}

impl Opener {
    /// Makes an opener for the node `own`.
    pub fn new(ring: &KeyRing, own: NodeId) -> Self {
        let cluster = Arc::clone(ring.cluster());
        Self { keys: named_keys(ring), cluster, own, senders: HashMap::new(), opened: 0 }
    }

    /// Accepts the keys of another ring from now on. Windows stay.
    pub fn set_ring(&mut self, ring: &KeyRing) {
        self.keys = named_keys(ring);
        self.senders.values_mut().for_each(|sender| sender.key = None);
    }

    /// Opens a datagram in place.
    pub fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<PlainDatagram<'a>, DatagramFault> {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(DatagramFault::TooLong);
        }
        let Some((&mut head, rest)) = datagram.split_first_chunk_mut::<HEAD_BYTES>() else {
            return Err(DatagramFault::TooShort);
        };
        if rest.len() < TAG_BYTES {
            return Err(DatagramFault::TooShort);
        }
        match head {
            [MAGIC, VERSION, ..] => {}
            [MAGIC, ..] => return Err(DatagramFault::Version),
            _ => return Err(DatagramFault::Foreign),
        }
        let number = |at: usize| u64::from_be_bytes(*head[at..].first_chunk().expect("within the head"));
        let key_id = u32::from_be_bytes(*head[2..].first_chunk().expect("within the head"));
        let (sender, life, counter) = (NodeId(number(6)), number(14), number(22));
        if sender == self.own {
            return Err(DatagramFault::OwnName);
        }
        let known = self.senders.get(&sender);
        if known.is_some_and(|known| life < known.life) {
            return Err(DatagramFault::OldLife);
        }
        let associated = associated(&head, &self.cluster);
        let body_bytes = rest.len() - TAG_BYTES;
        let key = if self.keys.is_empty() {
            if key_id != KEYLESS {
                return Err(DatagramFault::UnknownKey);
            }
            let (body, tag) = rest.split_at(body_bytes);
            if checksum(&associated, body) != tag {
                return Err(DatagramFault::Forged);
            }
            None
        } else {
            if key_id == KEYLESS {
                return Err(DatagramFault::Unsealed);
            }
            let (_, key) = self.keys.iter().find(|(id, _)| *id == key_id).ok_or(DatagramFault::UnknownKey)?;
            let cached = known.filter(|known| known.life == life).and_then(|known| known.key.as_ref());
            let cached = cached.filter(|(id, _)| *id == key_id).map(|(_, key)| key.clone());
            let key = cached.unwrap_or_else(|| sender_key(key, &self.cluster, sender, life));
            key.open_in_place(nonce(counter), Aad::from(&associated), rest)
                .map_err(|_| DatagramFault::Forged)?;
            Some((key_id, key))
        };
        self.note(sender, life, counter, key)?;
        Ok(PlainDatagram { sender, life, body: &rest[..body_bytes] })
    }

    /// Notes a datagram with a valid seal. Refuses a counter that was seen.
    fn note(
        &mut self,
        sender: NodeId,
        life: u64,
        counter: u64,
        key: Option<(u32, LessSafeKey)>,
    ) -> Result<(), DatagramFault> {
        self.opened += 1;
        let last = self.opened;
        if let Some(known) = self.senders.get_mut(&sender).filter(|known| known.life == life) {
            known.key = key;
            known.last = last;
            return if known.window.take(counter) { Ok(()) } else { Err(DatagramFault::Replayed) };
        }
        if self.senders.len() >= SENDERS_MAX && !self.senders.contains_key(&sender) {
            let oldest = self.senders.iter().min_by_key(|(_, state)| state.last).map(|(id, _)| *id);
            oldest.and_then(|oldest| self.senders.remove(&oldest));
        }
        let window = ReplayWindow::first(counter);
        self.senders.insert(sender, SenderState { life, window, key, last });
        assert!(self.senders.len() <= SENDERS_MAX, "senders are bounded");
        Ok(())
    }
}

/// Reason why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatagramFault {
    /// Longer than [`DATAGRAM_BYTES_MAX`].
    TooLong,
    /// Shorter than the head and the tag.
    TooShort,
    /// No datagram of a cluster.
    Foreign,
    /// Version that this release does not speak.
    Version,
    /// Sealed with a key that is not in the ring.
    UnknownKey,
    /// Without a seal, though this node has a key.
    Unsealed,
    /// Tag that does not fit: changed, or of another cluster.
    Forged,
    /// From an earlier life of its sender.
    OldLife,
    /// Seen before, or too old to know.
    Replayed,
    /// Sealed under this node's own name.
    OwnName,
    /// Without a seal and not from loopback.
    Outside,
    /// Message that cannot be read.
    Malformed,
    /// Message for an earlier life of this node, or for another node.
    Misdirected,
    /// Would add a member beyond the most that are kept.
    Full,
}

impl DatagramFault {
    /// Every reason.
    pub const ALL: [Self; 14] = [
        Self::TooLong,
        Self::TooShort,
        Self::Foreign,
        Self::Version,
        Self::UnknownKey,
        Self::Unsealed,
        Self::Forged,
        Self::OldLife,
        Self::Replayed,
        Self::OwnName,
        Self::Outside,
        Self::Malformed,
        Self::Misdirected,
        Self::Full,
    ];

    /// Returns the reason's name in status and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::TooShort => "too_short",
            Self::Foreign => "foreign",
            Self::Version => "version",
            Self::UnknownKey => "unknown_key",
            Self::Unsealed => "unsealed",
            Self::Forged => "forged",
            Self::OldLife => "old_life",
            Self::Replayed => "replayed",
            Self::OwnName => "own_name",
            Self::Outside => "outside",
            Self::Malformed => "malformed",
            Self::Misdirected => "misdirected",
            Self::Full => "full",
        }
    }
}

/// Returns the number of a key in datagrams. Zero is that of no key.
pub(super) fn key_id(key: &ClusterKey, cluster: &str) -> u32 {
    let derived = key.derived("key id", &[cluster.as_bytes()]);
    u32::from_be_bytes(*derived.first_chunk().expect("32 bytes")).max(KEYLESS + 1)
}

fn named_keys(ring: &KeyRing) -> Vec<(u32, ClusterKey)> {
    ring.keys().iter().map(|key| (key_id(key, ring.cluster()), key.clone())).collect()
}

fn sender_key(key: &ClusterKey, cluster: &str, sender: NodeId, life: u64) -> LessSafeKey {
    let info = [&sender.0.to_be_bytes()[..], &life.to_be_bytes(), cluster.as_bytes()];
    let bytes = key.derived("datagram", &info);
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &bytes).expect("a key of 32 bytes"))
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn associated(head: &[u8], cluster: &str) -> Vec<u8> {
    [head, cluster.as_bytes()].concat()
}

/// Returns the checksum of a datagram without keys: against mistakes, not against attackers.
fn checksum(associated: &[u8], body: &[u8]) -> [u8; TAG_BYTES] {
    Key::unkeyed(&[associated, body].concat()).to_bytes()
}

const MAGIC: u8 = b'S';
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 30;
const TAG_BYTES: usize = 16;

/// Key id of datagrams without a seal.
pub(super) const KEYLESS: u32 = 0;

/// Bytes that a seal adds to a body.
pub const SEAL_BYTES: usize = HEAD_BYTES + TAG_BYTES;

/// Longest datagram: no path in use splits it.
pub const DATAGRAM_BYTES_MAX: usize = 1200;

/// Most replay windows. Beyond it the sender unheard for longest is forgotten.
const SENDERS_MAX: usize = 20_000;

#[cfg(test)]
#[path = "datagram/tests.rs"]
mod tests;

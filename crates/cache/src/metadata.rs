//! Metadata stored beside a body: the response's head and policy, or a note about other objects.
//!
//! A URL's key holds one of three kinds. A *response* is the first. A *vary note* says that
//! responses are stored per variant, and names the selecting request fields. A *parts note* lists
//! the parts of a representation of which only ranges have been seen (RFC 9111, section 3.3); each
//! part is an object of its own.

use super::identity::Identity;
use super::purge_table::{PurgeSlot, Sequence};
use crate::message::StoredHead;
use http::{HeaderMap, HeaderName, StatusCode};
use shoal_core::Key;
use shoal_semantics::storage::{self, CachePolicy};
use std::sync::Arc;

/// Metadata of an object.
#[derive(Clone)]
pub enum ObjectMetadata {
    /// A response; the object's body is its body.
    Response(Arc<ResponseMetadata>),
    /// A note that responses are stored per variant.
    Vary(Arc<VaryMarker>),
    /// A note that ranges of a representation are stored as parts.
    Parts(Arc<PartsMarker>),
}

/// Head of a stored response, with the facts that decide about its reuse.
pub struct ResponseMetadata {
    /// Status and fields, ready to send.
    pub stored: Arc<StoredHead>,
    /// Freshness, age and permissions.
    pub policy: CachePolicy,
    /// Position in the order of requests and purges. Purges at this position or later reach the
    /// response.
    pub requested: Sequence,
    /// Names for purging, and the mode in which the response is served.
    pub names: ResponseScope,
    /// Identity of the response.
    pub identity: Identity,
}

/// Provenance of a head.
pub struct Provenance {
    /// Position in the order of requests and purges.
    pub requested: Sequence,
    /// Names for purging, and the mode in which the response is served.
    pub names: ResponseScope,
    /// Identity of the response.
    pub identity: Identity,
}

/// Names under which a response can be purged, and the mode in which it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseScope {
    /// Slots of the names by which operators purge.
    pub slots: Box<[PurgeSlot]>,
    /// Keys of the response's cache groups and, if there are any, of its origin: see
    /// [`group_key`](super::purge_table::group_key).
    pub groups: Box<[Key]>,
    /// `true` if the response came from a site's upstreams (reverse mode) and not from the URL's
    /// host. Neither mode serves responses that the other stored. A client of a site that accepts
    /// any host chooses the host. It could otherwise choose the responses that users of the forward
    /// proxy get.
    pub via_site: bool,
}

/// Request fields by which the responses of a URL differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaryMarker {
    /// Part of the variants' keys. A new note makes the variants of an older one unreachable.
    pub generation: u64,
    /// Sorted lists of field names, the latest first.
    pub lists: Vec<Vec<HeaderName>>,
    /// `true` if a variant is pinned: without the note it could not be found.
    pub is_pinned: bool,
}

/// Stored ranges of a representation.
pub struct PartsMarker {
    /// Head of the whole representation: the 206's head without Content-Range.
    pub head: Arc<ResponseMetadata>,
    /// Length of the whole representation.
    pub complete_length: u64,
    /// Part of the parts' keys.
    pub generation: u64,
    /// The parts; they may overlap.
    pub parts: Vec<PartRange>,
}

/// One part: bytes `start..end` of the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl ResponseMetadata {
    /// Creates a head to store. `fields` contain no hop-by-hop and no framing fields.
    pub fn new(status: StatusCode, fields: HeaderMap, policy: CachePolicy, origin: Provenance) -> Self {
        let Provenance { requested, names, identity } = origin;
        Self { stored: Arc::new(StoredHead::new(status, &fields)), policy, requested, names, identity }
    }

    /// Returns a copy of the head that must be validated before its next use.
    pub fn invalidated(&self) -> Self {
        let stored = Arc::clone(&self.stored);
        Self {
            stored,
            policy: self.policy.invalidated(),
            requested: self.requested,
            names: self.names.clone(),
            identity: self.identity.renewed(),
        }
    }

    /// Returns the head for one client, with fields that are not for others.
    pub fn with(self: &Arc<Self>, fields: &HeaderMap) -> Arc<Self> {
        if fields.is_empty() {
            return Arc::clone(self);
        }
        let mut all = self.stored.fields();
        fields.keys().for_each(|name| drop(all.remove(name)));
        for (name, value) in fields {
            all.append(name.clone(), value.clone());
        }
        let origin =
            Provenance { requested: self.requested, names: self.names.clone(), identity: self.identity };
        Arc::new(Self::new(self.stored.status(), all, self.policy, origin))
    }

    /// Returns `true` if both are heads of one response.
    pub fn is_of_same_response(&self, other: &Self) -> bool {
        self.identity.response() == other.identity.response()
    }

    /// Returns `true` if this is the later of two heads of one response: renewed more often, or
    /// equally often and later.
    pub fn is_later_than(&self, other: &Self) -> bool {
        let rank = |head: &Self| (head.identity.renewals(), head.policy.response_time());
        self.is_of_same_response(other) && rank(self) > rank(other)
    }

    /// Returns the bytes of RAM that the head takes.
    pub fn weight(&self) -> usize {
        self.stored.weight() + self.names.weight() + size_of::<Self>() + ALLOCATIONS * ALLOCATION_BYTES
    }
}

impl ResponseScope {
    fn weight(&self) -> usize {
        self.slots.len() * size_of::<PurgeSlot>() + self.groups.len() * size_of::<Key>()
    }
}

impl ObjectMetadata {
    /// Returns `true` if the other is a clone of this one.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Response(one), Self::Response(other)) => Arc::ptr_eq(one, other),
            (Self::Vary(one), Self::Vary(other)) => Arc::ptr_eq(one, other),
            (Self::Parts(one), Self::Parts(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Encodes the metadata for the store.
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.is_for_everybody(), "what is stored is sent to others");
        let mut out = Vec::with_capacity(512);
        match self {
            Self::Response(head) => {
                out.push(RESPONSE);
                encode_head(head, &mut out);
            }
            Self::Vary(note) => {
                debug_assert!(note.lists.len() <= usize::from(u8::MAX));
                debug_assert!(note.lists.iter().all(|list| list.len() <= usize::from(u8::MAX)));
                out.push(if note.is_pinned { PINNED_VARY } else { VARY });
                out.extend(note.generation.to_le_bytes());
                out.push(note.lists.len() as u8);
                for list in &note.lists {
                    out.push(list.len() as u8);
                    list.iter().for_each(|name| put(name.as_str().as_bytes(), &mut out));
                }
            }
            Self::Parts(note) => {
                out.push(PARTS);
                encode_head(&note.head, &mut out);
                out.extend(note.complete_length.to_le_bytes());
                out.extend(note.generation.to_le_bytes());
                out.extend((note.parts.len() as u32).to_le_bytes());
                for part in &note.parts {
                    debug_assert!(part.start < part.end, "an empty part");
                    debug_assert!(part.end <= note.complete_length, "a part behind the end");
                    out.extend(part.start.to_le_bytes());
                    out.extend(part.end.to_le_bytes());
                }
            }
        }
        debug_assert!(Self::decode(&out).is_some(), "metadata that would not be read");
        out
    }

    /// Returns `true` if every client may get the head: it sets no cookie. Earlier versions stored
    /// heads with cookies. Other clients must get neither the cookie nor the page that came with
    /// it.
    pub fn is_for_everybody(&self) -> bool {
        self.head().is_none_or(|head| !storage::sets_cookie(&*head.stored))
    }

    /// Returns `true` if the object deserves a place on disk: it is not kept for a moment only.
    pub fn is_for_disk(&self) -> bool {
        self.head().is_none_or(|head| !head.policy.is_negative())
    }

    /// Decodes the store's bytes. Returns `None` if [`ObjectMetadata::encode`] did not write them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let mut reader = FieldReader(rest);
        let record = match *kind {
            RESPONSE => Self::Response(Arc::new(decode_head(&mut reader)?)),
            VARY => Self::Vary(Arc::new(decode_vary(&mut reader, false)?)),
            PINNED_VARY => Self::Vary(Arc::new(decode_vary(&mut reader, true)?)),
            PARTS => Self::Parts(Arc::new(decode_parts(&mut reader)?)),
            _ => return None,
        };
        reader.0.is_empty().then_some(record)
    }

    /// Returns `true` if these bytes are the metadata of a pinned object. Decodes no more.
    pub fn is_pinned(bytes: &[u8]) -> bool {
        let policy = || CachePolicy::from_bytes(*bytes.get(1..)?.first_chunk()?);
        match bytes.first() {
            Some(&(RESPONSE | PARTS)) => policy().is_some_and(|policy| policy.is_pinned()),
            Some(&PINNED_VARY) => true,
            _ => false,
        }
    }

    /// Returns the head of the response, or of the representation that the parts belong to.
    pub fn head(&self) -> Option<&Arc<ResponseMetadata>> {
        match self {
            Self::Response(head) => Some(head),
            Self::Parts(note) => Some(&note.head),
            Self::Vary(_) => None,
        }
    }

    /// Returns the bytes of RAM that the metadata takes.
    pub fn weight(&self) -> usize {
        match self {
            Self::Response(head) => head.weight(),
            Self::Vary(note) => 64 + note.lists.iter().map(|list| 32 + list.len() * 48).sum::<usize>(),
            Self::Parts(note) => note.head.weight() + note.parts.len() * 16,
        }
    }
}

fn encode_head(head: &ResponseMetadata, out: &mut Vec<u8>) {
    out.extend(head.policy.to_bytes());
    out.extend(head.requested.number().to_le_bytes());
    out.extend(head.stored.status().as_u16().to_le_bytes());
    let slots = &head.names.slots[..head.names.slots.len().min(SLOTS_MAX)];
    let via_site = if head.names.via_site { VIA_SITE } else { 0 };
    let groups = &head.names.groups[..head.names.groups.len().min(SLOTS_MAX)];
    debug_assert_eq!(slots.len() as u16 & (VIA_SITE | HAS_GROUPS | HAS_IDENTITY), 0, "a count over flags");
    let has_groups = if groups.is_empty() { 0 } else { HAS_GROUPS };
    out.extend((slots.len() as u16 | via_site | has_groups | HAS_IDENTITY).to_le_bytes());
    out.extend(head.identity.to_bytes());
    slots.iter().for_each(|slot| out.extend(slot.0.to_le_bytes()));
    if !groups.is_empty() {
        out.extend((groups.len() as u16).to_le_bytes());
        groups.iter().for_each(|group| out.extend(group.to_bytes()));
    }
    out.extend((head.stored.field_lines().count() as u32).to_le_bytes());
    for (name, value) in head.stored.field_lines() {
        put(name, out);
        put(value, out);
    }
}

fn decode_head(reader: &mut FieldReader<'_>) -> Option<ResponseMetadata> {
    let policy = CachePolicy::from_bytes(*reader.array()?)?;
    let requested = Sequence::new(reader.u64()?);
    let status = StatusCode::from_u16(reader.u16()?).ok()?;
    let names = reader.u16()?;
    let identity = match names & HAS_IDENTITY {
        0 => Identity::of_unnumbered(requested, policy.response_time(), status),
        _ => Identity::from_bytes(reader.array()?),
    };
    let count = usize::from(names) & SLOTS_MAX;
    let slots = (0..count).map(|_| reader.u16().map(PurgeSlot)).collect::<Option<_>>()?;
    let groups = if names & HAS_GROUPS == 0 { 0 } else { reader.u16()? };
    let group = |_| Some(Key::from_bytes(*reader.array()?));
    let groups = (0..groups).map(group).collect::<Option<_>>()?;
    let names = ResponseScope { slots, groups, via_site: names & VIA_SITE != 0 };
    let count = reader.u32()?;
    let fields = (0..count).map(|_| Some((reader.take()?, reader.take()?)));
    let stored = Arc::new(StoredHead::read(status, fields)?);
    Some(ResponseMetadata { stored, policy, requested, names, identity })
}

fn decode_vary(reader: &mut FieldReader<'_>, is_pinned: bool) -> Option<VaryMarker> {
    let generation = reader.u64()?;
    let list = |reader: &mut FieldReader<'_>| {
        (0..reader.u8()?).map(|_| HeaderName::from_bytes(reader.take()?).ok()).collect::<Option<Vec<_>>>()
    };
    let lists = (0..reader.u8()?).map(|_| list(reader)).collect::<Option<_>>()?;
    Some(VaryMarker { generation, lists, is_pinned })
}

fn decode_parts(reader: &mut FieldReader<'_>) -> Option<PartsMarker> {
    let head = Arc::new(decode_head(reader)?);
    let (complete_length, generation) = (reader.u64()?, reader.u64()?);
    let part = |reader: &mut FieldReader<'_>| Some(PartRange { start: reader.u64()?, end: reader.u64()? });
    let parts = (0..reader.u32()?).map(|_| part(reader)).collect::<Option<Vec<_>>>()?;
    let sane = parts.iter().all(|part| part.start < part.end && part.end <= complete_length);
    sane.then_some(PartsMarker { head, complete_length, generation, parts })
}

/// Appends length-prefixed bytes.
fn put(bytes: &[u8], out: &mut Vec<u8>) {
    debug_assert!(u32::try_from(bytes.len()).is_ok());
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Takes values off the front; returns `None` if there are too few bytes.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| *byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(|bytes| u16::from_le_bytes(*bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn take(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }
}

/// Allocations of a head: the head itself, the stored head, its lines, and the slots.
const ALLOCATIONS: usize = 4;
/// Overhead of one allocation, and its reference counts.
const ALLOCATION_BYTES: usize = 24;

/// Flag in the number of slots: the response came from a site's upstreams.
const VIA_SITE: u16 = 1 << 15;
/// Flag in the number of slots: the keys of groups follow.
const HAS_GROUPS: u16 = 1 << 14;
/// Flag in the number of slots: the response's number and renewals follow. Earlier versions wrote
/// neither.
const HAS_IDENTITY: u16 = 1 << 13;
/// Limit of a record's slots, and of its groups: more than the names read from a response.
const SLOTS_MAX: usize = HAS_IDENTITY as usize - 1;
const RESPONSE: u8 = 1;
const VARY: u8 = 2;
const PARTS: u8 = 3;
const PINNED_VARY: u8 = 4;

const _: () = {
    assert!(VIA_SITE & HAS_GROUPS == 0 && (VIA_SITE | HAS_GROUPS) & HAS_IDENTITY == 0);
    // A count of slots leaves the flags alone.
    assert!(SLOTS_MAX & (VIA_SITE | HAS_GROUPS | HAS_IDENTITY) as usize == 0);
    assert!(SLOTS_MAX < u16::MAX as usize);
    assert!(RESPONSE != VARY && VARY != PARTS && RESPONSE != PARTS);
};

#[cfg(test)]
mod tests;

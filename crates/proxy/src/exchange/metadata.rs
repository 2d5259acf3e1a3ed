//! What the store keeps beside a body: the response's head and policy, or a note about other
//! objects.
//!
//! Three kinds stand under a URL's key. A *response* is one. A *vary note* says that responses are
//! kept per variant, and by which request fields they differ. A *parts note* lists the parts of a
//! representation of which only ranges have been seen (RFC 9111, section 3.3); each part is an
//! object of its own.

use super::identity::Identity;
use super::purge_table::{PurgeSlot, Sequence};
use crate::message::StoredHead;
use http::{HeaderMap, HeaderName, StatusCode};
use shoal_core::Key;
use shoal_semantics::storage::{self, CachePolicy};
use std::sync::Arc;

/// What an object's metadata says.
#[derive(Clone)]
pub enum ObjectMetadata {
    /// A response; the object's body is its body.
    Response(Arc<ResponseMetadata>),
    /// Responses are kept per variant.
    Vary(Arc<VaryMarker>),
    /// Ranges of a representation are kept as parts.
    Parts(Arc<PartsMarker>),
}

/// The head of a stored response, with what decides about its reuse.
pub struct ResponseMetadata {
    /// Status and fields, ready to send.
    pub stored: Arc<StoredHead>,
    /// Freshness, age and permissions.
    pub policy: CachePolicy,
    /// Its place in the order of requests and purges; purges at it or after it reach it.
    pub requested: Sequence,
    /// How it can be purged, and in which mode it is served.
    pub names: ResponseScope,
    /// Which response it belongs to.
    pub identity: Identity,
}

/// Where a head comes from.
pub struct Provenance {
    /// Its place in the order of requests and purges.
    pub requested: Sequence,
    /// How it can be purged, and in which mode it is served.
    pub names: ResponseScope,
    /// Which response it belongs to.
    pub identity: Identity,
}

/// Under which names a response can be purged, and in which mode it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseScope {
    /// The slots of the names that operators purge by.
    pub slots: Box<[PurgeSlot]>,
    /// The keys of its cache groups and, where it has some, of its origin: see
    /// [`group_key`](super::purge_table::group_key).
    pub groups: Box<[Key]>,
    /// Whether a site's upstreams gave it (reverse mode), and not the host that the URL names.
    /// Neither mode serves what the other stored: whoever asks a site that takes any host names the
    /// host, and would choose what users of the forward proxy get of it.
    pub via_site: bool,
}

/// By which request fields the responses of a URL differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaryMarker {
    /// Part of the variants' keys: a new note leaves the variants of an older one unreachable.
    pub generation: u64,
    /// Sorted lists of field names, the latest first.
    pub lists: Vec<Vec<HeaderName>>,
}

/// Which ranges of a representation are kept.
pub struct PartsMarker {
    /// The head of the whole representation: that of the 206 without Content-Range.
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
    /// First byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl ResponseMetadata {
    /// A head to store. `fields` hold nothing hop-by-hop and no framing.
    pub fn new(status: StatusCode, fields: HeaderMap, policy: CachePolicy, origin: Provenance) -> Self {
        let Provenance { requested, names, identity } = origin;
        Self { stored: Arc::new(StoredHead::new(status, &fields)), policy, requested, names, identity }
    }

    /// The same head, to be validated before its next use.
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

    /// The head as one client gets it, with fields that are not for others.
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

    /// Whether both are heads of one response.
    pub fn is_of_same_response(&self, other: &Self) -> bool {
        self.identity.response() == other.identity.response()
    }

    /// Whether this is the later of two heads of one response: renewed more often, or as often and
    /// later.
    pub fn is_later_than(&self, other: &Self) -> bool {
        let rank = |head: &Self| (head.identity.renewals(), head.policy.response_time());
        self.is_of_same_response(other) && rank(self) > rank(other)
    }

    /// Bytes of RAM that it takes.
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
    /// Whether the other is a clone of this one.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Response(one), Self::Response(other)) => Arc::ptr_eq(one, other),
            (Self::Vary(one), Self::Vary(other)) => Arc::ptr_eq(one, other),
            (Self::Parts(one), Self::Parts(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// As bytes for the store.
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
                out.push(VARY);
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

    /// Whether every client may be sent the head: it sets no cookie. Earlier versions stored such
    /// heads, and others must get neither the cookie nor the page that came with it.
    pub fn is_for_everybody(&self) -> bool {
        self.head().is_none_or(|head| !storage::sets_cookie(&*head.stored))
    }

    /// Whether it is worth a place on disk: it is not kept for a moment only.
    pub fn is_for_disk(&self) -> bool {
        self.head().is_none_or(|head| !head.policy.is_negative())
    }

    /// Out of the store. `None` when the bytes are not what [`ObjectMetadata::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let mut reader = Reader(rest);
        let record = match *kind {
            RESPONSE => Self::Response(Arc::new(decode_head(&mut reader)?)),
            VARY => Self::Vary(Arc::new(decode_vary(&mut reader)?)),
            PARTS => Self::Parts(Arc::new(decode_parts(&mut reader)?)),
            _ => return None,
        };
        reader.0.is_empty().then_some(record)
    }

    /// The head of the response that it is, or that it has parts of.
    pub fn head(&self) -> Option<&Arc<ResponseMetadata>> {
        match self {
            Self::Response(head) => Some(head),
            Self::Parts(note) => Some(&note.head),
            Self::Vary(_) => None,
        }
    }

    /// Bytes of RAM that it takes.
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

fn decode_head(reader: &mut Reader<'_>) -> Option<ResponseMetadata> {
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

fn decode_vary(reader: &mut Reader<'_>) -> Option<VaryMarker> {
    let generation = reader.u64()?;
    let list = |reader: &mut Reader<'_>| {
        (0..reader.u8()?).map(|_| HeaderName::from_bytes(reader.take()?).ok()).collect::<Option<Vec<_>>>()
    };
    let lists = (0..reader.u8()?).map(|_| list(reader)).collect::<Option<_>>()?;
    Some(VaryMarker { generation, lists })
}

fn decode_parts(reader: &mut Reader<'_>) -> Option<PartsMarker> {
    let head = Arc::new(decode_head(reader)?);
    let (complete_length, generation) = (reader.u64()?, reader.u64()?);
    let part = |reader: &mut Reader<'_>| Some(PartRange { start: reader.u64()?, end: reader.u64()? });
    let parts = (0..reader.u32()?).map(|_| part(reader)).collect::<Option<Vec<_>>>()?;
    let sane = parts.iter().all(|part| part.start < part.end && part.end <= complete_length);
    sane.then_some(PartsMarker { head, complete_length, generation, parts })
}

/// Length-prefixed bytes.
fn put(bytes: &[u8], out: &mut Vec<u8>) {
    debug_assert!(u32::try_from(bytes.len()).is_ok());
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Takes values off the front; `None` when there are too few bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
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

/// A head is held by three allocations: itself, the stored head, its lines; and the slots are one
/// more.
const ALLOCATIONS: usize = 4;
/// What an allocation takes beside what was asked for, and its reference counts.
const ALLOCATION_BYTES: usize = 24;

/// In the number of slots: a site's upstreams gave it.
const VIA_SITE: u16 = 1 << 15;
/// In the number of slots: the keys of groups follow.
const HAS_GROUPS: u16 = 1 << 14;
/// In the number of slots: the response's number and renewals follow. Earlier versions wrote
/// neither.
const HAS_IDENTITY: u16 = 1 << 13;
/// Slots of a record, and groups of it: more than the names that are read of a response.
const SLOTS_MAX: usize = HAS_IDENTITY as usize - 1;
const RESPONSE: u8 = 1;
const VARY: u8 = 2;
const PARTS: u8 = 3;

const _: () = {
    assert!(VIA_SITE & HAS_GROUPS == 0 && (VIA_SITE | HAS_GROUPS) & HAS_IDENTITY == 0);
    // A count of slots leaves the flags alone.
    assert!(SLOTS_MAX & (VIA_SITE | HAS_GROUPS | HAS_IDENTITY) as usize == 0);
    assert!(SLOTS_MAX < u16::MAX as usize);
    assert!(RESPONSE != VARY && VARY != PARTS && RESPONSE != PARTS);
};

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;
    use shoal_core::Timestamp;
    use shoal_semantics::CacheRules;
    use shoal_semantics::storage::{ForwardedExchange, StorageDecision, may_store};

    fn head() -> ResponseMetadata {
        let mut fields = HeaderMap::new();
        fields.insert("cache-control", HeaderValue::from_static("max-age=60"));
        fields.append("x-two", HeaderValue::from_static("a"));
        fields.append("x-two", HeaderValue::from_bytes(b"\xe9").expect("obs-text is allowed"));
        let exchanged = ForwardedExchange {
            method: &http::Method::GET,
            query: None,
            request: &HeaderMap::new(),
            status: StatusCode::OK,
            response: &fields,
            request_time: Timestamp::from_seconds(10),
            response_time: Timestamp::from_seconds(11),
        };
        let StorageDecision::Store(policy) = may_store(&exchanged, &CacheRules::default()) else {
            panic!("storable")
        };
        ResponseMetadata::new(
            StatusCode::OK,
            fields.clone(),
            policy,
            Provenance {
                requested: Sequence::new(10),
                names: ResponseScope {
                    slots: Box::new([PurgeSlot(3), PurgeSlot(9)]),
                    groups: Box::new([Key::of(b"a"), Key::of(b"b")]),
                    via_site: true,
                },
                identity: Identity::unique().renewed(),
            },
        )
    }

    #[test]
    fn responses_survive_the_store() {
        let written = Arc::new(head());
        let bytes = ObjectMetadata::Response(Arc::clone(&written)).encode();
        let Some(ObjectMetadata::Response(read)) = ObjectMetadata::decode(&bytes) else {
            panic!("a response was written")
        };
        assert_eq!(read.stored.fields(), written.stored.fields());
        assert_eq!(read.stored.as_bytes(), written.stored.as_bytes());
        assert_eq!(
            (read.policy, read.requested, &read.names, read.identity),
            (written.policy, written.requested, &written.names, written.identity)
        );
        assert!(written.stored.as_bytes().ends_with(b"x-two: a\r\nx-two: \xe9\r\n"));
    }

    #[test]
    fn head_of_an_earlier_version_keeps_its_identity() {
        let mut bytes = ObjectMetadata::Response(Arc::new(head())).encode();
        let names = 1 + CachePolicy::BYTES + 8 + 2;
        bytes[names + 1] &= !(HAS_IDENTITY >> 8) as u8;
        bytes.drain(names + 2..names + 2 + Identity::BYTES);
        let Some(ObjectMetadata::Response(read)) = ObjectMetadata::decode(&bytes) else {
            panic!("a response was written")
        };
        let bytes = ObjectMetadata::Response(Arc::new(read.invalidated())).encode();
        let Some(ObjectMetadata::Response(renewed)) = ObjectMetadata::decode(&bytes) else {
            panic!("a response was written")
        };
        assert!(renewed.is_later_than(&read) && !read.is_later_than(&renewed));
        assert!(!read.is_of_same_response(&head()));
    }

    #[test]
    fn notes_survive_the_store() {
        let note = VaryMarker {
            generation: 7,
            lists: vec![
                vec![http::header::ACCEPT],
                vec![http::header::ACCEPT_ENCODING, http::header::COOKIE],
            ],
        };
        let bytes = ObjectMetadata::Vary(Arc::new(note.clone())).encode();
        assert!(matches!(ObjectMetadata::decode(&bytes), Some(ObjectMetadata::Vary(read)) if *read == note));
        let parts = vec![PartRange { start: 0, end: 5 }, PartRange { start: 7, end: 10 }];
        let note =
            PartsMarker { head: Arc::new(head()), complete_length: 10, generation: 1, parts: parts.clone() };
        let bytes = ObjectMetadata::Parts(Arc::new(note)).encode();
        let Some(ObjectMetadata::Parts(read)) = ObjectMetadata::decode(&bytes) else {
            panic!("a parts note was written")
        };
        assert_eq!((read.complete_length, &read.parts), (10, &parts));
    }

    #[test]
    fn truncated_records_are_not_read() {
        let bytes = ObjectMetadata::Response(Arc::new(head())).encode();
        (0..bytes.len())
            .for_each(|end| assert!(ObjectMetadata::decode(&bytes[..end]).is_none(), "cut at {end}"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = ObjectMetadata::decode(&bytes);
        }

        #[test]
        fn damaged_records_never_panic(at in 0usize..200, value: u8) {
            let mut bytes = ObjectMetadata::Response(Arc::new(head())).encode();
            let at = at % bytes.len();
            bytes[at] = value;
            let _ = ObjectMetadata::decode(&bytes);
        }
    }
}

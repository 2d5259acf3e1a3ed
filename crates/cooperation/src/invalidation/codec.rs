//! Bytes of purges, vectors and the messages about them. `docs/FORMATS.md` has the tables.
//!
//! Numbers are little-endian. Every length is bounded before memory is taken, and every byte must
//! have a meaning: a message that is too long is as malformed as one that is cut.

use super::vector::{LIVES_MAX, LifeProgress, ORIGINS_MAX, OriginLives};
use super::{Modes, Purge, PurgeId, Repair, Scope, Vector};
use crate::route::NodeId;
use std::collections::BTreeMap;

/// A message between two nodes, or an answer to one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Purges of the sender, to be applied. Body of `purges/apply`.
    Apply {
        /// The sender.
        from: NodeId,
        /// Purges of the sender, in order.
        purges: Vec<Purge>,
    },
    /// Highest number of the sender's life that is applied without gaps, and written down.
    Applied {
        /// The number.
        number: u64,
        /// `true` if the sender's share is used up: the rest of its purges was left out.
        is_busy: bool,
    },
    /// Question for the other's vector, unless it has this hash. Body of `purges/compare`.
    Compare {
        /// The sender.
        from: NodeId,
        /// Hash of its vector.
        hash: u64,
    },
    /// The vectors are equal.
    Same,
    /// The vector of the node that answers; also the body of `purges/pull`.
    Current {
        /// The sender.
        from: NodeId,
        /// Vector of the sender.
        vector: Vector,
    },
    /// Purges that the sender of a vector lacks, or the vector to take.
    Repaired(Repair),
}

impl Purge {
    /// Returns the number of bytes of the purge in a message.
    pub fn encoded_len(&self) -> usize {
        let scope = match &self.scope {
            Scope::Start { ended } => 1 + 16 * ended.len(),
            Scope::Url { url, .. } => 2 + 1 + url.len(),
            Scope::Tag(name) | Scope::Host(name) => 2 + name.len(),
            Scope::Group { origin, group, .. } => 2 + origin.len() + 2 + group.len() + 1,
            Scope::All => 0,
        };
        PURGE_HEAD_BYTES + scope
    }

    /// Returns `true` if the purge can be encoded: its names have at most `TEXT_MAX` bytes, and
    /// no control characters.
    pub fn is_sound(&self) -> bool {
        self.id.number > 0
            && match &self.scope {
                Scope::Start { ended } => ended.len() <= LIVES_MAX && self.id.number == 1,
                Scope::Url { url: name, .. } | Scope::Tag(name) | Scope::Host(name) => is_text(name),
                Scope::Group { origin, group, .. } => is_text(origin) && is_text(group),
                Scope::All => true,
            }
    }

    /// Appends the purge.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.is_sound(), "a purge that nobody could read");
        let before = out.len();
        for number in [self.id.origin.0, self.id.life, self.id.number] {
            out.extend(number.to_le_bytes());
        }
        out.push(kind(&self.scope));
        match &self.scope {
            Scope::Start { ended } => {
                out.push(ended.len() as u8);
                ended
                    .iter()
                    .flat_map(|(life, last)| [life, last])
                    .for_each(|it| out.extend(it.to_le_bytes()));
            }
            Scope::Url { url, modes } => {
                out.push(match modes {
                    Modes::Reverse => 1,
                    Modes::Forward => 2,
                    Modes::Both => 3,
                });
                put_text(url, out);
            }
            Scope::Tag(name) | Scope::Host(name) => put_text(name, out),
            Scope::Group { origin, group, is_operators } => {
                put_text(origin, out);
                put_text(group, out);
                out.push(u8::from(*is_operators));
            }
            Scope::All => {}
        }
        debug_assert_eq!(out.len() - before, self.encoded_len());
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let id = PurgeId { origin: NodeId(input.u64()?), life: input.u64()?, number: input.u64()? };
        let scope = match input.u8()? {
            0 => {
                let count = input.u8().filter(|count| usize::from(*count) <= LIVES_MAX)?;
                let ended = (0..count).map(|_| Some((input.u64()?, input.u64()?)));
                Scope::Start { ended: ended.collect::<Option<_>>()? }
            }
            1 => {
                let modes = match input.u8()? {
                    1 => Modes::Reverse,
                    2 => Modes::Forward,
                    3 => Modes::Both,
                    _ => return None,
                };
                Scope::Url { url: input.text()?, modes }
            }
            2 => Scope::Tag(input.text()?),
            3 => Scope::Group { origin: input.text()?, group: input.text()?, is_operators: input.flag()? },
            4 => Scope::Host(input.text()?),
            5 => Scope::All,
            _ => return None,
        };
        let purge = Self { id, scope };
        purge.is_sound().then_some(purge)
    }
}

impl Vector {
    /// Appends the vector.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend((self.origins().len() as u16).to_le_bytes());
        for (origin, lives) in self.origins() {
            out.extend(origin.0.to_le_bytes());
            out.extend(lives.floor.to_le_bytes());
            out.push(lives.lives.len() as u8);
            for (life, at) in &lives.lives {
                for number in [*life, at.number, at.end.unwrap_or(0)] {
                    out.extend(number.to_le_bytes());
                }
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let count = input.u16().filter(|count| usize::from(*count) <= ORIGINS_MAX)?;
        let mut origins = BTreeMap::new();
        for _ in 0..count {
            let (origin, floor) = (NodeId(input.u64()?), input.u64()?);
            let lives = input.u8().filter(|lives| usize::from(*lives) <= LIVES_MAX)?;
            let mut known = BTreeMap::new();
            for _ in 0..lives {
                let (life, number, end) = (input.u64()?, input.u64()?, input.u64()?);
                // In order, so that a vector has one encoding.
                if known.last_key_value().is_some_and(|(last, _)| *last >= life) {
                    return None;
                }
                known.insert(life, LifeProgress { number, end: (end > 0).then_some(end) });
            }
            if origins.last_key_value().is_some_and(|(last, _)| *last >= origin) {
                return None;
            }
            origins.insert(origin, OriginLives { floor, lives: known });
        }
        Self::of(origins)
    }

    /// Reads a vector that is all of `bytes`.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader(bytes);
        Self::decode(&mut input).filter(|_| input.0.is_empty())
    }
}

impl Message {
    /// Returns the bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Self::Apply { from, purges } => {
                out.push(1);
                out.extend(from.0.to_le_bytes());
                encode_purges(purges, &mut out);
            }
            Self::Applied { number, is_busy } => {
                out.push(2);
                out.extend(number.to_le_bytes());
                out.push(u8::from(*is_busy));
            }
            Self::Compare { from, hash } => {
                out.push(3);
                out.extend(from.0.to_le_bytes());
                out.extend(hash.to_le_bytes());
            }
            Self::Same => out.push(4),
            Self::Current { from, vector } => {
                out.push(5);
                out.extend(from.0.to_le_bytes());
                vector.encode(&mut out);
            }
            Self::Repaired(Repair::Entries { purges, has_more }) => {
                out.push(6);
                out.push(u8::from(*has_more));
                encode_purges(purges, &mut out);
            }
            Self::Repaired(Repair::Whole(vector)) => {
                out.push(7);
                vector.encode(&mut out);
            }
        }
        out
    }

    /// Reads a message that is all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader(bytes);
        if input.u8()? != VERSION {
            return None;
        }
        let message = match input.u8()? {
            1 => Self::Apply { from: NodeId(input.u64()?), purges: input.purges()? },
            2 => Self::Applied { number: input.u64()?, is_busy: input.flag()? },
            3 => Self::Compare { from: NodeId(input.u64()?), hash: input.u64()? },
            4 => Self::Same,
            5 => Self::Current { from: NodeId(input.u64()?), vector: Vector::decode(&mut input)? },
            6 => {
                let has_more = input.flag()?;
                Self::Repaired(Repair::Entries { purges: input.purges()?, has_more })
            }
            7 => Self::Repaired(Repair::Whole(Vector::decode(&mut input)?)),
            _ => return None,
        };
        input.0.is_empty().then_some(message)
    }
}

/// Appends purges: their number, and each.
pub fn encode_purges(purges: &[Purge], out: &mut Vec<u8>) {
    assert!(purges.len() <= PURGES_MAX, "more purges than a message may have");
    out.extend((purges.len() as u16).to_le_bytes());
    purges.iter().for_each(|purge| purge.encode(out));
}

/// Reads purges that are all of `bytes`.
pub fn decode_purges(bytes: &[u8]) -> Option<Vec<Purge>> {
    let mut input = Reader(bytes);
    input.purges().filter(|_| input.0.is_empty())
}

/// Bytes that are still to be read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        self.u8().filter(|flag| *flag < 2).map(|flag| flag == 1)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().filter(|text| is_text(text)).map(str::to_owned)
    }

    fn purges(&mut self) -> Option<Vec<Purge>> {
        let count = self.u16().filter(|count| usize::from(*count) <= PURGES_MAX)?;
        (0..count).map(|_| Purge::decode(self)).collect()
    }
}

fn kind(scope: &Scope) -> u8 {
    match scope {
        Scope::Start { .. } => 0,
        Scope::Url { .. } => 1,
        Scope::Tag(_) => 2,
        Scope::Group { .. } => 3,
        Scope::Host(_) => 4,
        Scope::All => 5,
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= TEXT_MAX && !text.chars().any(char::is_control)
}

/// Version of the messages, their first byte.
const VERSION: u8 = 1;

/// Bytes of a purge before its scope: origin, life, number, kind.
const PURGE_HEAD_BYTES: usize = 25;

/// Most bytes of a name in a purge.
pub(super) const TEXT_MAX: usize = 16_384;

/// Most purges of a message.
pub(super) const PURGES_MAX: usize = 4096;

/// Most bytes of a purge in a message.
pub const PURGE_BYTES_MAX: usize = PURGE_HEAD_BYTES + 2 * (2 + TEXT_MAX) + 1;

/// Reason for refusing bytes that are no message.
pub const MALFORMED_PURGE: &str = "the bytes are no message about purges of this version";

const _: () = assert!(TEXT_MAX <= u16::MAX as usize);
const _: () = assert!(PURGES_MAX <= u16::MAX as usize);
const _: () = assert!(LIVES_MAX <= u8::MAX as usize && ORIGINS_MAX <= u16::MAX as usize);

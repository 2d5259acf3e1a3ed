//! Messages of the membership in bytes: foca's, and three of our own.
//!
//! ```text
//! 0   kind, u8; 128 more if the sender's identity is written whole
//! 1   probe number, u8; 0 without
//! 2   sender: its identity whole, or its revision, u32
//!     sender's incarnation, u16
//!     receiver: mark of its life, u32; revision, u32
//!     another identity, of kinds 2 to 5
//!     updates: count, u16; each an identity, incarnation u16,
//!         state u8 (0 alive, 1 suspect, 2 down)
//!     accusations: length, u16; accusation
//! ```
//!
//! The seal of a datagram names its sender and the sender's life. A message between nodes that know
//! each other therefore needs the revision alone: a ping is 64 bytes with its seal. A receiver that
//! does not know this identity asks for it ([`KIND_WHO`]).

use super::NodeIdentity;
use super::suspicion::Accusation;
use crate::keys::DatagramFault;
use bytes::{Buf, BufMut};
use foca::{BroadcastHandler, Codec, Header, Invalidates, Member, Message, State};
use parking_lot::Mutex;
use shoal_cooperation::NodeId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// State that the membership shares with foca's codec.
#[derive(Debug)]
pub(super) struct CodecState {
    /// Identity of this node.
    pub own: NodeIdentity,
    /// Newest identities of other nodes.
    pub known: BTreeMap<NodeId, NodeIdentity>,
    /// Sender of the message being read, from its seal.
    pub sender: (NodeId, u64),
    /// Reason why the message being read is refused.
    pub fault: Option<ReadFault>,
    /// No further node is taken.
    pub is_full: bool,
    /// Now, for the age of accusations.
    pub now: Duration,
    /// Accusations by suspect and witness, with their time.
    pub accusations: BTreeMap<(NodeId, NodeId), (Accusation, Duration)>,
    /// Accusations that came with the message being read.
    pub arrived: Vec<Accusation>,
}

/// Reason why a message was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReadFault {
    /// Dropped and counted.
    Dropped(DatagramFault),
    /// The sender's identity is not known: ask for it.
    UnknownSender,
    /// A node of this node's name has a later life.
    Displaced(NodeIdentity),
}

/// Codec of foca's messages.
#[derive(Clone)]
pub(super) struct NodeCodec(pub Arc<Mutex<CodecState>>);

/// Handler of accusations, which foca spreads beside its updates.
pub(super) struct AccusationHandler(pub Arc<Mutex<CodecState>>);

/// Key of an accusation among foca's broadcasts.
pub(super) struct AccusationKey(NodeId, NodeId);

/// Sign of a failure; the reason is in the shared state.
#[derive(Debug)]
pub(super) struct CodecError;

impl Codec<NodeIdentity> for NodeCodec {
    type Error = CodecError;

    fn encode_header(
        &mut self,
        header: &Header<NodeIdentity>,
        mut out: impl BufMut,
    ) -> Result<(), CodecError> {
        let (kind, number, other) = parts(&header.message);
        let whole = matches!(kind, KIND_ANNOUNCE | KIND_GOSSIP | KIND_TURN_UNDEAD);
        let sender_bytes = if whole { header.src.encoded_bytes() } else { 4 };
        let bytes = 2 + sender_bytes + 2 + 8 + other.map_or(0, NodeIdentity::encoded_bytes);
        if out.remaining_mut() < bytes {
            return Err(CodecError);
        }
        out.put_u8(if whole { kind | WHOLE } else { kind });
        out.put_u8(number);
        if whole {
            header.src.encode(&mut out);
        } else {
            out.put_u32(header.src.revision);
        }
        out.put_u16(header.src_incarnation);
        out.put_u32(header.dst.life_mark());
        out.put_u32(header.dst.revision);
        if let Some(other) = other {
            other.encode(&mut out);
        }
        Ok(())
    }

    fn decode_header(&mut self, from: impl Buf) -> Result<Header<NodeIdentity>, CodecError> {
        let mut state = self.0.lock();
        read_header(&state, from).map_err(|fault| {
            state.fault = Some(fault);
            CodecError
        })
    }

    fn encode_member(
        &mut self,
        member: &Member<NodeIdentity>,
        mut out: impl BufMut,
    ) -> Result<(), CodecError> {
        if out.remaining_mut() < member.id().encoded_bytes() + 3 {
            return Err(CodecError);
        }
        put_member(member, &mut out);
        Ok(())
    }

    fn decode_member(&mut self, mut from: impl Buf) -> Result<Member<NodeIdentity>, CodecError> {
        let mut state = self.0.lock();
        take_member(&state, &mut from).map_err(|fault| {
            state.fault = Some(fault);
            CodecError
        })
    }
}

impl BroadcastHandler<NodeIdentity> for AccusationHandler {
    type Key = AccusationKey;
    type Error = CodecError;

    fn receive_item(
        &mut self,
        data: &[u8],
        _sender: Option<&NodeIdentity>,
    ) -> Result<Option<AccusationKey>, CodecError> {
        let accusation = Accusation::decode(data).ok_or(CodecError)?;
        let mut state = self.0.lock();
        let (now, key) = (state.now, (accusation.suspect, accusation.witness));
        state.accusations.retain(|_, (_, since)| now.saturating_sub(*since) < ACCUSATION_AGE_MAX);
        if state.accusations.get(&key).is_some_and(|(known, _)| *known == accusation)
            || state.accusations.len() >= ACCUSATIONS_MAX
            || !state.known.contains_key(&accusation.witness) && accusation.witness != state.own.id
        {
            return Ok(None);
        }
        state.accusations.insert(key, (accusation, now));
        state.arrived.push(accusation);
        Ok(Some(AccusationKey(key.0, key.1)))
    }
}

impl Invalidates for AccusationKey {
    fn invalidates(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("message that cannot be read or written")
    }
}

impl std::error::Error for CodecError {}

/// Writes a member as updates and lists have it.
pub(super) fn put_member(member: &Member<NodeIdentity>, out: &mut impl BufMut) {
    member.id().encode(out);
    out.put_u16(member.incarnation());
    out.put_u8(match member.state() {
        State::Alive => 0,
        State::Suspect => 1,
        State::Down => 2,
    });
}

/// Reads a member and checks that this node may take it.
pub(super) fn take_member(
    state: &CodecState,
    from: &mut impl Buf,
) -> Result<Member<NodeIdentity>, ReadFault> {
    let identity = decode_reachable(state, from)?;
    let incarnation = from.try_get_u16().map_err(|_| MALFORMED)?;
    let liveness = match from.try_get_u8() {
        Ok(0) => State::Alive,
        Ok(1) => State::Suspect,
        Ok(2) => State::Down,
        _ => return Err(MALFORMED),
    };
    if identity.id == state.own.id && identity.life > state.own.life && liveness != State::Down {
        return Err(ReadFault::Displaced(identity));
    }
    if state.is_full && identity.id != state.own.id && !state.known.contains_key(&identity.id) {
        return Err(ReadFault::Dropped(DatagramFault::Full));
    }
    Ok(Member::new(identity, incarnation, liveness))
}

/// Returns kind and probe number of a message, if it is one of foca's.
pub(super) fn peek(message: &[u8]) -> Option<(u8, u8)> {
    let [kind, number, ..] = message else { return None };
    Some((kind & !WHOLE, *number)).filter(|(kind, _)| *kind <= KIND_TURN_UNDEAD)
}

/// Returns the incarnation that a message of ours carries.
pub(super) fn incarnation_in(message: &[u8], own: &NodeIdentity) -> Option<u16> {
    let at = if message.first()? & WHOLE != 0 { 2 + own.encoded_bytes() } else { 6 };
    Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?))
}

fn read_header(state: &CodecState, mut from: impl Buf) -> Result<Header<NodeIdentity>, ReadFault> {
    let first = from.try_get_u8().map_err(|_| MALFORMED)?;
    let number = from.try_get_u8().map_err(|_| MALFORMED)?;
    let (kind, whole) = (first & !WHOLE, first & WHOLE != 0);
    let src = if whole { decode_reachable(state, &mut from)? } else { short_sender(state, &mut from)? };
    if (src.id, src.life) != state.sender {
        return Err(MALFORMED);
    }
    if state.is_full && !state.known.contains_key(&src.id) {
        return Err(ReadFault::Dropped(DatagramFault::Full));
    }
    let src_incarnation = from.try_get_u16().map_err(|_| MALFORMED)?;
    let mark = from.try_get_u32().map_err(|_| MALFORMED)?;
    let revision = from.try_get_u32().map_err(|_| MALFORMED)?;
    // A message for an earlier revision of this life is meant for us, unless it is a death.
    let is_ours =
        mark == state.own.life_mark() && (kind != KIND_TURN_UNDEAD || revision == state.own.revision);
    if !is_ours {
        return Err(ReadFault::Dropped(DatagramFault::Misdirected));
    }
    let mut other = || decode_reachable(state, &mut from);
    let message = match kind {
        KIND_PING => Message::Ping(number),
        KIND_ACK => Message::Ack(number),
        KIND_PING_REQ => Message::PingReq { target: other()?, probe_number: number },
        KIND_INDIRECT_PING => Message::IndirectPing { origin: other()?, probe_number: number },
        KIND_INDIRECT_ACK => Message::IndirectAck { target: other()?, probe_number: number },
        KIND_FORWARDED_ACK => Message::ForwardedAck { origin: other()?, probe_number: number },
        KIND_ANNOUNCE => Message::Announce,
        KIND_FEED => Message::Feed,
        KIND_GOSSIP => Message::Gossip,
        KIND_BROADCAST => Message::Broadcast,
        KIND_TURN_UNDEAD => Message::TurnUndead,
        _ => return Err(MALFORMED),
    };
    Ok(Header { src, src_incarnation, dst: state.own.clone(), message })
}

/// Reads the identity of a node that this one can reach.
pub(super) fn decode_reachable(state: &CodecState, from: &mut impl Buf) -> Result<NodeIdentity, ReadFault> {
    NodeIdentity::decode(from).filter(|node| node.may_meet(&state.own)).ok_or(MALFORMED)
}

/// Returns the identity of a sender that wrote its revision alone.
fn short_sender(state: &CodecState, from: &mut impl Buf) -> Result<NodeIdentity, ReadFault> {
    let revision = from.try_get_u32().map_err(|_| MALFORMED)?;
    let known = state.known.get(&state.sender.0).ok_or(ReadFault::UnknownSender)?;
    match (known.life, known.revision).cmp(&(state.sender.1, revision)) {
        std::cmp::Ordering::Equal => Ok(known.clone()),
        std::cmp::Ordering::Less => Err(ReadFault::UnknownSender),
        std::cmp::Ordering::Greater => Err(ReadFault::Dropped(DatagramFault::OldLife)),
    }
}

fn parts(message: &Message<NodeIdentity>) -> (u8, u8, Option<&NodeIdentity>) {
    match message {
        Message::Ping(number) => (KIND_PING, *number, None),
        Message::Ack(number) => (KIND_ACK, *number, None),
        Message::PingReq { target, probe_number } => (KIND_PING_REQ, *probe_number, Some(target)),
        Message::IndirectPing { origin, probe_number } => (KIND_INDIRECT_PING, *probe_number, Some(origin)),
        Message::IndirectAck { target, probe_number } => (KIND_INDIRECT_ACK, *probe_number, Some(target)),
        Message::ForwardedAck { origin, probe_number } => (KIND_FORWARDED_ACK, *probe_number, Some(origin)),
        Message::Announce => (KIND_ANNOUNCE, 0, None),
        Message::Feed => (KIND_FEED, 0, None),
        Message::Gossip => (KIND_GOSSIP, 0, None),
        Message::Broadcast => (KIND_BROADCAST, 0, None),
        Message::TurnUndead => (KIND_TURN_UNDEAD, 0, None),
    }
}

const MALFORMED: ReadFault = ReadFault::Dropped(DatagramFault::Malformed);

pub(super) const KIND_PING: u8 = 0;
pub(super) const KIND_ACK: u8 = 1;
const KIND_PING_REQ: u8 = 2;
const KIND_INDIRECT_PING: u8 = 3;
const KIND_INDIRECT_ACK: u8 = 4;
pub(super) const KIND_FORWARDED_ACK: u8 = 5;
const KIND_ANNOUNCE: u8 = 6;
const KIND_FEED: u8 = 7;
const KIND_GOSSIP: u8 = 8;
const KIND_BROADCAST: u8 = 9;
const KIND_TURN_UNDEAD: u8 = 10;

/// Question of a node that does not know the sender of a message: its own identity follows.
pub(super) const KIND_WHO: u8 = 32;

/// News for a suspect: its revision, u32, and the incarnation that is suspected, u16, follow.
pub(super) const KIND_SUSPECTED: u8 = 33;

/// Digest of the sender's living members, u64. A receiver that has another exchanges lists with it.
pub(super) const KIND_DIGEST: u8 = 34;

/// Bit of a kind: the sender's identity is written whole.
const WHOLE: u8 = 128;

/// Most accusations that are remembered.
const ACCUSATIONS_MAX: usize = 4096;

/// Age at which an accusation is forgotten.
const ACCUSATION_AGE_MAX: Duration = Duration::from_secs(60);

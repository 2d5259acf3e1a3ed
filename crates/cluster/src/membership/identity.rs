//! Identity of a node in the membership: its name, its life, and its facts.
//!
//! ```text
//! 0   life, u64       12  state, u4     17  family, u8: 4 or 6      n  name length, u8
//! 8   revision, u32   13  weight, f32   18  address, port u16          name
//! ```
//!
//! The high half of the state's byte is the level in a hierarchy. A node alone changes its facts:
//! each change raises the revision, each start the life. The higher pair counts. Others relay the
//! facts. All nodes hold one key, so that a seal of the owner would prove no more than the seal of
//! the node that relays.

use crate::NODE_NAME_BYTES_MAX;
use bytes::{Buf, BufMut};
use shoal_cooperation::{LEVEL_MAX, Member, MemberState, NodeId};
use shoal_core::{Key, mixed};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Identity of a node: equal if node, life and revision are.
#[derive(Clone, Debug)]
pub struct NodeIdentity {
    /// Number of the node.
    pub id: NodeId,
    /// Number of its start.
    pub life: u64,
    /// Number of the last change of its facts within the life.
    pub revision: u32,
    facts: Arc<NodeFacts>,
}

/// Facts that a node says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Name of the node.
    pub name: Arc<str>,
    /// Address for peers, TCP and UDP.
    pub address: SocketAddr,
    /// Share of the keys relative to other members'.
    pub weight: f32,
    /// State of the node.
    pub state: MemberState,
    /// Level in a hierarchy.
    pub level: u8,
}

impl NodeIdentity {
    /// Makes the first identity of a life.
    pub fn new(life: u64, facts: NodeFacts) -> Self {
        debug_assert!(facts.fault().is_none(), "{:?}", facts.fault());
        Self { id: NodeId::named(&facts.name), life, revision: 0, facts: Arc::new(facts) }
    }

    /// Returns the facts.
    pub fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// Returns the identity with other facts and the next revision.
    pub fn changed(&self, facts: NodeFacts) -> Self {
        debug_assert_eq!(facts.name, self.facts.name, "a name stays for a life");
        Self { revision: self.revision.saturating_add(1), facts: Arc::new(facts), ..self.clone() }
    }

    /// Returns the identity for another life.
    pub fn reborn(&self, life: u64) -> Self {
        Self { life, revision: 0, ..self.clone() }
    }

    /// Returns `true` if the nodes can reach each other: both are on loopback, or neither is.
    /// Anything else would send this node's messages to programs that are no nodes.
    pub fn may_meet(&self, other: &Self) -> bool {
        let is_local = |node: &Self| node.facts.address.ip().to_canonical().is_loopback();
        is_local(self) == is_local(other)
    }

    /// Returns the node as a member of a view.
    pub fn member(&self) -> Member {
        let NodeFacts { name, address, weight, state, level } = &*self.facts;
        let (name, weight) = (Arc::clone(name), f64::from(*weight));
        Member { id: self.id, name, address: *address, weight, state: *state, life: self.life, level: *level }
    }

    /// Returns a number that tells messages for this life from messages for another.
    pub(super) fn life_mark(&self) -> u32 {
        mixed(self.id.0 ^ mixed(self.life)) as u32
    }

    pub(super) fn encoded_bytes(&self) -> usize {
        let address_bytes = if self.facts.address.is_ipv4() { 4 } else { 16 };
        21 + address_bytes + self.facts.name.len()
    }

    /// Writes the identity.
    pub fn encode(&self, out: &mut impl BufMut) {
        let NodeFacts { name, address, weight, state, level } = &*self.facts;
        out.put_u64(self.life);
        out.put_u32(self.revision);
        out.put_u8(*state as u8 | level << LEVEL_SHIFT);
        out.put_f32(*weight);
        match address.ip() {
            IpAddr::V4(ip) => {
                out.put_u8(4);
                out.put_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.put_u8(6);
                out.put_slice(&ip.octets());
            }
        }
        out.put_u16(address.port());
        out.put_u8(name.len() as u8);
        out.put_slice(name.as_bytes());
    }

    /// Reads an identity and checks all of its facts.
    pub fn decode(from: &mut impl Buf) -> Option<Self> {
        let life = from.try_get_u64().ok()?;
        let revision = from.try_get_u32().ok()?;
        let state = from.try_get_u8().ok()?;
        let (level, state) = (state >> LEVEL_SHIFT, state & ((1 << LEVEL_SHIFT) - 1));
        let state = match state {
            0 => MemberState::Joining,
            1 => MemberState::In,
            2 => MemberState::Draining,
            _ => return None,
        };
        let weight = from.try_get_f32().ok()?;
        let ip = match from.try_get_u8().ok()? {
            4 => IpAddr::from(from.try_get_u32().ok()?.to_be_bytes()),
            6 => IpAddr::from(from.try_get_u128().ok()?.to_be_bytes()),
            _ => return None,
        };
        let port = from.try_get_u16().ok()?;
        let mut name = vec![0; usize::from(from.try_get_u8().ok()?)];
        from.try_copy_to_slice(&mut name).ok()?;
        let name = String::from_utf8(name).ok()?.into();
        let facts = NodeFacts { name, address: SocketAddr::new(ip, port), weight, state, level };
        if facts.fault().is_some() || life == 0 {
            return None;
        }
        Some(Self { revision, ..Self::new(life, facts) })
    }
}

impl NodeFacts {
    /// Returns the reason why no node can have these facts.
    pub fn fault(&self) -> Option<&'static str> {
        if !is_name(&self.name) {
            return Some("a name has 1 to 64 letters, digits, and characters of `._-:[]`");
        }
        let ip = self.address.ip().to_canonical();
        let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        if ip.is_unspecified() || ip.is_multicast() || is_broadcast || self.address.port() == 0 {
            return Some("the address for peers is one that other nodes can reach, with a port");
        }
        if !(self.weight.is_finite() && (0.0..=WEIGHT_MAX).contains(&self.weight)) {
            return Some("a weight is a number from 0 to 16 million");
        }
        if self.level > LEVEL_MAX {
            return Some("a level is 0, 1 or 2");
        }
        (self.state == MemberState::Out).then_some("a node that is out says nothing")
    }
}

impl PartialEq for NodeIdentity {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.life, self.revision) == (other.id, other.life, other.revision)
    }
}

impl Eq for NodeIdentity {}

impl foca::Identity for NodeIdentity {
    type Addr = NodeId;

    /// Comes back after the others believed this node dead.
    fn renew(&self) -> Option<Self> {
        Some(self.changed((*self.facts).clone()))
    }

    fn addr(&self) -> NodeId {
        self.id
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.life, self.revision) > (adversary.life, adversary.revision)
    }
}

/// Returns `true` if a node or a cluster can have this name.
pub fn is_name(name: &str) -> bool {
    let fits = (1..=NODE_NAME_BYTES_MAX).contains(&name.len());
    fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte))
}

/// Returns a new life for a node that starts now, after its last `known` life.
pub fn next_life(unix_ms: u64, known: u64) -> u64 {
    unix_ms.max(known.saturating_add(1)).max(1)
}

/// Generator of the numbers that the protocol draws: splitmix64 (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub(super) struct DrawSequence(u64);

impl DrawSequence {
    pub(super) fn new(seed: u64) -> Self {
        Self(Key::unkeyed(&seed.to_le_bytes()).low())
    }

    /// Draws a number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "one number at least");
        self.next() % bound
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }
}

impl rand::TryRng for DrawSequence {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.next().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        Ok(())
    }
}

/// Place of the level in the byte of the state. Nodes that know no levels read level 0 alone.
const LEVEL_SHIFT: u8 = 4;

const WEIGHT_MAX: f32 = 16_777_216.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts(name: &str, address: &str) -> NodeFacts {
        let address = address.parse().expect("an address");
        NodeFacts { name: name.into(), address, weight: 1.5, state: MemberState::In, level: 0 }
    }

    #[test]
    fn identity_reads_back_and_its_beginnings_do_not() {
        for address in ["10.0.0.1:3131", "[2001:db8::1]:3131"] {
            let facts = facts("cache-1", address);
            let identity = NodeIdentity::new(7, facts.clone()).changed(facts);
            let mut bytes = Vec::new();
            identity.encode(&mut bytes);
            assert_eq!(bytes.len(), identity.encoded_bytes());
            let read = NodeIdentity::decode(&mut &bytes[..]).expect("whole");
            assert_eq!((&read, read.facts()), (&identity, identity.facts()));
            for length in 0..bytes.len() {
                assert!(NodeIdentity::decode(&mut &bytes[..length]).is_none());
            }
        }
    }

    #[test]
    fn impossible_facts_are_refused() {
        let good = facts("a", "10.0.0.1:1");
        let address = |text: &str| NodeFacts { address: text.parse().expect("an address"), ..good.clone() };
        for bad in [
            NodeFacts { name: "".into(), ..good.clone() },
            NodeFacts { name: "a b".into(), ..good.clone() },
            NodeFacts { name: "a".repeat(65).into(), ..good.clone() },
            NodeFacts { weight: f32::NAN, ..good.clone() },
            NodeFacts { weight: -1.0, ..good.clone() },
            NodeFacts { level: 3, ..good.clone() },
            NodeFacts { state: MemberState::Out, ..good.clone() },
            address("0.0.0.0:1"),
            address("224.0.0.1:1"),
            address("10.0.0.1:0"),
            address("255.255.255.255:1"),
            address("[::ffff:224.0.0.1]:1"),
        ] {
            assert!(bad.fault().is_some(), "{bad:?}");
            let identity = NodeIdentity { facts: Arc::new(bad), ..NodeIdentity::new(1, good.clone()) };
            let mut bytes = Vec::new();
            identity.encode(&mut bytes);
            assert!(NodeIdentity::decode(&mut &bytes[..]).is_none());
        }
    }

    #[test]
    fn life_grows_although_the_clock_goes_back() {
        assert_eq!(next_life(5_000, 0), 5_000);
        assert_eq!(next_life(5_000, 9_000), 9_001);
        assert_eq!(next_life(0, 0), 1);
    }

    proptest! {
        #[test]
        fn decoded_identities_are_sound(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some(identity) = NodeIdentity::decode(&mut &bytes[..]) {
                prop_assert!(identity.facts().fault().is_none());
                let mut again = Vec::new();
                identity.encode(&mut again);
                prop_assert_eq!(&bytes[..again.len()], &again[..]);
            }
        }
    }
}

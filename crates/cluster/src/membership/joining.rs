//! Joining: the question of a node to a seed, and the seed's answer with the whole list.
//!
//! ```text
//! question: version u8; cluster name length u8, name; clock u64 (ms since 1970); identity;
//!           members: count u32, each as in updates
//! answer:   version u8; 0; clock u64; members: count u32, each as in updates
//!           version u8; 1; life u64: ask again with a later life than this
//! ```
//!
//! The version stands first, so that each release can at least say which one it speaks. Both calls
//! travel over connections that prove the cluster's key.

use super::codec::{CodecState, ReadFault, decode_reachable, put_member, take_member};
use super::{CLOCK_SKEW_MAX, MEMBERS_MAX, Membership, MembershipOutput, NodeIdentity, is_name};
use crate::keys::DatagramFault;
use bytes::{Buf, BufMut};
use foca::{Member, State};
use std::time::Duration;

/// Question of a node that joins.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// Name of its cluster.
    pub cluster: String,
    /// Clock of the node, in milliseconds since 1970.
    pub clock_ms: u64,
    /// Identity of the node.
    pub node: NodeIdentity,
    /// Members that it knows already: none at a first join.
    pub members: Vec<Member<NodeIdentity>>,
}

/// Answer of a seed.
#[derive(Debug)]
pub enum JoinAnswer {
    /// The members.
    Welcome {
        /// Clock of the seed, in milliseconds since 1970.
        clock_ms: u64,
        /// Members as the seed knows them, itself among them.
        members: Vec<Member<NodeIdentity>>,
    },
    /// The node had this life before or a later one: ask again with a higher number.
    LaterLife(u64),
}

/// Verdict on a joining node, before its name is compared with a living node's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JoinVerdict {
    Welcome,
    LaterLife(u64),
    /// A living member elsewhere has the name: if it still answers, the joining node is refused.
    NameTaken(NodeIdentity),
}

impl JoinRequest {
    /// Writes the question.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![PROTOCOL_VERSION, self.cluster.len() as u8];
        out.put_slice(self.cluster.as_bytes());
        out.put_u64(self.clock_ms);
        self.node.encode(&mut out);
        put_members(&self.members, &mut out);
        out
    }

    /// Reads a question. A version that is not spoken gives an error that says so.
    pub fn decode(mut from: &[u8], membership: &Membership) -> Result<Self, String> {
        check_version(&mut from)?;
        let mut read = || {
            let mut cluster = vec![0; usize::from(from.try_get_u8().ok()?)];
            from.try_copy_to_slice(&mut cluster).ok()?;
            let cluster = String::from_utf8(cluster).ok().filter(|name| is_name(name))?;
            let clock_ms = from.try_get_u64().ok()?;
            let state = membership.state.lock();
            let node = decode_reachable(&state, &mut from).ok()?;
            let members = take_members(&state, &mut from).ok()?;
            Some(Self { cluster, clock_ms, node, members })
        };
        read().filter(|_| from.is_empty()).ok_or_else(|| "the question to join cannot be read".into())
    }

    /// Returns the reason why a seed refuses the node under any name.
    pub fn fault(&self, cluster: &str, clock_ms: u64) -> Option<String> {
        if self.cluster != cluster {
            return Some(format!(
                "this is a node of the cluster {cluster}, not of {}; correct cluster.name or cluster.join",
                self.cluster
            ));
        }
        let apart = Duration::from_millis(self.clock_ms.abs_diff(clock_ms));
        (apart > CLOCK_SKEW_MAX).then(|| {
            format!(
                "the clocks are {} s apart, at most {} s are allowed; set the clock of {} or of this node",
                apart.as_secs(),
                CLOCK_SKEW_MAX.as_secs(),
                self.node.facts().name
            )
        })
    }
}

impl JoinAnswer {
    /// Writes the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![PROTOCOL_VERSION];
        match self {
            Self::Welcome { clock_ms, members } => {
                out.put_u8(0);
                out.put_u64(*clock_ms);
                put_members(members, &mut out);
            }
            Self::LaterLife(life) => {
                out.put_u8(1);
                out.put_u64(*life);
            }
        }
        out
    }

    /// Reads an answer for a node's membership.
    pub fn decode(mut from: &[u8], membership: &Membership) -> Result<Self, String> {
        let unreadable = || "the answer of the seed cannot be read".to_owned();
        check_version(&mut from)?;
        let kind = from.try_get_u8().map_err(|_| unreadable())?;
        let number = from.try_get_u64().map_err(|_| unreadable())?;
        if kind == 1 {
            return Ok(Self::LaterLife(number)).filter_end(from);
        }
        if kind != 0 {
            return Err(unreadable());
        }
        let members = take_members(&membership.state.lock(), &mut from);
        let members = members.map_err(|fault| match fault {
            ReadFault::Displaced(other) => displaced(&other),
            _ => unreadable(),
        })?;
        Ok(Self::Welcome { clock_ms: number, members }).filter_end(from)
    }
}

/// Adds the check that nothing follows.
trait FilterEnd: Sized {
    fn filter_end(self, rest: &[u8]) -> Self;
}

impl FilterEnd for Result<JoinAnswer, String> {
    fn filter_end(self, rest: &[u8]) -> Self {
        if rest.is_empty() { self } else { Err("bytes follow the answer of the seed".into()) }
    }
}

/// Lets a node exchange lists with another one as a join does, with no network between them.
/// Returns `false` if the other one refuses. For simulations.
pub fn exchange_lists(node: &mut Membership, seed: &mut Membership, now: Duration) -> bool {
    let request = JoinRequest {
        cluster: "simulated".into(),
        clock_ms: 1,
        node: node.own().clone(),
        members: node.list(),
    };
    if !matches!(seed.judge(&request.node), JoinVerdict::Welcome) {
        return false;
    }
    if let JoinAnswer::Welcome { members, .. } = seed.welcome(now, request, 1) {
        node.on_members(now, members);
    }
    true
}

impl Membership {
    /// Judges a node that wants to join.
    pub(crate) fn judge(&self, node: &NodeIdentity) -> JoinVerdict {
        let own = self.own();
        if node.id == own.id {
            return if node.life == own.life {
                JoinVerdict::Welcome
            } else {
                JoinVerdict::NameTaken(own.clone())
            };
        }
        match self.known(node.id) {
            None => JoinVerdict::Welcome,
            Some((known, _)) if known.life == node.life => JoinVerdict::Welcome,
            Some((known, true)) if known.facts().address != node.facts().address => {
                JoinVerdict::NameTaken(known)
            }
            Some((known, _)) => self.judge_life(&known, node),
        }
    }

    /// Judges the life of a node with a free name.
    pub(crate) fn judge_life(&self, known: &NodeIdentity, node: &NodeIdentity) -> JoinVerdict {
        if node.life > known.life { JoinVerdict::Welcome } else { JoinVerdict::LaterLife(known.life) }
    }

    /// Takes up a node that asked to join, and returns the members for it.
    pub(crate) fn welcome(&mut self, now: Duration, request: JoinRequest, clock_ms: u64) -> JoinAnswer {
        let mut members = request.members;
        members.push(Member::alive(request.node));
        self.on_members(now, members);
        JoinAnswer::Welcome { clock_ms, members: self.list() }
    }

    /// Returns all members that are known, this node and those that left or died among them.
    pub fn list(&self) -> Vec<Member<NodeIdentity>> {
        let own = Member::new(self.own().clone(), self.incarnation, State::Alive);
        let others = self.foca.iter_membership_state().filter(|member| member.id().id != self.own().id);
        std::iter::once(own).chain(others.cloned()).take(MEMBERS_MAX).collect()
    }

    /// Takes the list of a seed.
    pub fn on_members(&mut self, now: Duration, members: Vec<Member<NodeIdentity>>) {
        self.advance(now);
        let own = self.own().id;
        if self.has_left {
            return;
        }
        // A death of this very identity passes: foca then comes back with another revision.
        let is_news = |member: &Member<NodeIdentity>| member.id().id != own || *member.id() == *self.own();
        let members: Vec<_> = members.into_iter().filter(is_news).collect();
        let room = MEMBERS_MAX.saturating_sub(self.foca.iter_membership_state().len());
        let (known, new): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|member| self.state.lock().known.contains_key(&member.id().id));
        let updates = known.into_iter().chain(new.into_iter().take(room));
        // A node without members has nobody to tell; the seed spreads the news of it.
        let tells = self.others() > 0 || room == MEMBERS_MAX;
        let applied = self.foca_call(|foca, runtime| foca.apply_many(updates, tells, runtime));
        debug_assert!(applied.is_ok(), "identities were checked when they were read");
        self.unsettle();
        self.outputs.push_back(MembershipOutput::Changed);
    }
}

/// Returns the sentence of a node that lost its name to another node.
pub(crate) fn displaced(other: &NodeIdentity) -> String {
    let facts = other.facts();
    format!(
        "a node that started later has this node's name {} at {}; give one of them another cluster.node and start it \
         again",
        facts.name, facts.address
    )
}

fn put_members(members: &[Member<NodeIdentity>], out: &mut Vec<u8>) {
    out.put_u32(members.len() as u32);
    members.iter().for_each(|member| put_member(member, out));
}

fn take_members(state: &CodecState, from: &mut &[u8]) -> Result<Vec<Member<NodeIdentity>>, ReadFault> {
    let count = from.try_get_u32().ok().filter(|count| *count as usize <= MEMBERS_MAX);
    let malformed = ReadFault::Dropped(DatagramFault::Malformed);
    (0..count.ok_or(malformed)?).map(|_| take_member(state, from)).collect()
}

fn check_version(from: &mut &[u8]) -> Result<(), String> {
    match from.try_get_u8() {
        Ok(PROTOCOL_VERSION) => Ok(()),
        Ok(other) => Err(format!(
            "the other node speaks version {other} of the cluster's protocol, this one {PROTOCOL_VERSION}; upgrade the \
             older one"
        )),
        Err(_) => Err("an empty message".into()),
    }
}

/// Version of the protocol between nodes.
pub const PROTOCOL_VERSION: u8 = 1;

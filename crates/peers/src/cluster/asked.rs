//! Asks, messages and calls that come from other nodes: each node has a share of this one. A node
//! that wants far more is set aside.

use super::ClusterHandle;
use super::load::AskInFlight;
use crate::access::{PeerPlace, PeerTurn, ShareRefusal};
use crate::clock;
use std::net::SocketAddr;

impl ClusterHandle {
    /// Takes an ask of the node at an address in as home, unless this node has too many in flight.
    ///
    /// # Errors
    /// If the node has its share or is set aside, or if this node is busy.
    pub fn begin_ask(&self, from: SocketAddr) -> Result<AskInFlight, AskRefusal> {
        let now = clock::now();
        if self.door.shares().is_aside(from.ip(), || now) {
            return Err(AskRefusal::OverShare);
        }
        let turn = self.door.shares().admit(from, PeerPlace::Ask, now);
        let turn = turn.map_err(|refusal| over_share(refusal, from))?;
        let begun = self.load.begin(Some(turn), || self.members.load().weight_share(self.own));
        begun.ok_or(AskRefusal::Busy)
    }

    /// Takes an ask in as home likewise that is answered at once, without a count for its node.
    pub fn begin_ask_at_once(&self, from: SocketAddr) -> Option<AskInFlight> {
        let is_aside = self.is_set_aside(from);
        let weight_share = || self.members.load().weight_share(self.own);
        if is_aside { None } else { self.load.begin(None, weight_share) }
    }

    /// Takes a message with asks in, on the connection from this address.
    ///
    /// # Errors
    /// As for [`Self::begin_ask`].
    pub fn begin_message(&self, from: SocketAddr) -> Result<AskInFlight, AskRefusal> {
        let admitted = self.door.shares().admit_message(from);
        admitted.map_err(|refusal| over_share(refusal, from))?;
        self.begin_ask_at_once(from).ok_or(AskRefusal::Busy)
    }

    /// Returns `true` if the node at an address is set aside, since it wanted far more than its
    /// share.
    pub fn is_set_aside(&self, from: SocketAddr) -> bool {
        self.door.shares().is_aside(from.ip(), clock::now)
    }

    /// Returns `true` if the connection from an address may carry messages without asks.
    pub fn takes_messages(&self, from: SocketAddr) -> bool {
        !self.is_set_aside(from) && self.door.shares().admit_message(from).is_ok()
    }

    /// Takes a call of the node at an address in. The turn lasts until its answer has been sent.
    ///
    /// # Errors
    /// If the node has its share of calls.
    pub fn begin_call(&self, from: SocketAddr) -> Result<PeerTurn, AskRefusal> {
        let turn = self.door.shares().admit(from, PeerPlace::Call, clock::now());
        turn.map_err(|refusal| over_share(refusal, from))
    }
}

/// Reason for which an ask, a message or a call is not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskRefusal {
    /// This node has too many asks in flight.
    Busy,
    /// The node that asks has its share, or is set aside since it wanted far more.
    OverShare,
}

fn over_share(refusal: ShareRefusal, from: SocketAddr) -> AskRefusal {
    if refusal.sets_aside {
        tracing::warn!(%from, "a node that asks for more than its share is set aside");
    }
    AskRefusal::OverShare
}

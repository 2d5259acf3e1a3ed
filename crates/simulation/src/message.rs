//! Messages between the nodes of a simulated cluster, and the bodies that they carry.

use shoal_cooperation::invalidation::{Purge, PurgeId, Vector};
use shoal_cooperation::{AskKind, NodeId};
use shoal_core::mixed;
use std::sync::Arc;
use std::time::Duration;

/// Number of an object: URL and mode together.
pub type ObjectId = u32;

/// Number of a client's request, unique in a run.
pub type RequestId = u64;

/// Number of an ask, unique in a run.
pub type AskId = u64;

/// Body as the origin sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Body {
    /// Object that the body is of.
    pub object: ObjectId,
    /// Time at which the origin made the body.
    pub made: Duration,
    /// Request that alone may get it, if it is private.
    pub private_to: Option<RequestId>,
    /// Checksum over the others.
    pub checksum: u64,
}

/// Message between nodes.
#[derive(Clone, Debug)]
pub enum Message {
    /// Ask for an object.
    Ask(AskMessage),
    /// Sign of life of a home that fetches.
    Working(AskId),
    /// Answer to an ask.
    Answer(Answer),
    /// Purges to apply, from the node that issued or repairs them.
    Purges(Arc<Vec<Purge>>),
    /// Confirmation of purges that are on disk.
    Confirm(Arc<Vec<PurgeId>>),
    /// Hash of the sender's vector.
    Compare(u64),
    /// Vector of a sender that may lack purges.
    Lacking {
        /// Purges that the sender has applied.
        vector: Arc<Vector>,
        /// `true` if the sender joins and waits for this comparison.
        joining: bool,
    },
    /// Repair in answer to [`Message::Lacking`]: purges, or a whole vector in their place.
    Repair {
        /// Purges, in the order of each life.
        purges: Arc<Vec<Purge>>,
        /// Vector of the sender, if its log does not reach back.
        whole: Option<Arc<Vector>>,
        /// `true` if the receiver lacks more.
        has_more: bool,
    },
}

/// Ask for an object.
#[derive(Clone, Copy, Debug)]
pub struct AskMessage {
    /// Number of the ask.
    pub id: AskId,
    /// Node that the client asked.
    pub entry: NodeId,
    /// Request that began it all.
    pub request: RequestId,
    /// Kind of the ask.
    pub kind: AskKind,
    /// Object.
    pub object: ObjectId,
    /// Hops so far.
    pub hops: u8,
    /// Hash of the asker's purge vector.
    pub vector: u64,
    /// Time left for asks of peers.
    pub budget: Duration,
}

/// Answer to an ask.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Number of the ask.
    pub id: AskId,
    /// Content.
    pub reply: Reply,
    /// Asks in flight at the sender.
    pub load: u32,
}

/// Content of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// The object, with a lease for a copy if it is hot.
    Served(Body, Option<Duration>),
    /// The origin failed.
    Failed,
    /// No copy.
    Missing,
    /// Too many asks in flight.
    Busy,
    /// The sender lacks purges that the asker has.
    Behind,
}

impl Body {
    /// Makes a sound body.
    pub fn new(object: ObjectId, made: Duration, private_to: Option<RequestId>) -> Self {
        let mut body = Self { object, made, private_to, checksum: 0 };
        body.checksum = body.expected_checksum();
        body
    }

    /// Returns `true` if the body is of the object and undamaged.
    pub fn is_sound(&self, object: ObjectId) -> bool {
        self.object == object && self.checksum == self.expected_checksum()
    }

    fn expected_checksum(&self) -> u64 {
        let private = self.private_to.map_or(0, |request| mixed(request + 1));
        mixed(u64::from(self.object) ^ mixed(self.made.as_nanos() as u64) ^ private)
    }
}

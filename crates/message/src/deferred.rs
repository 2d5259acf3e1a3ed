//! Requests that wait for a message to another node of the cluster, and the replies to them.

use std::any::Any;
use std::ops::Range;

/// Request that waits for a message to another node. Requests of one lane go in one message.
pub struct PeerAsk {
    /// Number of the lane.
    pub lane: u64,
    /// The request, for the handler that made it.
    pub request: Box<dyn Any + Send>,
}

/// Replies to the requests of one message, in their order.
#[derive(Default)]
pub struct PeerReplies {
    /// All replies, one after the other.
    pub bytes: Vec<u8>,
    /// Place of each reply; `None` for a request that takes the ordinary path.
    pub places: Vec<Option<Range<usize>>>,
}

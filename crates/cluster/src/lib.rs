//! The cluster's drivers: membership, keys, and calls between nodes.
//!
//! Decisions are in `shoal_cooperation`. Bytes of objects travel through the proxy's own
//! connections and listeners; this crate has the messages that nodes exchange beside them.

#![forbid(unsafe_code)]

mod calls;
mod driver;
mod error;
mod hits;
pub mod keys;
pub mod membership;
mod object_answer;
mod object_ask;
mod shared_memory;

pub use calls::{CALL_BYTES_MAX, CallError, CallFuture, Caller, PeerCalls, PeerService};
pub use driver::{Cluster, ClusterOptions, ClusterStatus, DatagramStatus, MemberRow};
pub use error::ClusterError;
pub use hits::{BorrowedHitAnswers, BorrowedHitAsks, HITS_MAX, HitAnswer, HitAnswers, HitAsk, HitAsks};
pub use object_answer::{ANSWER_FIELD, AnswerResult, ObjectAnswer, SUM_FIELD, parse_sum, sum_value};
pub use object_ask::{AskFault, AskMode, BorrowedAsk, ObjectAsk, PEER_FIELD, TE_MARK, TE_TRAILERS};
pub use shared_memory::{
    DROPPED_MAX, GETS_BYTES_MAX, GETS_MAX, GETS_VERSION, GONE_MAX, MEMORY_CALL, MEMORY_VERSION, MemoryAnswer,
    MemoryAsk, MemoryMatter, MemoryRefusal, MemoryReply, PAGE_BYTES_MAX, PAGES_MAX, PageAnswers, PageNumber,
    PagePut, PagePuts, PutResult, PutResults,
};

/// Most bytes of a node's name, and of a cluster's.
pub const NODE_NAME_BYTES_MAX: usize = 64;

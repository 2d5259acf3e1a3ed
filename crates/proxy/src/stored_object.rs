//! What a stored object is, for whoever looks at a store from outside: read from its key and
//! metadata.

use crate::exchange::metadata::ObjectMetadata;
use crate::exchange::target::{FORWARD, Target};
use http::StatusCode;
use shoal_core::{ObjectKey, Timestamp};

/// A stored object as its metadata tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The URL that it belongs to.
    pub url: String,
    /// What it is.
    pub kind: StoredKind,
}

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A response, or a part of one: its body is the object's.
    Response {
        /// Its status.
        status: StatusCode,
        /// When it was received, or last validated.
        stored: Timestamp,
        /// Whether it may still be used without validation.
        is_fresh: bool,
        /// Its fields as they came, line by line.
        fields: Vec<(Vec<u8>, Vec<u8>)>,
        /// It is one of several that differ by request fields, or a part.
        is_variant: bool,
    },
    /// A note that responses are kept per variant.
    Variants,
    /// A note of which ranges are kept.
    Parts,
}

impl StoredObject {
    /// Reads what stands beside a body. `None` when it is not what this program writes.
    pub fn read(full_key: &[u8], metadata: &[u8], now: Timestamp) -> Option<Self> {
        let end = full_key.iter().position(|byte| *byte == 0);
        let (url, rest) = full_key.split_at(end.unwrap_or(full_key.len()));
        let url = std::str::from_utf8(url).ok()?.to_owned();
        let is_variant = !rest.strip_prefix(FORWARD).unwrap_or(rest).is_empty();
        let kind = match ObjectMetadata::decode(metadata)? {
            ObjectMetadata::Response(head) => StoredKind::Response {
                status: head.stored.status(),
                stored: head.policy.response_time(),
                is_fresh: head.policy.is_fresh(now),
                fields: head
                    .stored
                    .field_lines()
                    .map(|(name, value)| (name.to_vec(), value.to_vec()))
                    .collect(),
                is_variant,
            },
            ObjectMetadata::Vary(_) => StoredKind::Variants,
            ObjectMetadata::Parts(_) => StoredKind::Parts,
        };
        Some(Self { url, kind })
    }

    /// The keys under which the responses for a URL stand in the two modes, or notes of where they
    /// are. `None` when it is no URL of http or https.
    pub fn keys_of(url: &str) -> Option<[ObjectKey; 2]> {
        Target::parse(url).ok().map(|target| target.keys())
    }
}

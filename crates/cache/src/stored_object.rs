//! Description of a stored object for tools that inspect a store, read from key and metadata.

use crate::message::target::{FORWARD, Target};
use crate::metadata::ObjectMetadata;
use http::StatusCode;
use shoal_core::{ObjectKey, Timestamp};

/// A stored object, described by its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// URL of the object.
    pub url: String,
    /// Kind of the object.
    pub kind: StoredKind,
}

/// Kind of a stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A response, or a part of one; the object's body is its body.
    Response {
        /// Status of the response.
        status: StatusCode,
        /// Time of receipt, or of the last validation.
        stored: Timestamp,
        /// `true` if the response may be used without validation.
        is_fresh: bool,
        /// Fields as received, line by line.
        fields: Vec<(Vec<u8>, Vec<u8>)>,
        /// `true` for a part, or for one of several responses that differ by request fields.
        is_variant: bool,
    },
    /// A note that the URL has variants.
    Variants,
    /// A note of the stored ranges.
    Parts,
}

impl StoredObject {
    /// Reads the key and metadata stored beside a body. Returns `None` for a format that this
    /// program does not write.
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

    /// Returns the keys of a URL's responses, or of notes of their place, in the two modes. Returns
    /// `None` for a URL that is not http or https.
    pub fn keys_of(url: &str) -> Option<[ObjectKey; 2]> {
        Target::parse(url).ok().map(|target| target.keys())
    }
}

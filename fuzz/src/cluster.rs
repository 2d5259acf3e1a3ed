//! Messages between the nodes of a cluster.

use shoal_cooperation::NodeId;
use shoal_cooperation::directory::{DigestAnswer, DigestPull, KnownDigests};
use shoal_cooperation::invalidation::{
    Message, PURGE_BYTES_MAX, Repair, Vector, decode_purges, encode_purges,
};

/// Messages about purges are refused, or read back as the same bytes, within their bounds.
pub fn purge_messages(data: &[u8]) {
    if let Some(message) = Message::decode(data) {
        assert_eq!(message.encode(), data, "two encodings of one message");
        if let Message::Apply { purges, .. } | Message::Repaired(Repair::Entries { purges, .. }) = &message {
            assert!(purges.iter().all(|purge| purge.encoded_len() <= PURGE_BYTES_MAX));
        }
        if let Message::Current { vector, .. } | Message::Repaired(Repair::Whole(vector)) = &message {
            check_vector(vector);
        }
    }
    if let Some(purges) = decode_purges(data) {
        let mut bytes = Vec::new();
        encode_purges(&purges, &mut bytes);
        assert_eq!(bytes, data, "two encodings of purges");
    }
    if let Some(vector) = Vector::of_bytes(data) {
        check_vector(&vector);
    }
}

/// Messages about digests are refused, or read back as the same bytes; what is taken stays sound.
pub fn digest_messages(data: &[u8]) {
    if let Some(pull) = DigestPull::decode(data) {
        assert_eq!(pull.encode(), data, "two encodings of one pull");
    }
    let Some(answer) = DigestAnswer::decode(data) else { return };
    assert_eq!(answer.encode(), data, "two encodings of one answer");
    let (mut known, node) = (KnownDigests::default(), NodeId(1));
    for _ in 0..2 {
        let _ = known.receive(node, answer.clone(), std::time::Duration::ZERO);
        known.forget(NodeId(2));
    }
}

fn check_vector(vector: &Vector) {
    let mut merged = vector.clone();
    let _ = merged.merge(vector);
    assert!(merged.covers(vector), "a vector does not cover its source");
}

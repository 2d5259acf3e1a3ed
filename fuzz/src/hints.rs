//! Hints: lists from operators, `Link` fields of origins, messages of other nodes.

use shoal_cooperation::prefetch::PrefetchMessage;
use shoal_exchange::prefetch::parse;
use shoal_semantics::links::{LINKS_MAX, announced};

/// A list keeps its bounds, and no field in it is a credential.
pub fn lists(data: &[u8]) {
    let Ok(list) = parse(data) else { return };
    let lines = data.split(|byte| *byte == b'\n').count() as u64;
    assert!(list.lines.len() as u64 + list.malformed <= lines, "a line is one hint at most");
    assert!(list.pace_seconds.is_none_or(|pace| (0.0..=86_400.0).contains(&pace)));
    for line in &list.lines {
        assert!(line.fields.len() <= 8, "{line:?}");
        for (name, value) in &line.fields {
            assert!(!["cookie", "authorization", "host", "range"].contains(&&**name), "{line:?}");
            assert!(value.iter().all(|byte| (32..127).contains(byte)), "{line:?}");
        }
        assert!(line.deadline_seconds.is_none_or(|seconds| (0.0..=86_400.0).contains(&seconds)));
    }
}

/// Links are bounded, and each is a part of the field.
pub fn links(data: &[u8]) {
    let found = announced(data);
    assert!(found.len() <= LINKS_MAX);
    for link in found {
        let reference = link.reference.as_bytes();
        assert!(!reference.is_empty() && reference.iter().all(u8::is_ascii_graphic), "{link:?}");
        assert!(data.windows(reference.len()).any(|window| window == reference), "{link:?}");
    }
}

/// A message that is read is written back as it was.
pub fn messages(data: &[u8]) {
    let Some(message) = PrefetchMessage::decode(data) else { return };
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(again, data, "{message:?}");
}

//! Metadata over encoding and decoding.

use super::*;
use http::HeaderValue;
use proptest::prelude::*;
use shoal_core::Timestamp;
use shoal_semantics::CacheRules;
use shoal_semantics::storage::{ForwardedExchange, StorageDecision, may_store};

fn head() -> ResponseMetadata {
    let mut fields = HeaderMap::new();
    fields.insert("cache-control", HeaderValue::from_static("max-age=60"));
    fields.append("x-two", HeaderValue::from_static("a"));
    fields.append("x-two", HeaderValue::from_bytes(b"\xe9").expect("obs-text is allowed"));
    let exchanged = ForwardedExchange {
        method: &http::Method::GET,
        query: None,
        request: &HeaderMap::new(),
        status: StatusCode::OK,
        response: &fields,
        request_time: Timestamp::from_seconds(10),
        response_time: Timestamp::from_seconds(11),
    };
    let StorageDecision::Store(policy) = may_store(&exchanged, &CacheRules::default()) else {
        panic!("storable")
    };
    ResponseMetadata::new(
        StatusCode::OK,
        fields.clone(),
        policy,
        Provenance {
            requested: Sequence::new(10),
            names: ResponseScope {
                slots: Box::new([PurgeSlot(3), PurgeSlot(9)]),
                groups: Box::new([Key::of(b"a"), Key::of(b"b")]),
                via_site: true,
            },
            identity: Identity::unique().renewed(),
        },
    )
}

#[test]
fn responses_survive_the_store() {
    let written = Arc::new(head());
    let bytes = ObjectMetadata::Response(Arc::clone(&written)).encode();
    let Some(ObjectMetadata::Response(read)) = ObjectMetadata::decode(&bytes) else {
        panic!("a response was written")
    };
    assert_eq!(read.stored.fields(), written.stored.fields());
    assert_eq!(read.stored.as_bytes(), written.stored.as_bytes());
    assert_eq!(
        (read.policy, read.requested, &read.names, read.identity),
        (written.policy, written.requested, &written.names, written.identity)
    );
    assert!(written.stored.as_bytes().ends_with(b"x-two: a\r\nx-two: \xe9\r\n"));
}

#[test]
fn head_of_an_earlier_version_keeps_its_identity() {
    let mut bytes = ObjectMetadata::Response(Arc::new(head())).encode();
    let names = 1 + CachePolicy::BYTES + 8 + 2;
    bytes[names + 1] &= !(HAS_IDENTITY >> 8) as u8;
    bytes.drain(names + 2..names + 2 + Identity::BYTES);
    let Some(ObjectMetadata::Response(read)) = ObjectMetadata::decode(&bytes) else {
        panic!("a response was written")
    };
    let bytes = ObjectMetadata::Response(Arc::new(read.invalidated())).encode();
    let Some(ObjectMetadata::Response(renewed)) = ObjectMetadata::decode(&bytes) else {
        panic!("a response was written")
    };
    assert!(renewed.is_later_than(&read) && !read.is_later_than(&renewed));
    assert!(!read.is_of_same_response(&head()));
}

#[test]
fn notes_survive_the_store() {
    let note = VaryMarker {
        generation: 7,
        lists: vec![vec![http::header::ACCEPT], vec![http::header::ACCEPT_ENCODING, http::header::COOKIE]],
        is_pinned: false,
    };
    for is_pinned in [false, true] {
        let note = VaryMarker { is_pinned, ..note.clone() };
        let bytes = ObjectMetadata::Vary(Arc::new(note.clone())).encode();
        assert!(matches!(ObjectMetadata::decode(&bytes), Some(ObjectMetadata::Vary(read)) if *read == note));
        assert_eq!(ObjectMetadata::is_pinned(&bytes), is_pinned);
    }
    let parts = vec![PartRange { start: 0, end: 5 }, PartRange { start: 7, end: 10 }];
    let note =
        PartsMarker { head: Arc::new(head()), complete_length: 10, generation: 1, parts: parts.clone() };
    let bytes = ObjectMetadata::Parts(Arc::new(note)).encode();
    let Some(ObjectMetadata::Parts(read)) = ObjectMetadata::decode(&bytes) else {
        panic!("a parts note was written")
    };
    assert_eq!((read.complete_length, &read.parts), (10, &parts));
}

#[test]
fn truncated_records_are_not_read() {
    let bytes = ObjectMetadata::Response(Arc::new(head())).encode();
    (0..bytes.len()).for_each(|end| assert!(ObjectMetadata::decode(&bytes[..end]).is_none(), "cut at {end}"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = ObjectMetadata::decode(&bytes);
    }

    #[test]
    fn damaged_records_never_panic(at in 0usize..200, value: u8) {
        let mut bytes = ObjectMetadata::Response(Arc::new(head())).encode();
        let at = at % bytes.len();
        bytes[at] = value;
        let _ = ObjectMetadata::decode(&bytes);
    }
}

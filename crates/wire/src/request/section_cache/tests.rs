//! Remembered sections: their selection, their lifetime, and that they change nothing but the work.

use super::super::{HeadLimits, HeadParser};
use super::*;
use bytes::BytesMut;
use proptest::prelude::*;

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 4096, fields_max: 8, target_bytes_max: 64 };

fn head(line: &str, section: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\n{section}").into_bytes()
}

/// Returns `true` if `head` is plain, and its section was known.
fn is_known(remembered: &mut SectionCache, head: &[u8]) -> bool {
    let mut parser = HeadParser::new();
    let is_plain = parser.plain_by(remembered, head, &LIMITS).is_some();
    assert!(is_plain, "{}", String::from_utf8_lossy(head));
    parser.seen.is_none()
}

/// Returns another section with the slot of `section`.
fn neighbour(section: &str) -> String {
    let place = |section: &str| SectionKey::of(section.as_bytes()).expect("of a fit size").place();
    let others = (0..).map(|number| format!("Host: other{number}\r\n\r\n"));
    others.into_iter().find(|other| place(other) == place(section)).expect("one in 64")
}

#[test]
fn a_section_is_known_from_its_third_request_on() {
    let (mut remembered, mut parser) = (SectionCache::new(), HeadParser::new());
    let section = "Host: a:8080\r\nCookie: b=c\r\nReferer:  d \r\nUser-agent: e\r\nReferer: f\r\n\r\n";
    for (line, known) in
        [("GET /1", false), ("GET /2", false), ("GET /3", true), ("GET http://a:8080/4", true)]
    {
        let head = head(line, section);
        let get = parser.plain_by(&mut remembered, &head, &LIMITS).expect("plain");
        assert_eq!(parser.seen.is_none(), known, "{line}");
        assert_eq!((get.authority.host, get.authority.port), (&b"a"[..], Some(8080)));
        assert_eq!((get.path.len(), get.absolute), (2, line.contains("//")));
        assert_eq!(
            (get.referer, get.user_agent, get.head_bytes),
            (Some(&b"d"[..]), Some(&b"e"[..]), head.len())
        );
    }
}

#[test]
fn unrepeated_sections_evict_nothing() {
    let mut remembered = SectionCache::new();
    let section = "Host: a\r\n\r\n";
    let (own, other) = (head("GET /", section), head("GET /", &neighbour(section)));
    for _ in 0..2 {
        is_known(&mut remembered, &own);
    }
    for _ in 0..3 {
        assert!(!is_known(&mut remembered, &other));
        assert!(is_known(&mut remembered, &own));
    }
    for known in [false, false, true] {
        assert_eq!(is_known(&mut remembered, &other), known);
    }
    assert!(!is_known(&mut remembered, &own));
}

#[test]
fn a_section_that_is_driven_out_leaves_nothing_behind() {
    let mut remembered = SectionCache::new();
    let section = format!("Host: a\r\nCookie: {}\r\n\r\n", "secret".repeat(50));
    for (section, holds) in [(&section, true), (&neighbour(&section), false)] {
        for _ in 0..2 {
            is_known(&mut remembered, &head("GET /", section));
        }
        let mut bytes = remembered.places.iter().flat_map(|place| place.bytes.windows(6));
        assert_eq!(bytes.any(|bytes| bytes == b"secret"), holds, "{section}");
    }
}

#[test]
fn unsuitable_section_is_not_kept() {
    let long = format!("Host: a\r\nCookie: {}\r\n\r\n", "b".repeat(SECTION_BYTES_MAX));
    for section in
        [&*long, "Host: a\r\nAuthorization: Basic b\r\n\r\n", "Host: a\r\n\r\nGET /pipelined HTTP/1.1\r\n"]
    {
        let mut remembered = SectionCache::new();
        for _ in 0..4 {
            assert!(!is_known(&mut remembered, &head("GET /", section)), "{section}");
        }
        assert!(remembered.places.iter().all(|place| place.held.is_none()), "{section}");
    }
}

/// The sum of the words is the same in any order.
#[test]
fn sections_of_one_key_are_told_apart() {
    let mut remembered = SectionCache::new();
    let [own, other] =
        ["aaaaaaaabbbbbbbb", "bbbbbbbbaaaaaaaa"].map(|host| format!("Host:   {host}.example\r\n\r\n"));
    assert_eq!(SectionKey::of(own.as_bytes()), SectionKey::of(other.as_bytes()));
    for known in [false, false, true] {
        assert_eq!(is_known(&mut remembered, &head("GET /", &own)), known);
    }
    assert!(!is_known(&mut remembered, &head("GET /", &other)));
}

/// Bytes behind a head may be chosen so that both together have the head's key.
#[test]
fn a_section_that_is_known_ends_where_it_ended() {
    let mut remembered = SectionCache::new();
    let head = head("GET /", "Host: www.example.us\r\n\r\n");
    for _ in 0..2 {
        is_known(&mut remembered, &head);
    }
    let section = &head[head.len() - 24..];
    let word = |bytes: &[u8]| u64::from_le_bytes(*bytes.last_chunk().expect("8 bytes"));
    let last = *b"GET /b H";
    let filler = word(section).wrapping_sub(2 * word(&last) + 16).to_le_bytes();
    let longer = [section, &filler, &last].concat();
    assert_eq!(SectionKey::of(&longer), SectionKey::of(section));
    let buffer = [&head[..], &filler, &last].concat();
    let get = HeadParser::new().plain_by(&mut remembered, &buffer, &LIMITS).map(|get| get.head_bytes);
    assert_eq!(get, Some(head.len()));
}

/// Limits are checked each time.
#[test]
fn a_section_that_is_known_keeps_to_limits() {
    let mut remembered = SectionCache::new();
    let head = head("GET /path", "Host: a\r\nAccept: b\r\n\r\n");
    for _ in 0..2 {
        is_known(&mut remembered, &head);
    }
    let exact = HeadLimits { head_bytes_max: head.len(), fields_max: 2, target_bytes_max: 5 };
    let mut is_taken = |limits| HeadParser::new().plain_by(&mut remembered, &head, &limits).is_some();
    assert!(is_taken(exact));
    assert!(!is_taken(HeadLimits { head_bytes_max: head.len() - 1, ..exact }));
    assert!(!is_taken(HeadLimits { fields_max: 1, ..exact }));
    assert!(!is_taken(HeadLimits { target_bytes_max: 4, ..exact }));
}

/// Contents of one buffer: a head, changed or not, and bytes behind it.
#[derive(Clone, Debug)]
struct Arrival {
    buffer: Vec<u8>,
    limits: HeadLimits,
}

fn arrival(sections: Vec<String>) -> impl Strategy<Value = Arrival> {
    let line = prop_oneof![
        6 => Just("GET / HTTP/1.1\r\n"),
        2 => Just("GET http://a/b HTTP/1.1\r\n"),
        1 => Just("GET http://a:80/b HTTP/1.1\r\n"),
        1 => Just("GET /# HTTP/1.1\r\n"),
        1 => Just("GET /a b HTTP/1.1\r\n"),
        1 => Just("GET / HTTP/1.0\r\n"),
        1 => Just("GET / HTTP/1.1\n"),
        1 => Just("HEAD / HTTP/1.1\r\n"),
    ];
    let behind = prop_oneof![
        4 => Just(""),
        1 => Just("\r\n"),
        1 => Just("G"),
        1 => Just("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ];
    let change = prop::option::weighted(
        0.5,
        (any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(b'\n'), Just(b':')]),
    );
    let swap = prop::option::weighted(0.2, [any::<prop::sample::Index>(), any::<prop::sample::Index>()]);
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let limits =
        (20..200usize, 0..6usize, 0..16usize).prop_map(|(head_bytes_max, fields_max, target_bytes_max)| {
            HeadLimits { head_bytes_max, fields_max, target_bytes_max }
        });
    let limits = prop_oneof![Just(LIMITS), limits];
    (line, prop::sample::select(sections), behind, change, swap, cut, limits).prop_map(
        |(line, mut section, behind, change, swap, cut, limits)| {
            if let Some(at) = swap {
                section = with_words_swapped(&section, at);
            }
            let mut buffer = format!("{line}{section}{behind}").into_bytes();
            if let Some((at, byte)) = change {
                let at = at.index(buffer.len());
                buffer[at] = byte;
            }
            buffer.truncate(cut.map_or(buffer.len(), |at| at.index(buffer.len())));
            Arrival { buffer, limits }
        },
    )
}

/// Returns a section with the same key, unless the last word is changed.
fn with_words_swapped(section: &str, at: [prop::sample::Index; 2]) -> String {
    let mut bytes = section.as_bytes().to_vec();
    let (words, _) = bytes.as_chunks_mut::<8>();
    let [one, other] = at.map(|at| at.index(words.len()));
    words.swap(one, other);
    String::from_utf8(bytes).expect("ASCII")
}

/// Makes sections, and the buffers that arrive when each of them is remembered.
fn arrivals() -> impl Strategy<Value = (Vec<String>, Vec<Arrival>)> {
    let field = "(Accept|cookie|x-[ab]|Referer|user-agent|Connection|TE|authorization):[ \t]?[a-c:]{0,9}";
    let fields = (0..3usize, prop::collection::vec(field, 0..4));
    let section = ("Host: (a|b)(:80)?", fields).prop_map(|(host, (at, mut lines))| {
        lines.insert(at.min(lines.len()), host);
        lines.join("\r\n") + "\r\n\r\n"
    });
    prop::collection::vec(section, 1..3).prop_flat_map(|sections| {
        let arrivals = prop::collection::vec(arrival(sections.clone()), 1..12);
        (Just(sections), arrivals)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn remembered_section_changes_no_answer((sections, arrivals) in arrivals()) {
        let mut remembered = SectionCache::new();
        for section in &sections {
            for _ in 0..2 {
                HeadParser::new().plain_by(&mut remembered, &head("GET /", section), &LIMITS);
            }
        }
        for Arrival { buffer, limits } in arrivals {
            let mut parser = HeadParser::new();
            let by_memory = format!("{:?}", parser.plain_by(&mut remembered, &buffer, &limits));
            let without = format!("{:?}", HeadParser::new().plain_by(&mut SectionCache::new(), &buffer, &limits));
            prop_assert_eq!(by_memory, without);
            let (mut left, mut left_without) = (BytesMut::from(&buffer[..]), BytesMut::from(&buffer[..]));
            let taken = parser.parse(&mut left, &limits);
            let taken_without = HeadParser::new().parse(&mut left_without, &limits);
            prop_assert_eq!(format!("{taken:?} {left:?}"), format!("{taken_without:?} {left_without:?}"));
        }
    }
}

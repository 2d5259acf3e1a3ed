//! Field sections read as httparse reads them, except for bare LF, which `Strict` refuses.

use super::*;
use httparse::{ParserConfig, Status};
use proptest::prelude::*;

type Field = (Vec<u8>, Vec<u8>);

/// Makes sections, nearly valid and mangled.
fn section() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![9 => "[a-zA-Z0-9-]{1,20}", 2 => "[!#-'*+.^_`|~a]{1,4}", 1 => "[ -~]{0,3}"];
    let white = "[ \t]{0,2}";
    let value = prop_oneof![9 => "[ -~]{0,30}", 1 => "[ \tä:]{0,70}"];
    let colon = prop_oneof![9 => Just(":"), 1 => Just(" :"), 1 => Just("")];
    let end = prop_oneof![12 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r"), 1 => Just("\r\n "), 1 => Just("\r\n\t\r\n\t")];
    let line =
        (name, colon, white, value, white, end).prop_map(|(name, colon, before, value, after, end)| {
            format!("{name}{colon}{before}{value}{after}{end}")
        });
    let mangle = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    let last = prop_oneof![9 => Just("\r\n"), 1 => Just("\n"), 1 => Just("")];
    (prop::collection::vec(line, 0..8), last, mangle).prop_map(|(lines, last, mangle)| {
        let mut bytes = [&lines.concat(), last, "next: one\r\n"].concat().into_bytes();
        if let Some((at, byte)) = mangle {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

/// Reads a section with [`Lines`]; `Some(None)` for a partial one.
fn ours(bytes: &[u8], manner: Strictness) -> Option<Option<(usize, Vec<Field>)>> {
    let mut fields = Vec::new();
    match Lines::new(bytes, manner).fields(16, &mut fields) {
        Ok(SectionProgress::Whole { end, is_folded }) => {
            let taken = |field: &FieldLine| (bytes[field.name()].to_vec(), bytes[field.value()].to_vec());
            let fields: Vec<_> = fields.iter().map(taken).collect();
            assert_eq!(is_folded, fields.iter().any(|(_, value)| value.contains(&b'\n')) || is_folded);
            assert!(manner == Strictness::Lenient || !is_folded);
            Some(Some((end, fields)))
        }
        Ok(SectionProgress::Partial) => Some(None),
        Ok(SectionProgress::TooMany) | Err(_) => None,
    }
}

fn httparses(bytes: &[u8], manner: Strictness) -> Option<Option<(usize, Vec<Field>)>> {
    let text = [b"HTTP/1.1 200 OK\r\n", bytes].concat();
    let mut slots = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut slots);
    let is_lenient = manner == Strictness::Lenient;
    let mut config = ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(is_lenient)
        .allow_obsolete_multiline_headers_in_responses(is_lenient);
    match config.parse_response(&mut response, &text) {
        Ok(Status::Complete(end)) => {
            let fields = response.headers.iter().map(|field| (field.name.into(), field.value.into()));
            Some(Some((end - (text.len() - bytes.len()), fields.collect())))
        }
        Ok(Status::Partial) => Some(None),
        Err(_) => None,
    }
}

/// Returns `true` if an LF occurs without a CR before it.
fn has_bare_lf(bytes: &[u8]) -> bool {
    (0..bytes.len()).any(|at| bytes[at] == b'\n' && !bytes[..at].ends_with(b"\r"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn sections_are_read_as_httparse_reads_them(bytes in section()) {
        for manner in [Strictness::Strict, Strictness::Lenient] {
            let (ours, theirs) = (ours(&bytes, manner), httparses(&bytes, manner));
            match (&ours, &theirs) {
                (Some(Some((end, _))), _) if manner == Strictness::Strict => prop_assert!(!has_bare_lf(&bytes[..*end])),
                (None, Some(_)) if manner == Strictness::Strict && has_bare_lf(&bytes) => continue,
                // A name without its colon may be found invalid sooner or later.
                (Some(None), None) => continue,
                _ => {}
            }
            prop_assert_eq!(ours, theirs, "{:?} {:?}", manner, String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for manner in [Strictness::Strict, Strictness::Lenient] {
            let mut fields = Vec::new();
            if let Ok(SectionProgress::Whole { end, .. }) = Lines::new(&bytes, manner).fields(16, &mut fields) {
                prop_assert!(end <= bytes.len());
            }
        }
    }
}

#[test]
fn fields_beyond_the_limit_are_said() {
    let read = |text: &[u8]| Lines::new(text, Strictness::Strict).fields(2, &mut Vec::new());
    assert_eq!(read(b"a: 1\r\nb: 2\r\n\r\nc"), Ok(SectionProgress::Whole { end: 14, is_folded: false }));
    assert_eq!(read(b"a: 1\r\nb: 2\r\nc: 3\r\n\r\n"), Ok(SectionProgress::TooMany));
    assert_eq!(read(b"a: 1\r\nb: 2\r\nc: 3"), Ok(SectionProgress::Partial));
}

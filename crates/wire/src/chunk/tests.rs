//! Chunked bodies: accepted and refused ones, and written ones that read back.

use super::*;
use proptest::prelude::*;

/// Data, trailers, and remaining bytes.
type Read = (Vec<u8>, Option<HeaderMap>, Vec<u8>);

/// Returns the decoder's whole output for `text`, given in pieces of `step` bytes.
fn decode(text: &[u8], step: usize) -> Result<Read, MalformedBody> {
    let mut decoder = ChunkDecoder::new();
    let mut buffer = BytesMut::new();
    let mut data = Vec::new();
    for (index, piece) in text.chunks(step.max(1)).enumerate() {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer)? {
                BodyEvent::Data(bytes) => data.extend_from_slice(&bytes),
                BodyEvent::NeedMore => break,
                BodyEvent::End(trailers) => {
                    assert!(decoder.is_ended());
                    buffer.extend_from_slice(&text[((index + 1) * step).min(text.len())..]);
                    return Ok((data, trailers, buffer.to_vec()));
                }
            }
        }
    }
    Err(MalformedBody("unfinished"))
}

fn check(text: &str, expected: Result<(&str, &str), &str>) {
    for step in [1, 2, 3, text.len()] {
        let found = decode(text.as_bytes(), step);
        match (&found, expected) {
            (Ok((data, _, rest)), Ok((body, left))) => {
                assert_eq!((&data[..], &rest[..]), (body.as_bytes(), left.as_bytes()), "{text:?} by {step}");
            }
            (Err(MalformedBody(reason)), Err(expected)) => {
                assert_eq!(*reason, expected, "{text:?} by {step}")
            }
            _ => panic!("{text:?} by {step} gave {found:?}"),
        }
    }
}

#[test]
fn chunks_are_read() {
    check("0\r\n\r\nnext", Ok(("", "next")));
    check("3\r\nabc\r\nA\r\n0123456789\r\n00\r\n\r\n", Ok(("abc0123456789", "")));
    check("3;name=value\r\nabc\r\n0;x\r\n\r\n", Ok(("abc", "")));
    check("3 ;name=\"quoted; text\"\r\nabc\r\n0\r\n\r\n", Ok(("abc", "")));
    check("3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\nnext", Ok(("abc", "next")));
}

#[test]
fn odd_framing_is_refused() {
    let cases = [
        ("\r\n", "invalid chunk size"),
        ("+3\r\nabc", "invalid chunk size"),
        ("0x3\r\nabc", "invalid chunk size"),
        ("3 \r\nabc", "invalid chunk size"),
        (" 3\r\nabc", "invalid chunk size"),
        ("-1\r\n", "invalid chunk size"),
        ("3\nabc\r\n", "invalid chunk size"),
        ("3\r\rabc", "chunk not ended by CRLF"),
        ("3\r\nabcd\r\n", "chunk not ended by CRLF"),
        ("3\r\nabc\n0\r\n\r\n", "chunk not ended by CRLF"),
        ("3\r\nabc\rX0\r\n\r\n", "chunk not ended by CRLF"),
        ("3;a\nb\r\nabc", "invalid chunk extension"),
        ("3;a\0\r\nabc", "invalid chunk extension"),
        ("10000000000000000\r\n", "chunk size too large"),
        ("00000000000000003\r\n", "chunk size too large"),
        ("0\r\nX : y\r\n\r\n", "invalid trailers"),
        ("0\r\nX: y\r\n z\r\n\r\n", "invalid trailers"),
        ("0\r\nX: y\n\r\n", "trailer line not ended by CRLF"),
        ("0\r\nX: y\r\n\n", "trailer line not ended by CRLF"),
        ("0\r\n\n", "trailer line not ended by CRLF"),
        ("3\r\nab", "unfinished"),
        ("0\r\n", "unfinished"),
        ("0\r\nX: y\r\n", "unfinished"),
    ];
    for (text, reason) in cases {
        check(text, Err(reason));
    }
}

#[test]
fn framing_must_stay_in_proportion() {
    let padded = format!("1;{}\r\na\r\n", "x".repeat(300)).repeat(60);
    check(&padded, Err("chunk framing out of proportion to its data"));
    let small = "1\r\na\r\n".repeat(20_000) + "0\r\n\r\n";
    assert_eq!(decode(small.as_bytes(), 4096).map(|(data, ..)| data.len()), Ok(20_000));
    let many = format!("0\r\n{}\r\n", "A: b\r\n".repeat(TRAILERS_MAX + 1));
    check(&many, Err("trailers too large"));
    let long = format!("0\r\nA: {}\r\n\r\n", "b".repeat(TRAILER_BYTES_MAX));
    check(&long, Err("trailers too large"));
}

#[test]
fn forbidden_trailers_are_dropped() {
    let text = b"0\r\nContent-Length: 5\r\nX-Sum: 7\r\nHost: b\r\n\r\n";
    let (_, trailers, _) = decode(text, 7).expect("well formed");
    let trailers = trailers.expect("one is left");
    assert_eq!(trailers.len(), 1);
    assert_eq!(trailers["x-sum"], "7");
    let (_, trailers, _) = decode(b"0\r\nHost: b\r\n\r\n", 64).expect("well formed");
    assert_eq!(trailers, None);
}

proptest! {
    #[test]
    fn written_chunks_read_back(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..600), 0..6),
        trailer in prop::option::of("[a-z0-9]{0,12}"),
        step in 1usize..700,
    ) {
        let trailers = trailer.map(|value| {
            let mut map = HeaderMap::new();
            map.insert("x-sum", HeaderValue::from_str(&value).expect("plain"));
            map
        });
        let mut text = Vec::new();
        for chunk in &chunks {
            size_line(&mut text, chunk.len());
            text.extend_from_slice(chunk);
            text.extend_from_slice(CRLF);
        }
        last(&mut text, trailers.as_ref());
        text.extend_from_slice(b"GET");
        let (data, read, rest) = decode(&text, step).expect("what we write is well formed");
        prop_assert_eq!(data, chunks.concat());
        prop_assert_eq!(read, trailers);
        prop_assert_eq!(rest, b"GET");
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200), step in 1usize..50) {
        let _ = decode(&bytes, step);
    }

    #[test]
    fn splitting_the_input_changes_nothing(
        pieces in prop::collection::vec(
            prop_oneof![Just("3\r\n"), Just("abc"), Just("\r\n"), Just("0\r\n"), Just("\n"), Just(";x"), Just("A: b\r\n")],
            0..12,
        ),
        step in 1usize..9,
    ) {
        let text = pieces.concat().into_bytes();
        let whole = decode(&text, text.len().max(1));
        prop_assert_eq!(decode(&text, step), whole);
    }
}

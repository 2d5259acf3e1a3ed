//! Streams with bad lines, broken ends and other defects.

use super::*;
use std::io::Write;

type Requests = Vec<(String, Option<u64>)>;

fn read(bytes: &[u8], options: &ReadOptions) -> Result<(Requests, ReadReport), Error> {
    let input = Input::new(io::Cursor::new(bytes.to_vec())).map_err(Error::Input)?;
    let mut reader = Reader::of(input, options)?;
    let mut found = Vec::new();
    while let Some(request) = reader.next(|record| (record.url.to_string(), record.bytes))? {
        found.push(request);
    }
    assert!(reader.next(|_| ())?.is_none(), "the end stays the end");
    Ok((found, reader.reading().clone()))
}

const TEXT: &[u8] =
    b"# two of six lines are bad\nhttp://a/ 10\nhttp://b/ many\n\nhttp://c/ 30\r\nhttp://d/ -7";

fn compressed(kind: Compression, bytes: &[u8]) -> Vec<u8> {
    match kind {
        Compression::Plain => bytes.to_vec(),
        Compression::Gzip => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            writer.write_all(bytes).expect("memory");
            writer.finish().expect("memory")
        }
        Compression::Zstd => zstd::encode_all(bytes, 3).expect("memory"),
        Compression::Xz => XZ.to_vec(),
    }
}

/// `TEXT` compressed by the xz tool.
const XZ: &[u8] = include_bytes!("text.xz");

use crate::input::Compression;

const KINDS: [Compression; 4] = [Compression::Plain, Compression::Gzip, Compression::Zstd, Compression::Xz];

#[test]
fn bad_lines_are_counted_and_kept_with_their_numbers() {
    for kind in KINDS {
        let (found, reading) = read(&compressed(kind, TEXT), &ReadOptions::default()).expect("readable");
        assert_eq!(found, [("http://a/".to_owned(), Some(10)), ("http://c/".to_owned(), Some(30))]);
        assert_eq!((reading.lines, reading.requests, reading.bad), (6, 2, 2));
        assert_eq!((reading.compression, reading.format), (kind.name(), Format::UrlSize));
        let told: Vec<_> = reading.problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            told,
            [
                "line 3: the size is not a whole number: \"http://b/ many\"",
                "line 6: the size is not a whole number: \"http://d/ -7\""
            ]
        );
    }
}

#[test]
fn strictness_stops_at_the_first() {
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    let error = read(TEXT, &strict).expect_err("a bad line");
    assert_eq!(error.to_string(), "line 3: the size is not a whole number: \"http://b/ many\"");
}

#[test]
fn members_and_frames_in_a_row_are_one_stream() {
    for kind in [Compression::Gzip, Compression::Zstd] {
        let twice = [compressed(kind, b"a/ 1\n"), compressed(kind, b"b/ 2\n")].concat();
        assert_eq!(read(&twice, &ReadOptions::default()).expect("readable").0.len(), 2, "{kind:?}");
    }
}

#[test]
fn broken_stream_returns_lines_before_break() {
    let mut text = String::new();
    for line in 0..200_000u64 {
        text += &format!("http://h{}.example/{line} {}\n", line.wrapping_mul(2654435761) % 4093, line % 997);
    }
    for kind in [Compression::Gzip, Compression::Zstd] {
        let mut whole = compressed(kind, text.as_bytes());
        whole.truncate(whole.len() / 2);
        let (found, reading) = read(&whole, &ReadOptions::default()).expect("a beginning");
        assert!(found.len() > 10_000 && found.len() < 200_000, "{}", found.len());
        assert!(reading.problems.last().is_some_and(|problem| problem.reason.contains("breaks off")));
        let strict = ReadOptions { strict: true, ..ReadOptions::default() };
        assert!(matches!(read(&whole, &strict), Err(Error::Bad(_))));
    }
    for cut in 7..XZ.len() {
        // The cut stream must give an error or fewer lines, never a panic.
        let _ = read(&XZ[..cut], &ReadOptions::default());
    }
}

#[test]
fn long_lines_are_bad_and_not_held() {
    let long = [&b"http://a/ 1\n"[..], &vec![b'x'; 10 << 20], b"\nhttp://b/ 2\n"].concat();
    let (found, reading) = read(&long, &ReadOptions::default()).expect("readable");
    assert_eq!((found.len(), reading.bad), (2, 1));
    assert_eq!(reading.problems[0].to_string(), "line 2: the line is too long");
}

#[test]
fn times_that_fall_are_counted() {
    let text = b"time_s,url\n5,a\n6,b\n4,c\n,d\n4,e\n99999999999999,f\n";
    let (found, reading) = read(text, &ReadOptions::default()).expect("readable");
    assert_eq!((found.len(), reading.out_of_order, reading.bad), (5, 1, 1));
    assert_eq!(
        reading.problems[0].to_string(),
        "line 7: the time is no number of seconds; a column called time_ms, time_us or time_ns has other units: \"99999999999999,f\""
    );
}

#[test]
fn lines_of_another_format_are_bad_and_counted() {
    let squid = "1066036250.603 310 192.0.2.30 TCP_MISS/200 1234 GET http://a.example/ - NONE/- -\n";
    let common = "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326\n";
    let mixed = [squid.repeat(30), common.repeat(7), squid.repeat(3)].concat();
    let (found, reading) = read(mixed.as_bytes(), &ReadOptions::default()).expect("readable");
    assert_eq!((found.len(), reading.bad, reading.format), (33, 7, Format::Squid));
    assert_eq!(reading.problems[0].line, 31);
}

#[test]
fn without_a_format_there_is_an_error() {
    for bytes in [&b""[..], b"\n\n", b"what is this line\n", &[0x1F, 0x8B, 0, 0], &[0xFF; 100]] {
        let outcome = read(bytes, &ReadOptions::default());
        assert!(
            matches!(outcome, Err(Error::Format(_) | Error::Unknown(_) | Error::Input(_)))
                || bytes[0] == 0xFF,
            "{bytes:?}"
        );
    }
    let told = ReadOptions { format: Some(Format::Squid), ..ReadOptions::default() };
    assert_eq!(read(b"http://a/ 1\n", &told).expect("as told").1.bad, 1);
}

#[test]
fn log_half_in_another_format_is_an_error() {
    let squid = "1066036250.603 310 192.0.2.30 TCP_MISS/200 1234 GET http://a.example/ - NONE/- -\n";
    let common = "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326\n";
    let mixed = [squid.repeat(60), common.repeat(60)].concat();
    let error = read(mixed.as_bytes(), &ReadOptions::default()).expect_err("half of it is lost");
    let told = error.to_string();
    for part in
        ["60 of 120 lines are bad for the format squid", "60 of them fit the format common", "line 61"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let allowed = ReadOptions { bad_lines_max: 1.0, ..ReadOptions::default() };
    let (found, reading) = read(mixed.as_bytes(), &allowed).expect("it is allowed");
    assert_eq!((found.len(), reading.bad, reading.other_format), (60, 60, Some((Format::Common, 60))));
    let input = Input::new(io::Cursor::new(mixed.into_bytes())).expect("memory");
    let mut reader = Reader::of(input, &ReadOptions::default()).expect("a format");
    for _ in 0..60 {
        assert!(reader.next(|_| ()).expect("Squid's half").is_some());
    }
    assert!(reader.check().is_ok(), "who stops before the other half has not met it");
}

#[test]
fn long_first_line_does_not_hide_the_format() {
    let lines = "time_s,url,bytes\n1,a,10\n2,b,20\n";
    for length in [PEEKED - 100, PEEKED + 100, 300 << 10, 10 << 20] {
        for (rest, format, requests) in
            [(lines, Format::Table, 2), (&"http://a/ 1\n".repeat(9), Format::UrlSize, 9)]
        {
            let text = ["x x x ".repeat(length / 6).as_str(), "\n", rest].concat();
            let read = read(text.as_bytes(), &ReadOptions::default());
            // A first line that the detection sees is a line of data, and the second is no heading.
            if length < PEEKED && format == Format::Table {
                continue;
            }
            let (found, reading) = read.unwrap_or_else(|error| panic!("{length} {format:?}: {error}"));
            assert_eq!((found.len(), reading.format, reading.bad), (requests, format, 1), "{length}");
            assert_eq!(reading.problems[0].line, 1);
        }
    }
    let endless = "x".repeat(10 << 20);
    assert!(matches!(
        read(endless.as_bytes(), &ReadOptions::default()),
        Err(Error::Format(_) | Error::Unknown(_))
    ));
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    let text = format!("{endless}\nhttp://a/ 1\n");
    assert!(matches!(read(text.as_bytes(), &strict), Err(Error::Bad(_))));
}

/// Bytes that the detection sees.
const PEEKED: usize = 64 << 10;

#[test]
fn a_short_stream_that_breaks_off_is_read_up_to_there() {
    let lines: String = (0..2000).map(|at| format!("http://a.example/{} {}\n", at * at % 7919, at)).collect();
    for kind in [Compression::Gzip, Compression::Zstd] {
        let whole = compressed(kind, lines.as_bytes());
        let mut found = 0;
        for cut in [whole.len() - 1, whole.len() - 9, whole.len() / 2] {
            match read(&whole[..cut], &ReadOptions::default()) {
                Ok((requests, reading)) => {
                    let told = reading.problems.last().map(Problem::to_string).unwrap_or_default();
                    assert!(told.contains("the stream breaks off"), "{kind:?} {cut}: {told}");
                    let expected = lines.lines().take(requests.len());
                    assert!(requests.iter().zip(expected).all(|((url, _), line)| line.starts_with(url)));
                    found += requests.len();
                }
                // A compressor may return nothing before its block is whole.
                Err(Error::Input(_)) => {}
                Err(other) => panic!("{kind:?} {cut}: {other}"),
            }
        }
        // A block of Zstandard is longer than this text.
        assert!(found > 0 || kind == Compression::Zstd, "{kind:?}");
        assert!(matches!(read(&whole[..7], &ReadOptions::default()), Err(Error::Input(_))), "{kind:?}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_column() {
    let text = "\u{feff}time_s,url,bytes\n5,a,10\n";
    let mut reader = Reader::new(text.as_bytes(), &ReadOptions::default()).expect("a table");
    assert_eq!(reader.next(|record| record.time_ms).expect("readable"), Some(Some(5000)));
    let wide: Vec<u8> = "\u{feff}time_s,url".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let refused = Reader::new(&wide[..], &ReadOptions::default()).err().expect("it is not UTF-8");
    assert!(refused.to_string().contains("UTF-16"), "{refused}");
    let refused =
        Reader::new(&b"# x\nthree words here\n"[..], &ReadOptions::default()).err().expect("no format");
    assert!(refused.to_string().ends_with(": \"three words here\""), "{refused}");
}

//! Traces in columns: written traces are read back, and damaged traces are refused.

use super::*;
use crate::record::Record;

fn records() -> Vec<Record<'static>> {
    let whole = Record {
        time_ms: Some(971_186_136_004),
        client: Some("192.0.2.7".into()),
        method: Some("GET".into()),
        status: Some(200),
        url: "http://u@a.example:80/x?y".into(),
        bytes: Some(1234),
        outcome: Some(crate::Outcome::Hit),
        ttl_seconds: None,
    };
    let bare = Record { url: "/a path".into(), ..Record::default() };
    let early = Record { time_ms: Some(971_186_000_000), bytes: Some(0), ..whole.clone() };
    let other = Record {
        client: Some("cs17".into()),
        method: Some("POST".into()),
        url: "http://a.example/é".into(),
        outcome: Some(crate::Outcome::Miss),
        ..whole.clone()
    };
    vec![whole, bare, early, other]
}

fn written(records: &[Record<'_>]) -> Vec<u8> {
    let mut writer = ColumnWriter::default();
    records.iter().for_each(|record| writer.put(record).expect("names have numbers"));
    let mut bytes = Vec::new();
    writer.finish(&mut bytes).expect("memory");
    bytes
}

fn read(bytes: &[u8]) -> Vec<Record<'_>> {
    let layout = Layout::of(bytes).expect("a trace");
    (0..layout.requests()).map(|number| layout.record(bytes, number).expect("a request")).collect()
}

#[test]
fn columns_survive_round_trip() {
    assert_eq!(read(&written(&records())), records());
    assert!(read(&written(&[])).is_empty());
    let wide = Record {
        time_ms: Some(u64::from(u32::MAX)),
        bytes: Some(u64::from(u32::MAX)),
        url: "x".into(),
        ..Record::default()
    };
    let all = vec![Record { time_ms: Some(0), bytes: None, ..wide.clone() }, wide];
    assert_eq!(read(&written(&all)), all);
}

#[test]
fn many_clients_and_methods_have_numbers() {
    let names: Vec<String> = (0..70_000).map(|number| format!("c{number}")).collect();
    for clients in [254, 255, 256, 65_535, 65_536, 70_000] {
        let record = |name| Record { client: Some(String::into(name)), url: "a".into(), ..Record::default() };
        let all: Vec<Record<'_>> = names[..clients].iter().cloned().map(record).collect();
        assert_eq!(read(&written(&all)), all, "{clients} clients");
    }
    let record =
        |name: &String| Record { method: Some(name.clone().into()), url: "a".into(), ..Record::default() };
    let all: Vec<Record<'_>> = names[..100].iter().map(record).collect();
    let bytes = written(&all);
    let methods: Vec<_> = read(&bytes).into_iter().map(|record| record.method).collect();
    assert!(methods[..METHODS_MAX].iter().zip(&names).all(|(a, b)| a.as_deref() == Some(b)));
    assert!(methods[METHODS_MAX..].iter().all(Option::is_none));
}

#[test]
fn the_bytes_are_those_of_the_description() {
    let bytes = written(&records()[..1]);
    let number = |at: usize, width: usize| {
        bytes[at..at + width].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte))
    };
    assert_eq!((&bytes[..8], number(8, 4)), (MAGIC, 1));
    let words: Vec<u64> = (0..10).map(|index| number(16 + 8 * index, 8)).collect();
    assert_eq!(words, [1, 1, 1, 1, 1, 16, 9, 9, 3, 971_186_136_004]);
    assert_eq!(bytes[96..104], [4, 4, 1, 0, 0, 0, 0, 0]);
    // Sections of one cell each, at multiples of 8: time, bytes, object, client, status, marks,
    // host, split, four ends, four texts.
    assert_eq!((number(128, 8), number(136, 8), number(144, 8), number(152, 8)), (0, 1234, 0, 0));
    assert_eq!((number(160, 8), number(168, 8)), (200, 1 << 6 | 1));
    assert_eq!((number(176, 8), number(184, 8)), (0, 9));
    assert_eq!([192, 200, 208, 216].map(|at| number(at, 8)), [16, 9, 9, 3]);
    assert_eq!(&bytes[224..240], b"http://u@:80/x?y");
    assert_eq!(&bytes[240..249], b"a.example");
    assert_eq!((&bytes[256..265], &bytes[272..275]), (&b"192.0.2.7"[..], &b"GET"[..]));
    assert_eq!(bytes.len(), 280 + 8);
}

#[test]
fn damage_is_found() {
    let whole = written(&records());
    for cut in 0..whole.len() {
        assert!(Layout::of(&whole[..cut]).is_err(), "{cut} bytes");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert!(Layout::of(&bytes).is_err(), "byte {at}");
        // Even without the checksum of the columns, damaged bytes may give wrong records but must
        // not panic.
        if let Ok(layout) = Layout::of_header(&bytes) {
            (0..=layout.requests()).for_each(|number| drop(layout.record(&bytes, number)));
        }
    }
    let longer = [&whole[..], &[0]].concat();
    let length = whole.len() as u64;
    assert_eq!(Layout::of(&longer).err(), Some(Damage::Length { expected: length, found: length + 1 }));
    let mut version = whole;
    version[8] = 2;
    assert_eq!(Layout::of(&version).err(), Some(Damage::Version(2)));
}

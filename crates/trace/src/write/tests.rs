//! Round trips of traces.

use super::*;
use crate::reader::{ReadOptions, Reader};
use crate::{Format, Input};
use std::io::Cursor;

fn records() -> Vec<Record<'static>> {
    let first = Record {
        time_ms: Some(971_186_136_000),
        client: Some("192.0.2.7".into()),
        method: Some("GET".into()),
        status: Some(200),
        url: "http://a.example/x,\"y\"".into(),
        bytes: Some(1234),
        outcome: Some(crate::Outcome::Hit),
        ttl_seconds: None,
    };
    let second = Record { url: "7".into(), ..Record::default() };
    let third = Record {
        outcome: Some(crate::Outcome::Bypass),
        status: None,
        time_ms: Some(971_186_137_000),
        ..first.clone()
    };
    vec![first, second, third]
}

fn written(target: Target, name: &str) -> (Vec<u8>, Lossy) {
    let output = Output::named(name, Vec::new()).expect("a compressor");
    let mut writer = Writer::new(target, output, 8192).expect("memory");
    records().iter().for_each(|record| writer.put(record).expect("memory"));
    let (output, lossy) = writer.finish().expect("memory");
    (output.finish().expect("memory"), lossy)
}

fn read(bytes: Vec<u8>) -> (Vec<Record<'static>>, Format) {
    let input = Input::new(Cursor::new(bytes)).expect("memory");
    let mut reader = Reader::of(input, &ReadOptions::default()).expect("a format");
    let mut found = Vec::new();
    while let Some(record) = reader.next(|record| record.clone().into_owned()).expect("nothing is strict") {
        found.push(record);
    }
    assert_eq!(reader.reading().bad, 0, "{:?}", reader.reading().problems);
    (found, reader.reading().format)
}

#[test]
fn columns_and_csv_survive_compressed_round_trip() {
    for (target, format) in [(Target::Shoal, Format::Shoal), (Target::Csv, Format::Table)] {
        for name in ["trace", "trace.gz", "trace.zst"] {
            let (bytes, lossy) = written(target, name);
            assert_eq!(read(bytes), (records(), format), "{} {name}", target.name());
            assert_eq!(lossy, Lossy::default());
        }
    }
}

#[test]
fn oracle_general_keeps_only_its_fields() {
    let (bytes, lossy) = written(Target::OracleGeneral, "trace");
    assert_eq!(lossy, Lossy { times: 1, sizes: 1, clipped: 0 });
    let next: Vec<u64> =
        bytes.chunks(24).map(|record| u64::from_le_bytes(record[16..].try_into().expect("8"))).collect();
    assert_eq!(next, [2, u64::MAX, u64::MAX]);
    let input = Input::new(Cursor::new(bytes)).expect("memory");
    let told = ReadOptions { format: Some(Format::OracleGeneral), ..ReadOptions::default() };
    let mut reader = Reader::of(input, &told).expect("as told");
    let mut found = Vec::new();
    let shown = |record: &Record<'_>| (record.time_ms, record.url.to_string(), record.bytes);
    while let Some(request) = reader.next(shown).expect("nothing is strict") {
        found.push(request);
    }
    assert_eq!((found[1].clone(), reader.reading().out_of_order), ((Some(1000), "7".into(), Some(8192)), 1));
    assert_eq!((found[0].1 == found[2].1, found[0].0, found[2].2), (true, Some(971_186_136_000), Some(1234)));
}

#[test]
fn names_of_files_tell_the_format() {
    for (name, target) in [
        ("a.shoal", Some(Target::Shoal)),
        ("a.b.CSV.gz", Some(Target::Csv)),
        ("w.oracleGeneral.zst", Some(Target::OracleGeneral)),
        ("x.parquet", Some(Target::Parquet)),
        ("log.txt", None),
        ("noname", None),
    ] {
        assert_eq!(Target::of_file(name), target, "{name}");
    }
    assert!(Target::ALL.into_iter().all(|target| Target::named(target.name()) == Some(target)));
}

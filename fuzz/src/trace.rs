//! Traces in every format, compressed or not, and in our own columns.

use shoal_core::Key;
use shoal_trace::columnar::Layout;
use shoal_trace::{Error, Format, Input, ReadOptions, Reader, Record, Target, Writer};
use std::io::{Cursor, Read};

/// Any bytes are read to an end, with an account of every line; how they arrive does not change
/// what they say. Where a compressed stream is broken, how much comes out of it before that is told
/// does change, and one account is the beginning of the other.
pub fn any(data: &[u8]) {
    let formats = Format::ALL.into_iter().map(Some);
    for format in formats.chain([None]) {
        let options = ReadOptions { format, line_max: 4096, bad_lines_max: 1.0, ..ReadOptions::default() };
        let Ok(input) = Input::new(Cursor::new(data.to_vec())) else { return };
        let whole = read(Reader::new(input.take(PLAIN_MAX), &options), data);
        let Ok(input) = Input::new(Trickle(Cursor::new(data.to_vec()))) else { return };
        let trickled = read(Reader::new(input.take(PLAIN_MAX), &options), data);
        match (&whole, &trickled) {
            (Outcome::Read(..) | Outcome::Refused, Outcome::Read(..) | Outcome::Refused) => {
                assert_eq!(whole, trickled, "{format:?}");
            }
            // By another beginning another format may be found.
            _ if format.is_none() => {}
            _ => {
                let both = whole.requests().iter().zip(trickled.requests());
                assert!(both.into_iter().all(|(a, b)| a == b), "{format:?}: {whole:?} {trickled:?}");
            }
        }
    }
}

/// What was read from any bytes and is written in our columns or as CSV is read as the same.
pub fn written(data: &[u8]) {
    let Ok(input) = Input::new(Cursor::new(data.to_vec())) else { return };
    let Some(records) = records(input.take(PLAIN_MAX)) else { return };
    for target in [Target::Shoal, Target::Csv] {
        let mut writer = Writer::new(target, Vec::new(), 0).expect("memory");
        records.iter().for_each(|record| writer.put(record).expect("memory"));
        let (bytes, _) = writer.finish().expect("memory");
        let again = self::records(Cursor::new(bytes)).unwrap_or_default();
        assert_eq!(again, expected(&records, target), "{}", target.name());
    }
    // Nothing of these is read here; they must only be able to hold whatever is read.
    for target in [Target::Parquet, Target::OracleGeneral] {
        let mut writer = Writer::new(target, Vec::new(), 0).expect("memory");
        records.iter().for_each(|record| writer.put(record).expect("memory"));
        writer.finish().expect("memory");
    }
}

/// A trace in columns whose header is right and whose columns may be anything is read in place to
/// its end.
pub fn columns(data: &[u8]) {
    let mut bytes = data.to_vec();
    if bytes.len() < HEADER_BYTES {
        return;
    }
    bytes[..8].copy_from_slice(b"SHOALTRC");
    bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
    let sum = Key::of(&bytes[..HEADER_BYTES - 8]).low();
    bytes[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    let Ok(layout) = Layout::of_header(&bytes) else { return };
    assert!(layout.requests() <= bytes.len() as u64, "{} requests", layout.requests());
    for number in 0..=layout.requests() {
        let record = layout.record(&bytes, number);
        assert!(number < layout.requests() || record.is_err(), "request {number} is beyond the last");
    }
}

fn records(input: impl Read) -> Option<Vec<Record<'static>>> {
    let options = ReadOptions { bad_lines_max: 1.0, ..ReadOptions::default() };
    let mut reader = Reader::new(input, &options).ok()?;
    let mut records = Vec::new();
    while let Some(record) = reader.next(|record| record.clone().into_owned()).expect("nothing is strict") {
        records.push(record);
    }
    Some(records)
}

/// The records as a format can hold them.
fn expected(records: &[Record<'static>], target: Target) -> Vec<Record<'static>> {
    let mut methods = std::collections::BTreeSet::new();
    let kept = |record: &Record<'static>| {
        let mut record = record.clone();
        if target == Target::Shoal && record.method.is_some() && methods.len() >= METHODS_MAX {
            record.method = record.method.filter(|method| methods.contains(method.as_ref()));
        }
        methods.extend(record.method.as_deref().map(str::to_owned));
        if target == Target::Shoal {
            record.ttl_seconds = None;
            record.outcome = record.outcome.map(|outcome| match outcome {
                outcome if outcome.is_hit() => shoal_trace::Outcome::Hit,
                outcome if outcome.forbids_storing() => shoal_trace::Outcome::Bypass,
                _ => shoal_trace::Outcome::Miss,
            });
        }
        if target == Target::Csv {
            let blank = |text: std::borrow::Cow<'static, str>| text.replace(['\n', '\r'], " ").into();
            let given = |text: &std::borrow::Cow<'_, str>| !matches!(&**text, "" | "-");
            record.client = record.client.map(blank).filter(given);
            record.method = record.method.map(blank).filter(given);
            record.url = blank(record.url);
        }
        record
    };
    let kept: Vec<Record<'static>> = records.iter().map(kept).collect();
    // A name that is nothing, or times beyond the last year, cannot come from a line; from binary
    // records they can.
    let readable = |record: &Record<'static>| {
        target != Target::Csv || (!record.url.is_empty() && record.bytes.is_none_or(|bytes| bytes <= 1 << 42))
    };
    kept.into_iter().filter(readable).collect()
}

/// What came of a stream.
#[derive(PartialEq, Debug)]
enum Outcome {
    /// The requests, and how many lines were bad.
    Read(Vec<String>, u64),
    /// The requests before the stream broke off.
    Broken(Vec<String>),
    /// No format fits.
    Refused,
}

impl Outcome {
    fn requests(&self) -> &[String] {
        match self {
            Self::Read(requests, _) | Self::Broken(requests) => requests,
            Self::Refused => &[],
        }
    }
}

fn read<R: Read>(reader: Result<Reader<R>, Error>, data: &[u8]) -> Outcome {
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(Error::Input(_)) => return Outcome::Broken(Vec::new()),
        Err(_) => return Outcome::Refused,
    };
    let mut requests = Vec::new();
    while let Some(request) = reader.next(|record| format!("{record:?}")).expect("nothing is strict here") {
        requests.push(request);
    }
    let reading = reader.reading();
    assert_eq!(reading.requests as usize, requests.len());
    assert!(
        reading.requests + reading.bad + reading.left_out <= reading.lines + 1,
        "{reading:?} of {data:?}"
    );
    assert!(reading.problems.len() as u64 <= reading.bad);
    assert_eq!(reading.bad == 0, reading.problems.is_empty());
    match reading.is_broken {
        true => Outcome::Broken(requests),
        false => Outcome::Read(requests, reading.bad),
    }
}

/// Gives one to three bytes at a time.
struct Trickle(Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let step = 1 + self.0.position() as usize % 3;
        let length = step.min(buffer.len());
        self.0.read(&mut buffer[..length])
    }
}

/// What a few compressed bytes may unfold to.
const PLAIN_MAX: u64 = 1 << 20;
/// Of a trace in columns.
const HEADER_BYTES: usize = 128;
/// Methods that a trace in columns has numbers for.
const METHODS_MAX: usize = 62;

//! libCacheSim's traces: `oracleGeneral`, binary records of fixed length, and its plain `csv`
//! without a header line, with commas or blanks.
//!
//! ```text
//! offset  bytes  of a record, little-endian, packed
//!      0      4  clock_time: seconds
//!      4      8  obj_id
//!     12      4  obj_size: bytes
//!     16      8  next_access_vtime: number of the object's next request; -1 for none
//! ```
//!
//! The binary form has no magic number. Detection checks the first records: times must not fall,
//! sizes must be plausible, and next accesses must lie ahead.

use crate::record::Record;
use crate::scan::{Reason, Words, bytes, time};

/// Length of a record, in bytes.
pub(crate) const RECORD_BYTES: usize = 24;

/// Fields of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// Seconds since the beginning that the trace has chosen.
    pub clock_time: u32,
    /// Number of the object.
    pub object: u64,
    /// Size of the object in bytes.
    pub bytes: u32,
    /// Number of the next request for the object, from 0; -1 for none.
    pub next: i64,
}

impl Access {
    /// Parses a record.
    pub(crate) fn read(record: &[u8; RECORD_BYTES]) -> Self {
        let part = |from: usize, bytes: usize| {
            record[from..from + bytes].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte))
        };
        Self {
            clock_time: part(0, 4) as u32,
            object: part(4, 8),
            bytes: part(12, 4) as u32,
            next: part(16, 8) as i64,
        }
    }

    /// Returns the bytes of the record.
    pub(crate) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[..4].copy_from_slice(&self.clock_time.to_le_bytes());
        record[4..12].copy_from_slice(&self.object.to_le_bytes());
        record[12..16].copy_from_slice(&self.bytes.to_le_bytes());
        record[16..].copy_from_slice(&self.next.to_le_bytes());
        record
    }

    /// Returns the request of the record. The object's name is its number.
    pub(crate) fn record<'a>(self) -> Record<'a> {
        Record {
            time_ms: Some(u64::from(self.clock_time) * 1000),
            url: self.object.to_string().into(),
            bytes: Some(u64::from(self.bytes)),
            ..Record::default()
        }
    }
}

/// Returns `true` if a stream with this beginning is `oracleGeneral`.
pub(super) fn looks_like(beginning: &[u8]) -> bool {
    let (records, _) = beginning.as_chunks::<RECORD_BYTES>();
    let accesses: Vec<Access> = records.iter().take(SAMPLE).map(Access::read).collect();
    let none_or_ahead = |(at, access): (usize, &Access)| {
        access.next == -1 || access.next == i64::MAX || (access.next > at as i64 && access.next < FAR)
    };
    !accesses.is_empty()
        && beginning.iter().take(SAMPLE * RECORD_BYTES).any(|byte| *byte < b' ' && !b"\t\r\n".contains(byte))
        && accesses.is_sorted_by_key(|access| access.clock_time)
        && accesses.iter().enumerate().all(none_or_ahead)
}

/// Parses `time,object,size`, with or without further fields, or the same parted by blanks or tabs.
pub(super) fn csv(line: &str) -> Result<Record<'_>, Reason> {
    let mut by_commas = line.split(',').map(str::trim);
    let mut by_blanks = Words::of(line);
    let has_commas = line.contains(',');
    let mut next = || if has_commas { by_commas.next() } else { by_blanks.next() };
    let mut field = || next().ok_or("there are fewer than three fields");
    let (when, object, size) = (field()?, field()?, field()?);
    let time_ms = time(when, 1)?.ok_or("the time is not a number")?;
    let size = bytes(size)?.ok_or("the size is not a whole number")?;
    if object.is_empty() {
        return Err("the object has no name");
    }
    Ok(Record { time_ms: Some(time_ms), url: object.into(), bytes: Some(size), ..Record::default() })
}

/// Number of records that detection examines.
const SAMPLE: usize = 64;
/// Limit for the number of a next request. No trace has more requests.
const FAR: i64 = 1 << 40;

//! libCacheSim's `oracleGeneral`: see [`crate::format::oracle`] for its bytes.
//!
//! A record contains the number of the next request for its object. The writer therefore holds the
//! trace (24 bytes a request, 16 to 32 an object) until its end.

use super::Lossy;
use crate::format::oracle::Access;
use crate::record::Record;
use shoal_core::Key;
use std::collections::HashMap;
use std::io::{self, Write};

/// Writer that gathers requests.
pub(super) struct OracleWriter {
    accesses: Vec<Access>,
    /// Place of the last request for each object.
    last: HashMap<u64, usize>,
    bytes_unknown: u64,
}

impl OracleWriter {
    pub(super) fn new(bytes_unknown: u64) -> Self {
        Self { accesses: Vec::new(), last: HashMap::new(), bytes_unknown }
    }

    pub(super) fn put(&mut self, record: &Record<'_>, lossy: &mut Lossy) {
        let place = self.accesses.len();
        lossy.times += u64::from(record.time_ms.is_none());
        lossy.sizes += u64::from(record.bytes.is_none());
        let mut clipped = |value: u64| {
            u32::try_from(value).unwrap_or_else(|_| {
                lossy.clipped += 1;
                u32::MAX
            })
        };
        let clock_time = clipped(record.time_ms.map_or(place as u64, |time| time / 1000));
        let bytes = clipped(record.bytes.unwrap_or(self.bytes_unknown));
        // Names that are numbers stay, so that a trace survives a round trip.
        let object = record.url.parse().unwrap_or_else(|_| Key::unkeyed(record.url.as_bytes()).low());
        if let Some(before) = self.last.insert(object, place) {
            self.accesses[before].next = place as i64;
        }
        self.accesses.push(Access { clock_time, object, bytes, next: -1 });
    }

    pub(super) fn finish(self, output: &mut impl Write) -> io::Result<()> {
        let mut gathered = Vec::with_capacity(GATHERED * crate::format::oracle::RECORD_BYTES);
        for accesses in self.accesses.chunks(GATHERED) {
            gathered.clear();
            accesses.iter().for_each(|access| gathered.extend_from_slice(&access.to_bytes()));
            output.write_all(&gathered)?;
        }
        Ok(())
    }
}

/// Records written with one call.
const GATHERED: usize = 4096;

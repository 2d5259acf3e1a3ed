//! Counts of a run, and its end.

/// Counts of one part of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayCounts {
    /// Requests served.
    pub requests: u64,
    /// Requests answered from the store.
    pub hits: u64,
    /// Bytes of the requests, by the trace.
    pub bytes: u64,
    /// Bytes of the hits, by the trace.
    pub hit_bytes: u64,
    /// Misses since the stored object had another size than the trace says.
    pub changed: u64,
    /// Misses since stored bytes failed their checksums.
    pub corrupt: u64,
    /// Pieces of hits that differ from the bytes written; checked only on demand.
    pub wrong: u64,
    /// Objects written.
    pub written: u64,
    /// Objects that the driver's own replacement evicted.
    pub evicted: u64,
    /// Objects declined as too large.
    pub declined_too_large: u64,
    /// Objects declined for want of space.
    pub declined_no_space: u64,
    /// Objects declined while the disk was out of service.
    pub declined_out_of_service: u64,
    /// Bytes of bodies read.
    pub body_bytes_read: u64,
    /// Bytes of bodies written.
    pub body_bytes_written: u64,
}

impl ReplayCounts {
    /// Returns hits over requests; 0 without requests.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.requests)
    }

    /// Returns bytes of hits over bytes; 0 without bytes.
    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes, self.bytes)
    }

    /// Returns the objects declined, for any reason.
    pub fn declined(&self) -> u64 {
        self.declined_too_large + self.declined_no_space + self.declined_out_of_service
    }

    /// Returns the sum of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            hits: self.hits + other.hits,
            bytes: self.bytes + other.bytes,
            hit_bytes: self.hit_bytes + other.hit_bytes,
            changed: self.changed + other.changed,
            corrupt: self.corrupt + other.corrupt,
            wrong: self.wrong + other.wrong,
            written: self.written + other.written,
            evicted: self.evicted + other.evicted,
            declined_too_large: self.declined_too_large + other.declined_too_large,
            declined_no_space: self.declined_no_space + other.declined_no_space,
            declined_out_of_service: self.declined_out_of_service + other.declined_out_of_service,
            body_bytes_read: self.body_bytes_read + other.body_bytes_read,
            body_bytes_written: self.body_bytes_written + other.body_bytes_written,
        }
    }
}

/// Result of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplayResult {
    /// The part that warms the cache.
    pub warm_up: ReplayCounts,
    /// The part that is measured, as far as it came.
    pub measured: ReplayCounts,
    /// End of the run.
    pub end: End,
}

/// Ways in which a run ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum End {
    /// The trace was over.
    #[default]
    Done,
    /// The caller stopped the run.
    Stopped,
    /// The disk failed: the attempted call, its file where known, and the cause.
    Failed(String),
}

fn ratio(part: u64, whole: u64) -> f64 {
    debug_assert!(part <= whole, "{part} of {whole}");
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

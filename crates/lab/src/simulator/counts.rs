//! What a simulation counts.

/// Requests and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Those that found their object in the cache.
    pub hits: u64,
    /// Bytes of the objects asked for.
    pub bytes: u64,
    /// Bytes of those found.
    pub hit_bytes: u64,
    /// Objects given up to make room.
    pub evictions: u64,
    /// Misses whose object was not taken in, being larger than the cache.
    pub declined: u64,
}

impl Counts {
    /// Requests that did not find their object.
    pub fn misses(&self) -> u64 {
        self.requests - self.hits
    }

    /// Misses whose object was taken in.
    pub fn taken(&self) -> u64 {
        self.misses() - self.declined
    }

    /// Misses over requests; 0 without requests.
    pub fn miss_ratio(&self) -> f64 {
        share(self.misses(), self.requests)
    }

    /// Bytes not found over bytes asked for; 0 without bytes.
    pub fn byte_miss_ratio(&self) -> f64 {
        share(self.bytes - self.hit_bytes, self.bytes)
    }

    /// What was counted since an earlier time of the same simulation, such as the end of its
    /// warm-up.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            hits: self.hits - earlier.hits,
            bytes: self.bytes - earlier.bytes,
            hit_bytes: self.hit_bytes - earlier.hit_bytes,
            evictions: self.evictions - earlier.evictions,
            declined: self.declined - earlier.declined,
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

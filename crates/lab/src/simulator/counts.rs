//! Counts of a simulation.

/// Requests and their outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Requests that found their object in the cache.
    pub hits: u64,
    /// Bytes of the requested objects.
    pub bytes: u64,
    /// Bytes of the objects found.
    pub hit_bytes: u64,
    /// Objects evicted to make room.
    pub evictions: u64,
    /// Misses of objects declined as larger than the cache.
    pub declined: u64,
}

impl Counts {
    /// Returns the requests that did not find their object.
    pub fn misses(&self) -> u64 {
        debug_assert!(self.hits <= self.requests, "{} hits of {} requests", self.hits, self.requests);
        self.requests - self.hits
    }

    /// Returns the misses of admitted objects.
    pub fn taken(&self) -> u64 {
        debug_assert!(self.declined <= self.misses(), "a declined object has missed");
        self.misses() - self.declined
    }

    /// Returns misses over requests; 0 without requests.
    pub fn miss_ratio(&self) -> f64 {
        share(self.misses(), self.requests)
    }

    /// Returns bytes not found over bytes requested; 0 without bytes.
    pub fn byte_miss_ratio(&self) -> f64 {
        debug_assert!(self.hit_bytes <= self.bytes, "{} of {} bytes hit", self.hit_bytes, self.bytes);
        share(self.bytes - self.hit_bytes, self.bytes)
    }

    /// Returns the counts since an earlier time of the same simulation, such as the end of its
    /// warm-up.
    pub fn since(&self, earlier: &Self) -> Self {
        assert!(earlier.requests <= self.requests, "earlier counts are of the same simulation");
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
    debug_assert!(part <= whole, "{part} of {whole}");
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

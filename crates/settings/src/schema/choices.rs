//! Choices among several words, for settings of the cache and the store.

choice! {
    /// URLs with a query that get heuristic freshness.
    pub enum HeuristicQuery {
        /// None.
        Never = "never",
        /// URLs without a parameter that is a signature, a token or a time of expiry:
        /// X-Amz-Signature, Signature, Expires, sig, token, hmac and similar.
        Unsigned = "unsigned",
        /// All URLs. The response of a presigned URL is then served after the URL's expiry, too.
        Always = "always",
    }
}

choice! {
    /// Treatment of a response that sets a cookie.
    pub enum SetCookie {
        /// The response goes to the client of the request and is not stored.
        Pass = "pass",
        /// The response is stored without the cookie. For pages that are equal for all clients,
        /// from an origin that sets cookies with everything.
        Strip = "strip",
    }
}

choice! {
    /// Time at which an object may be written to a volume.
    pub enum Admission {
        /// On the second request, once there is no unused space.
        Probation = "probation",
        /// On the first request.
        Always = "always",
    }
}

choice! {
    /// Ways of accessing the memory-mapped file.
    pub enum SegmentAccess {
        /// System calls on the page cache: a read brings in its own pages.
        Pread = "pread",
        /// Memory, as in the paper: a page fault also reads pages around it.
        Mmap = "mmap",
        /// Memory, with the advice that accesses are random: a page fault reads its own page.
        MmapRandom = "mmap_random",
    }
}

choice! {
    /// Policies of the memory-mapped file.
    pub enum SegmentPolicy {
        /// A hand goes round the file and passes over objects that are requested often
        /// (frequency-based cyclic replacement).
        Fbc = "fbc",
        /// The least recently used object of the size.
        Lru = "lru",
        /// Like `fbc`, but chooses among the next few victims the first with its page in memory.
        FbcResident = "fbc_resident",
        /// Like `lru`, but chooses among the next few victims the first with its page in memory.
        LruResident = "lru_resident",
    }
}

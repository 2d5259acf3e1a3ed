//! Settings of the cache and the store that are one of several words.

choice! {
    /// Which URLs with a query get heuristic freshness.
    pub enum HeuristicQuery {
        /// None.
        Never = "never",
        /// Those without a parameter that is a signature, a token or a time at which it expires:
        /// X-Amz-Signature, Signature, Expires, sig, token, hmac and their like.
        Unsigned = "unsigned",
        /// All: what a presigned URL gave is then served after its time.
        Always = "always",
    }
}

choice! {
    /// What becomes of a response that sets a cookie.
    pub enum SetCookie {
        /// It goes to the client who asked, and is not stored.
        Pass = "pass",
        /// It is stored without the cookie: for pages that are the same for all, of an origin that
        /// sets cookies with everything.
        Strip = "strip",
    }
}

choice! {
    /// When an object may be written to a volume.
    pub enum Admission {
        /// When it is asked for a second time, once there is no unused space.
        Probation = "probation",
        /// When it first comes.
        Always = "always",
    }
}

choice! {
    /// Policies of the memory-mapped file.
    pub enum SegmentPolicy {
        /// A hand goes round the file and passes over what is asked for often (frequency-based
        /// cyclic replacement).
        Fbc = "fbc",
        /// The least recently used of the size.
        Lru = "lru",
        /// As `fbc`, but of the next few that it would give up the first whose page is in memory.
        FbcResident = "fbc_resident",
        /// As `lru`, likewise.
        LruResident = "lru_resident",
    }
}

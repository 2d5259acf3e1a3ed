//! Settings of prefetching.

use shoal_core::ByteCount;
use std::time::Duration;

section! {
    /// Prefetching: answers are fetched before clients ask for them. Clients' own requests always
    /// go first, and a source of hints that is often wrong is muted.
    pub struct Prefetch {
        /// Take lists of hints, at `POST /hints` and from `shoal warm --ahead`.
        pub lists: bool = true,
        /// Fetch the layers of an image when its manifest passes through a mirror.
        pub images: bool = false,
        /// Fetch the resources that `Link` fields of answers announce by `preload`, `prefetch` or
        /// `next`. They must be of a site or mirror of this node. In forward mode they must be of
        /// the answer's own host.
        pub links: bool = false,
        /// Fetch the next ranges of a file that a client reads in ranges, one after the other.
        pub ranges: bool = false,
        /// Learn the URL that clients of a site ask for after another one, and fetch it.
        pub learn: bool = false,
        /// Clients that get an origin's 103 (Early Hints) again while their own request waits. Some
        /// HTTP/1.1 clients cannot take an interim answer.
        pub early_hints: EarlyHints = EarlyHints::Off,
        /// Most fetches at a time.
        #[limits(1..=256)]
        pub requests: usize = 8,
        /// Most bytes fetched that no client has used yet.
        #[limits(ByteCount(64 << 10)..=ByteCount(1 << 40))]
        pub bytes: ByteCount = ByteCount(256 << 20),
        /// Time in which a client must use a fetched answer. After this time it counts as wasted.
        #[limits(Duration::from_secs(1)..=Duration::from_secs(86_400))]
        pub use_within: Duration = Duration::from_secs(300),
        /// Least share of fetches that clients use, in percent. A source below it is muted.
        #[limits(0..=100)]
        pub precision: u32 = 30,
        /// Time for which a source is muted at first; each further time lasts twice as long.
        #[limits(Duration::from_secs(1)..=Duration::from_secs(86_400))]
        pub mute: Duration = Duration::from_secs(300),
        /// Bytes that a source may waste, in percent of the bytes that clients' misses bring. A
        /// source counts for itself in forward mode.
        #[limits(0..=100)]
        pub waste: u32 = 5,
        /// Bytes that a source may waste beyond that, before it has proven anything.
        #[limits(ByteCount(0)..=ByteCount(1 << 40))]
        pub trial: ByteCount = ByteCount(16 << 20),
        /// Share of the processors that the node may use, in percent, up to which it prefetches.
        #[limits(1..=100)]
        pub cpu: u32 = 80,
    }
}

choice! {
    /// Clients that get remembered early hints.
    pub enum EarlyHints {
        /// None.
        Off = "off",
        /// Clients over HTTP/2.
        Http2 = "http2",
        /// Clients over HTTP/2 and HTTP/1.1.
        All = "all",
    }
}

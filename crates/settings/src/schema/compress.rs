//! Settings of compression at the edge.

use shoal_core::ByteCount;

choice! {
    /// Coding of a compressed body.
    pub enum TextCoding {
        /// Brotli: the smallest text.
        Br = "br",
        /// Zstandard.
        Zstd = "zstd",
        /// gzip: every client takes it.
        Gzip = "gzip",
    }
}

section! {
    /// Compression of text that sites' origins send as it is. A response that is asked for often is
    /// compressed once, in the background; the coded form is stored beside it, in RAM and on disk.
    /// Nothing is compressed unless a coding is listed. `docs/EDGE.md` tells the cases in which not
    /// to use it.
    pub struct Compress {
        /// Codings, best first, among which a client's Accept-Encoding chooses. An empty list
        /// compresses nothing.
        pub codings: Vec<TextCoding> = Vec::new(),
        /// Media types of text: `type/subtype`, `type/*`, or `*+suffix`. A response in RAM is
        /// judged anew after each reload.
        pub types: Vec<String> = TYPES.map(String::from).to_vec(),
        /// Smallest body that is compressed.
        #[limits(ByteCount(64)..=ByteCount::mib(8))]
        pub bytes_min: ByteCount = ByteCount(1024),
        /// Largest body that is compressed; `cache.ram_object_max` limits it too.
        #[limits(ByteCount(64)..=ByteCount::mib(8))]
        pub bytes_max: ByteCount = ByteCount::mib(1),
        /// Requests for a coding of one response, while it is in RAM, after which the coding is
        /// made.
        #[limits(1..=60_000)]
        pub after_hits: u16 = 4,
    }
}

impl Compress {
    /// Returns `true` if any coding is listed.
    pub fn is_on(&self) -> bool {
        !self.codings.is_empty()
    }
}

/// Media types of text that the Web uses.
const TYPES: [&str; 14] = [
    "text/*",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/json",
    "application/xml",
    "application/wasm",
    "application/manifest+json",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/svg+xml",
    "*+json",
    "*+xml",
];

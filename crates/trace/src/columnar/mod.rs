//! Our own trace files: columns of fixed width, each name once, hosts in a dictionary of their own.
//!
//! Byte by byte in docs/FORMATS.md. Every section lies where the header's counts and widths put it,
//! each at a multiple of 8, so that a file that is mapped into memory can be read in place: a
//! [`Layout`] is made from the header in constant time, and request *i* costs one read a column. 13
//! to 27 bytes a request, most often 16, and 16 bytes an object beside its name.
//!
//! Nothing in a file is trusted: the header and the rest carry checksums, and every number that
//! leads somewhere is compared with what is there.

mod layout;
#[cfg(test)]
mod tests;
mod writer;

pub use layout::{Damage, Layout};
pub(crate) use writer::ColumnWriter;

/// What a file begins with.
pub(crate) const MAGIC: &[u8] = b"SHOALTRC";
/// The version written and read.
const VERSION: u32 = 1;
/// The header's length.
const HEADER_BYTES: usize = 128;
/// Bytes behind the last section: the checksum.
const TAIL_BYTES: usize = 8;
/// Methods that have a number; others are left out.
const METHODS_MAX: usize = 62;

/// Sections in their order. Widths of the first six are a request's, of the others those of a name
/// or a byte of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Section {
    /// Milliseconds since the header's base; all ones where there is no time.
    Time,
    /// Size in bytes; all ones where there is none.
    Bytes,
    /// Number of the object.
    Object,
    /// Number of the client; all ones where there is none.
    Client,
    /// Status; 0 where there is none.
    Status,
    /// Method and the cache's verdict.
    Marks,
    /// For each object, the number of its host.
    HostOf,
    /// For each object, where in its name the host belongs.
    Split,
    /// For each object, where its name ends.
    ObjectEnds,
    HostEnds,
    ClientEnds,
    MethodEnds,
    ObjectText,
    HostText,
    ClientText,
    MethodText,
}

impl Section {
    const ALL: [Self; 16] = [
        Self::Time,
        Self::Bytes,
        Self::Object,
        Self::Client,
        Self::Status,
        Self::Marks,
        Self::HostOf,
        Self::Split,
        Self::ObjectEnds,
        Self::HostEnds,
        Self::ClientEnds,
        Self::MethodEnds,
        Self::ObjectText,
        Self::HostText,
        Self::ClientText,
        Self::MethodText,
    ];
}

/// The header's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Header {
    requests: u64,
    objects: u64,
    hosts: u64,
    clients: u64,
    methods: u64,
    object_text: u64,
    host_text: u64,
    client_text: u64,
    method_text: u64,
    base_ms: u64,
    time_width: u8,
    bytes_width: u8,
    client_width: u8,
}

impl Header {
    /// How many cells a section has, and how wide they are.
    fn shape(&self, section: Section) -> (u64, u64) {
        match section {
            Section::Time => (self.requests, self.time_width.into()),
            Section::Bytes => (self.requests, self.bytes_width.into()),
            Section::Object => (self.requests, 4),
            Section::Client => (self.requests, self.client_width.into()),
            Section::Status => (self.requests, 2),
            Section::Marks => (self.requests, 1),
            Section::HostOf | Section::Split => (self.objects, 4),
            Section::ObjectEnds => (self.objects, 8),
            Section::HostEnds => (self.hosts, 8),
            Section::ClientEnds => (self.clients, 8),
            Section::MethodEnds => (self.methods, 8),
            Section::ObjectText => (self.object_text, 1),
            Section::HostText => (self.host_text, 1),
            Section::ClientText => (self.client_text, 1),
            Section::MethodText => (self.method_text, 1),
        }
    }

    /// The header's numbers in their order, from offset 16.
    fn words(&self) -> [u64; 10] {
        [
            self.requests,
            self.objects,
            self.hosts,
            self.clients,
            self.methods,
            self.object_text,
            self.host_text,
            self.client_text,
            self.method_text,
            self.base_ms,
        ]
    }
}

/// All ones in so many bytes: what is not there.
fn absent(width: u8) -> u64 {
    if width >= 8 { u64::MAX } else { (1 << (8 * width)) - 1 }
}

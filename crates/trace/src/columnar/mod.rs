//! Our own trace files: columns of fixed width, each name once, hosts in a dictionary of their own.
//!
//! docs/FORMATS.md describes every byte. The header's counts and widths determine the place of
//! every section, at a multiple of 8. A file that is mapped into memory can therefore be read in
//! place. A [`Layout`] is made from the header in constant time, and request *i* costs one read for
//! each column. A request takes 13 to 27 bytes, most often 16. An object takes 16 bytes beside its
//! name.
//!
//! The reader trusts nothing in a file. The header and the rest carry checksums. The reader checks
//! every offset and number against the bytes present.

mod layout;
#[cfg(test)]
mod tests;
mod writer;

pub use layout::{Damage, Layout};
pub(crate) use writer::ColumnWriter;

/// Magic bytes at the beginning of a file.
pub(crate) const MAGIC: &[u8] = b"SHOALTRC";
/// Version that is written and read.
const VERSION: u32 = 1;
/// Length of the header, in bytes.
const HEADER_BYTES: usize = 128;
/// Bytes after the last section: the checksum.
const TAIL_BYTES: usize = 8;
/// Largest number of methods with a number of their own; a request with another method has none.
const METHODS_MAX: usize = 62;

/// Sections in their order. The first six have the widths of a request's fields, the others the
/// widths of a name's fields or of a byte of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Section {
    /// Milliseconds since the header's base; all ones for a request without a time.
    Time,
    /// Size in bytes; all ones for a request without a size.
    Bytes,
    /// Number of the object.
    Object,
    /// Number of the client; all ones for a request without a client.
    Client,
    /// Status; 0 for a request without a status.
    Status,
    /// Method and the cache's verdict.
    Marks,
    /// Number of each object's host.
    HostOf,
    /// Offset of the host within each object's name.
    Split,
    /// End of each object's name.
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

/// Numbers of the header.
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
    /// Returns the number of cells of a section and their width in bytes.
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

    /// Returns the header's numbers in their order, from offset 16.
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

/// Returns the mark of an absent value: all ones in `width` bytes.
fn absent(width: u8) -> u64 {
    if width >= 8 { u64::MAX } else { (1 << (8 * width)) - 1 }
}

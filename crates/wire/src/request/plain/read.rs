//! Fields of a plain request as received, for callers that need more than the recorded ones.

use shoal_http2::hpack::FieldList;

/// Place of the fields.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldSource<'b> {
    /// Section of a valid head, up to its empty line.
    Section(&'b [u8]),
    /// List, and the number of pseudo-fields at its start.
    List(&'b FieldList, usize),
}

impl<'b> FieldSource<'b> {
    /// Calls `taker` with each name, in any case, and value, in their order.
    pub fn each(self, mut taker: impl FnMut(&'b [u8], &'b [u8])) {
        match self {
            Self::Section(section) => lines(section).for_each(|(name, value)| taker(name, value)),
            Self::List(list, pseudo_fields) => {
                list.iter().skip(pseudo_fields).for_each(|(name, value)| taker(name, value));
            }
        }
    }
}

/// Returns names and values of a section with valid lines.
fn lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = section;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        // The empty line, which is the last, has no colon.
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

//! The fields of a plain request as they were read, for who needs others than those that it tells
//! of.

use crate::hpack::FieldList;

/// Where they stand.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldSource<'b> {
    /// The section of a head that was found sound, to its empty line.
    Section(&'b [u8]),
    /// A list, and how many pseudo-fields it begins with.
    List(&'b FieldList, usize),
}

impl<'b> FieldSource<'b> {
    /// Has `taker` look at each name, in any case, and value, in their order.
    pub fn each(self, mut taker: impl FnMut(&'b [u8], &'b [u8])) {
        match self {
            Self::Section(section) => lines(section).for_each(|(name, value)| taker(name, value)),
            Self::List(list, pseudo_fields) => {
                list.iter().skip(pseudo_fields).for_each(|(name, value)| taker(name, value));
            }
        }
    }
}

/// Names and values of a section whose lines are sound.
fn lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = section;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        // None in the empty line, which is the last.
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

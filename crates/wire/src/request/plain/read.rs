//! Fields of a plain request as received, for callers that need more than the recorded ones.

use crate::lines::{Lines, Strictness};
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
            // The section was valid when its request was read.
            Self::Section(section) => {
                Lines::new(section, Strictness::Strict).each_valid(|field| {
                    taker(&section[field.name()], &section[field.value()]);
                });
            }
            Self::List(list, pseudo_fields) => {
                list.iter().skip(pseudo_fields).for_each(|(name, value)| taker(name, value));
            }
        }
    }
}

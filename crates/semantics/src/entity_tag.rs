//! Entity tags and their two comparisons (RFC 9110, section 8.8.3).

use crate::lists;
use http::header::ETAG;
use shoal_core::Fields;

/// Entity tag as a field holds it.
///
/// Origins and clients send tags without quotes, or with other spellings of the weakness prefix.
/// Such a tag is taken as opaque bytes. It equals itself, and a tag without quotes also equals its
/// quoted form.
#[derive(Clone, Copy, Debug)]
pub struct EntityTag<'a> {
    opaque: &'a [u8],
    weak: bool,
    well_formed: bool,
}

impl<'a> EntityTag<'a> {
    /// Reads the tag that these bytes spell. `None` for no bytes.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let value = lists::trim(value);
        let (rest, weak) = match value {
            [b'W' | b'w', b'/', rest @ ..] => (rest, true),
            _ => (value, false),
        };
        match rest {
            [b'"', opaque @ .., b'"'] if !opaque.contains(&b'"') => {
                Some(Self { opaque, weak, well_formed: true })
            }
            _ => (!value.is_empty()).then_some(Self { opaque: value, weak: false, well_formed: false }),
        }
    }

    /// Returns the tag of a response.
    pub fn of(response: &'a impl Fields) -> Option<Self> {
        Self::parse(response.value(&ETAG)?)
    }

    /// Returns `true` if the tag promises equality of every byte. A tag that breaks the grammar
    /// promises nothing.
    pub fn is_strong(self) -> bool {
        self.well_formed && !self.weak
    }

    /// Returns `true` if the tag keeps to the grammar.
    pub fn is_well_formed(self) -> bool {
        self.well_formed
    }

    /// "Two entity tags are equivalent if both are not weak and their opaque-tags match
    /// character-by-character."
    pub fn matches_strongly(self, other: Self) -> bool {
        self.is_strong() && other.is_strong() && self.opaque == other.opaque
    }

    /// "Two entity tags are equivalent if their opaque-tags match character-by-character,
    /// regardless of either or both being tagged as weak."
    pub fn matches_weakly(self, other: Self) -> bool {
        self.opaque == other.opaque
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        // The table of RFC 9110, section 8.8.3.2, and spellings that real origins send.
        for (one, other, strong, weak) in [
            (r#"W/"1""#, r#"W/"1""#, false, true),
            (r#"W/"1""#, r#"W/"2""#, false, false),
            (r#"W/"1""#, r#""1""#, false, true),
            (r#""1""#, r#""1""#, true, true),
            (r#"w/"1""#, r#"w/"1""#, false, true),
            (r#"W\"1""#, r#"W\"1""#, false, true),
            (r#"W"1""#, r#"W"1""#, false, true),
            ("1", r#""1""#, false, true),
            ("1", "1", false, true),
            (r#""""#, r#""""#, true, true),
            (r#"""#, r#""""#, false, false),
        ] {
            let [one_tag, other_tag] = [one, other].map(|tag| EntityTag::parse(tag.as_bytes()).expect(tag));
            assert_eq!(one_tag.matches_strongly(other_tag), strong, "strongly {one} {other}");
            assert_eq!(one_tag.matches_weakly(other_tag), weak, "weakly {one} {other}");
            assert_eq!(other_tag.matches_weakly(one_tag), weak, "weakly {other} {one}");
        }
        assert!(EntityTag::parse(b" ").is_none());
    }
}

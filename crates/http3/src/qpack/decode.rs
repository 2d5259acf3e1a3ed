//! Decoding of field sections (RFC 9204 section 4.5).

use super::table::STATIC;
use shoal_http2::hpack::FieldList;
use shoal_http2::hpack::primitives::Reader;

/// Error for an invalid section, which ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSection;

/// Reads a whole section into `list`, which keeps at most `size_max` bytes of fields. The time is
/// proportional to the section and to `size_max`. A section that expands to a large multiple of
/// `size_max` is invalid.
pub fn decode(section: &[u8], list: &mut FieldList, size_max: usize) -> Result<(), BadSection> {
    debug_assert!(u32::try_from(size_max).is_ok(), "places in the text are 32 bits");
    list.begin(size_max);
    let mut reader = Reader::new(section);
    prefix(&mut reader).and_then(|()| fields(&mut reader, list)).ok_or(BadSection)
}

/// Reads the prefix. A section that needs entries of the dynamic table is an error: there is none.
/// So is a sign bit of 1, since the base would be negative (section 4.5.1.2).
fn prefix(reader: &mut Reader<'_>) -> Option<()> {
    let needed = reader.integer(8)?;
    let is_negative = reader.peek()? & 0x80 != 0;
    reader.integer(7)?;
    (needed == 0 && !is_negative).then_some(())
}

fn fields(reader: &mut Reader<'_>, list: &mut FieldList) -> Option<()> {
    while let Some(first) = reader.peek() {
        let start = list.text_mut().len();
        if first & 0x80 != 0 {
            // An indexed field line; the second bit says: of the static table.
            let index = reader.integer(6)?;
            let (name, value) = STATIC.get(index).filter(|_| first & 0x40 != 0)?;
            // Fields that are not kept need not be copied.
            if list.is_too_large() {
                continue;
            }
            let text = list.text_mut();
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(value.as_bytes());
            list.push(start, start + name.len());
            continue;
        }
        let text = list.text_mut();
        if first & 0x40 != 0 {
            // A literal with a name of the static table.
            let index = reader.integer(4)?;
            let (name, _) = STATIC.get(index).filter(|_| first & 0x10 != 0)?;
            text.extend_from_slice(name.as_bytes());
        } else if first & 0x20 != 0 {
            reader.string(3, text)?;
        } else {
            // The other two forms name entries of the dynamic table.
            return None;
        }
        let value = text.len();
        reader.string(7, text)?;
        debug_assert!(start <= value);
        list.push(start, value);
        if list.is_absurd() {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(section: &[u8]) -> Option<Vec<(String, String)>> {
        let mut list = FieldList::default();
        decode(section, &mut list, 4096).ok()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(list.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn shown(fields: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    /// RFC 9204 appendix B.1, then every other form that needs no table.
    #[test]
    fn forms_without_a_table_are_read() {
        assert_eq!(read(b"\0\0\x51\x0b/index.html"), shown(&[(":path", "/index.html")]));
        assert_eq!(
            read(b"\0\0\xd1\xd7\xc1\x50\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"),
            shown(&[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/"),
                (":authority", "www.example.com")
            ])
        );
        assert_eq!(read(b"\0\0\x23abc\x01x"), shown(&[("abc", "x")]));
        assert_eq!(read(b"\0\0\x27\x03abcdefghij\0"), shown(&[("abcdefghij", "")]));
        assert_eq!(read(b"\0\0\x2e\xa8\x49\xe9\x5b\xa9\x7d\x7f\x01x"), None, "a coded name that ends badly");
        assert_eq!(read(b"\0\0\x2f\x01\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x01x"), shown(&[("custom-key", "x")]));
        assert_eq!(read(b"\0\0\xff\x23"), shown(&[("x-frame-options", "sameorigin")]));
        assert_eq!(read(b"\0\x05"), shown(&[]), "a base is of no use, and no error");
    }

    #[test]
    fn invalid_section_is_refused() {
        let sections: [(&str, &[u8]); 13] = [
            ("nothing", b""),
            ("half a prefix", b"\0"),
            ("entries that must be inserted first", b"\x02\0\x80"),
            ("a negative base", b"\0\x80"),
            ("an entry of the dynamic table", b"\0\0\x80"),
            ("beyond the static table", b"\0\0\xff\x24"),
            ("far beyond", b"\0\0\xff\xff\xff\xff\xff\x0f"),
            ("an integer that does not end", b"\0\0\xff\x80"),
            ("a name of the dynamic table", b"\0\0\x40\x01x"),
            ("an entry after the base", b"\0\0\x10"),
            ("a name after the base", b"\0\0\x00\x01x"),
            ("no value", b"\0\0\x23abc"),
            ("a value that does not end", b"\0\0\x51\x05/ab"),
        ];
        for (what, section) in sections {
            assert_eq!(read(section), None, "{what}");
        }
    }

    #[test]
    fn oversized_list_is_not_kept() {
        let mut list = FieldList::default();
        let name = [&b"\0\0\x27\xf9\x17"[..], &[b'n'; 3072], b"\0"].concat();
        decode(&name, &mut list, 8192).expect("one name");
        assert!(!list.is_too_large());
        let many = [&b"\0\0"[..], &name[2..].repeat(3)].concat();
        decode(&many, &mut list, 8192).expect("too large at most");
        assert!(list.is_too_large() && list.text().len() <= 8192);
        let absurd = [&b"\0\0"[..], &name[2..].repeat(30)].concat();
        assert_eq!(decode(&absurd, &mut list, 8192), Err(BadSection));
        decode(&[&b"\0\0"[..], &[0xd1; 5000]].concat(), &mut list, 8192).expect("too large at most");
        assert!(list.is_too_large() && list.text().len() <= 8192);
    }
}

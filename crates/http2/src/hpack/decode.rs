//! Decoding of field blocks (RFC 7541 sections 3, 5 and 6).

use super::fields::FieldList;
use super::primitives::Reader;
use super::tables::{Dynamic, STATIC};

/// Decoder of one connection.
#[derive(Debug, Default)]
pub struct Decoder {
    table: Dynamic,
}

/// Error for an invalid block; nothing after it on the connection can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlock;

impl Decoder {
    /// Reads a whole block into `list`, which keeps at most `size_max` bytes of fields. The time is
    /// proportional to the block and to `size_max`. A block that expands to a large multiple of
    /// `size_max` is invalid.
    pub fn decode(&mut self, block: &[u8], list: &mut FieldList, size_max: usize) -> Result<(), BadBlock> {
        debug_assert!(u32::try_from(size_max).is_ok(), "places in the text are 32 bits");
        list.begin(size_max);
        self.fields(&mut Reader::new(block), list).ok_or(BadBlock)
    }

    fn fields(&mut self, reader: &mut Reader<'_>, list: &mut FieldList) -> Option<()> {
        let mut begun = false;
        while let Some(first) = reader.peek() {
            // "A change in the maximum size of the dynamic table … MUST occur at the beginning of
            // the first header block following the change" (section 4.2).
            if first & 0xe0 == 0x20 {
                if begun {
                    return None;
                }
                self.table.resize(reader.integer(5)?)?;
                continue;
            }
            begun = true;
            let start = list.text_mut().len();
            if first & 0x80 != 0 {
                let (name, value) = self.indexed(reader.integer(7)?)?;
                // One byte may stand for a whole entry of the table. Fields that are not kept need
                // not be copied.
                if list.is_too_large() {
                    continue;
                }
                let text = list.text_mut();
                text.extend_from_slice(name);
                text.extend_from_slice(value);
                list.push(start, start + name.len());
                continue;
            }
            let is_added = first & 0x40 != 0;
            let text = list.text_mut();
            match reader.integer(if is_added { 6 } else { 4 })? {
                0 => reader.string(7, text)?,
                index => text.extend_from_slice(self.indexed(index)?.0),
            }
            let value = text.len();
            reader.string(7, text)?;
            if is_added {
                self.table.insert(&text[start..value], &text[value..]);
            }
            debug_assert!(start <= value);
            list.push(start, value);
            if list.is_absurd() {
                return None;
            }
        }
        Some(())
    }

    /// Returns name and value of an entry of both tables together (section 2.3.3).
    fn indexed(&self, index: usize) -> Option<(&[u8], &[u8])> {
        match STATIC.get(index.checked_sub(1)?) {
            Some((name, value)) => Some((name.as_bytes(), value.as_bytes())),
            None => self.table.entry(index - 1 - STATIC.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Shown = Vec<(String, String)>;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Option<Shown> {
        let mut list = FieldList::default();
        decoder.decode(block, &mut list, 4096).ok()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(list.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn shown(fields: &[(&str, &str)]) -> Option<Shown> {
        Some(fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    /// Decodes RFC 7541 appendix C.3 and C.4: the same requests, plain and Huffman-coded.
    #[test]
    fn the_requests_of_the_rfc() {
        let first =
            [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
        let second = [&first[..], &[("cache-control", "no-cache")]].concat();
        let third = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ];
        let mut plain = Decoder::default();
        assert_eq!(read(&mut plain, b"\x82\x86\x84\x41\x0fwww.example.com"), shown(&first));
        assert_eq!(read(&mut plain, b"\x82\x86\x84\xbe\x58\x08no-cache"), shown(&second));
        assert_eq!(read(&mut plain, b"\x82\x87\x85\xbf\x40\x0acustom-key\x0ccustom-value"), shown(&third));
        let mut coded = Decoder::default();
        let block = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        assert_eq!(read(&mut coded, block), shown(&first));
        assert_eq!(read(&mut coded, b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf"), shown(&second));
        let block = b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
        assert_eq!(read(&mut coded, block), shown(&third));
    }

    #[test]
    fn invalid_block_is_refused() {
        let blocks: [(&str, &[u8]); 9] = [
            ("index 0", b"\x80"),
            ("beyond the table", b"\xbe"),
            ("far beyond", b"\xff\xff\xff\xff\xff\xff\x0f"),
            ("an integer that does not end", b"\xff\x80"),
            ("a name that does not end", b"\x40\x05ab"),
            ("no value", b"\x40\x01a"),
            ("a name of the table that is not there", b"\x7e\x01a"),
            ("a larger table than allowed", b"\x3f\xe2\x1f"),
            ("a change of size after a field", b"\x82\x20"),
        ];
        for (what, block) in blocks {
            assert_eq!(read(&mut Decoder::default(), block), None, "{what}");
        }
        assert!(
            read(&mut Decoder::default(), b"\x3f\xe1\x1f\x20\x82").is_some(),
            "changes of size come first"
        );
    }

    #[test]
    fn absurdly_expanding_block_is_refused() {
        let (mut decoder, mut list) = (Decoder::default(), FieldList::default());
        let name = [&b"\x40\x7f\x81\x17"[..], &[b'n'; 3072], b"\0"].concat();
        // The name from the table with an empty value, repeated.
        let mut names =
            |count| decoder.decode(&[&name[..], &b"\x0f\x2f\0".repeat(count)].concat(), &mut list, 8192);
        assert_eq!((names(1), names(15)), (Ok(()), Ok(())), "too large at most");
        assert_eq!(names(30), Err(BadBlock));
    }

    #[test]
    fn oversized_list_is_dropped_and_table_kept() {
        let (mut decoder, mut list) = (Decoder::default(), FieldList::default());
        let long = [&b"\x40\x01a\x7f\x81\x17"[..], &[b'x'; 3072]].concat();
        let block = [&long[..], &[0xbe; 1000]].concat();
        decoder.decode(&block, &mut list, 4000).expect("a block");
        assert!(list.is_too_large() && list.text().len() <= 4000);
        assert_eq!(list.iter().count(), 1);
        decoder.decode(b"\xbe", &mut list, 4000).expect("still in the table");
        assert!(!list.is_too_large());
        assert_eq!(list.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), [3072]);
        list.shrink();
        assert_eq!(list.iter().count(), 0);
    }
}

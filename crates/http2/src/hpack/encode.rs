//! Encoding of field blocks: names of the static table, and literals (RFC 7541 section 6.2.2).

use super::primitives::{each_line, push_integer};

/// First byte of a connection's first block: this side keeps no table, although the client allows
/// one (section 6.3).
pub const NO_TABLE: u8 = 0x20;

/// Appends `:status`.
pub fn status(out: &mut Vec<u8>, status: u16) {
    debug_assert!((100..1000).contains(&status), "three digits");
    let indexed = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            out.extend_from_slice(&[8, 3]);
            return out.extend([status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8));
        }
    };
    out.push(0x80 | indexed);
}

/// Appends a field; its name is in lower case.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    self::name(out, name);
    string(out, value);
}

/// Appends a field with a value of two parts.
pub fn field_of_two(out: &mut Vec<u8>, name: &[u8], first: &[u8], second: &[u8]) {
    self::name(out, name);
    push_integer(out, 7, 0, first.len() + second.len());
    out.extend_from_slice(first);
    out.extend_from_slice(second);
}

/// Appends the fields of lines in the form of HTTP/1 (`name: value CRLF`…), with names in lower
/// case. Returns the number of bytes of names and values.
pub fn lines(out: &mut Vec<u8>, lines: &[u8]) -> usize {
    out.reserve(lines.len());
    each_line(lines, |name, value| field(out, name, value))
}

/// Appends the part of a field before its value.
fn name(out: &mut Vec<u8>, name: &[u8]) {
    match static_index(name) {
        Some(index) => push_integer(out, 4, 0, index),
        None => {
            out.push(0);
            string(out, name);
        }
    }
}

#[inline]
fn string(out: &mut Vec<u8>, text: &[u8]) {
    push_integer(out, 7, 0, text.len());
    out.extend_from_slice(text);
}

/// Returns the static table's entry for the name of a response field, found by length and first
/// letter.
#[inline]
fn static_index(name: &[u8]) -> Option<usize> {
    let (index, expected): (usize, &[u8]) = match (name.len(), *name.first()?) {
        (3, b'a') => (21, b"age"),
        (3, b'v') => (60, b"via"),
        (4, b'd') => (33, b"date"),
        (4, b'e') => (34, b"etag"),
        (4, b'l') => (45, b"link"),
        (4, b'v') => (59, b"vary"),
        (5, b'a') => (22, b"allow"),
        (6, b's') => (54, b"server"),
        (7, b'e') => (36, b"expires"),
        (8, b'l') => (46, b"location"),
        (10, b's') => (55, b"set-cookie"),
        (11, b'r') => (53, b"retry-after"),
        (12, b'c') => (31, b"content-type"),
        (13, b'a') => (18, b"accept-ranges"),
        (13, b'c') if name[1] == b'a' => (24, b"cache-control"),
        (13, b'c') => (30, b"content-range"),
        (13, b'l') => (44, b"last-modified"),
        (14, b'c') => (28, b"content-length"),
        (16, b'c') if name[8] == b'e' => (26, b"content-encoding"),
        (16, b'c') if name[9] == b'a' => (27, b"content-language"),
        (16, b'c') => (29, b"content-location"),
        (16, b'w') => (61, b"www-authenticate"),
        (18, b'p') => (48, b"proxy-authenticate"),
        (19, b'c') => (25, b"content-disposition"),
        (25, b's') => (56, b"strict-transport-security"),
        (27, b'a') => (20, b"access-control-allow-origin"),
        _ => return None,
    };
    (name == expected).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::super::tables::STATIC;
    use super::super::{Decoder, FieldList};
    use super::*;
    use proptest::prelude::*;

    fn read(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut list = FieldList::default();
        Decoder::default().decode(block, &mut list, 1 << 20).expect("a block");
        list.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    #[test]
    fn names_of_the_static_table_are_found() {
        let mut found = 0;
        for (at, (name, _)) in STATIC.iter().enumerate() {
            if let Some(index) = static_index(name.as_bytes()) {
                assert_eq!(STATIC[index - 1].0, *name, "at {}", at + 1);
                found += 1;
            }
            assert_eq!(static_index(format!("{}x", &name[..name.len() - 1]).as_bytes()), None);
        }
        assert_eq!(found, 26);
    }

    #[test]
    fn statuses_are_written() {
        for number in [100, 200, 204, 206, 304, 400, 404, 418, 500, 503] {
            let mut block = vec![NO_TABLE];
            status(&mut block, number);
            assert_eq!(read(&block), [(b":status".to_vec(), number.to_string().into_bytes())]);
        }
    }

    #[test]
    fn parts_and_lines_are_fields() {
        let mut block = Vec::new();
        assert_eq!(lines(&mut block, b"date: then\r\nx: \r\n"), "datethenx".len());
        field_of_two(&mut block, b"cache-status", b"a", b"bc");
        let fields = [("date", "then"), ("x", ""), ("cache-status", "abc")];
        assert_eq!(
            read(&block),
            fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        );
    }

    proptest! {
        #[test]
        fn encoded_fields_read_back(fields in prop::collection::vec(("[a-z-]{1,30}", prop::collection::vec(any::<u8>(), 0..300)), 0..8)) {
            let mut block = Vec::new();
            for (name, value) in &fields {
                field(&mut block, name.as_bytes(), value);
            }
            let fields: Vec<_> = fields.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
            prop_assert_eq!(read(&block), fields);
        }
    }
}

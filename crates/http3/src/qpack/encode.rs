//! Encoding of field sections: names of the static table, and literals (RFC 9204 section 4.5).

use shoal_http2::hpack::primitives::{each_line, push_integer};

/// Bytes before each section: no entry of a table is needed.
pub const PREFIX: [u8; 2] = [0, 0];

/// Appends `:status`.
pub fn status(out: &mut Vec<u8>, status: u16) {
    debug_assert!((100..1000).contains(&status), "three digits");
    let index: usize = match status {
        103 => 24,
        200 => 25,
        304 => 26,
        404 => 27,
        503 => 28,
        100 => 63,
        204 => 64,
        206 => 65,
        302 => 66,
        400 => 67,
        403 => 68,
        421 => 69,
        425 => 70,
        500 => 71,
        _ => {
            push_integer(out, 4, 0x50, STATUS_NAME);
            out.push(3);
            return out.extend([status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8));
        }
    };
    push_integer(out, 6, 0xc0, index);
}

/// Appends a field; its name is in lower case.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    field_of_two(out, name, value, b"");
}

/// Appends a field with a value of two parts.
pub fn field_of_two(out: &mut Vec<u8>, name: &[u8], first: &[u8], second: &[u8]) {
    match static_index(name) {
        Some(index) => push_integer(out, 4, 0x50, index),
        None => {
            push_integer(out, 3, 0x20, name.len());
            out.extend_from_slice(name);
        }
    }
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

/// Returns the static table's entry for the name of a response field, found by length and first
/// letter.
#[inline]
fn static_index(name: &[u8]) -> Option<usize> {
    let (index, expected): (usize, &[u8]) = match (name.len(), *name.first()?) {
        (3, b'a') => (2, b"age"),
        (4, b'd') => (6, b"date"),
        (4, b'e') => (7, b"etag"),
        (4, b'l') => (11, b"link"),
        (4, b'v') => (59, b"vary"),
        (6, b's') => (92, b"server"),
        (7, b'a') => (83, b"alt-svc"),
        (8, b'l') => (12, b"location"),
        (10, b's') => (14, b"set-cookie"),
        (12, b'c') => (44, b"content-type"),
        (13, b'a') => (32, b"accept-ranges"),
        (13, b'c') => (36, b"cache-control"),
        (13, b'l') => (10, b"last-modified"),
        (14, b'c') => (4, b"content-length"),
        (15, b'x') => (97, b"x-frame-options"),
        (16, b'c') => (42, b"content-encoding"),
        (16, b'x') => (62, b"x-xss-protection"),
        (19, b'c') => (3, b"content-disposition"),
        (19, b't') => (93, b"timing-allow-origin"),
        (22, b'x') => (61, b"x-content-type-options"),
        (23, b'c') => (85, b"content-security-policy"),
        (25, b's') => (56, b"strict-transport-security"),
        (27, b'a') => (35, b"access-control-allow-origin"),
        _ => return None,
    };
    (name == expected).then_some(index)
}

/// Index of `:status` in the static table.
const STATUS_NAME: usize = 24;

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::super::table::STATIC;
    use super::*;
    use proptest::prelude::*;
    use shoal_http2::hpack::FieldList;

    fn read(section: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut list = FieldList::default();
        decode(section, &mut list, 1 << 20).expect("a section");
        list.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    #[test]
    fn names_of_the_static_table_are_found() {
        let mut found = 0;
        for (name, _) in STATIC {
            if let Some(index) = static_index(name.as_bytes()) {
                assert_eq!(STATIC[index].0, name);
                found += usize::from(STATIC[index].0 == name);
            }
            assert_eq!(static_index(format!("{}?", &name[..name.len() - 1]).as_bytes()), None);
        }
        assert!(found >= 23, "{found}");
    }

    #[test]
    fn statuses_are_written() {
        for number in [100, 103, 200, 204, 206, 302, 304, 400, 403, 404, 418, 421, 425, 500, 503] {
            let mut section = PREFIX.to_vec();
            status(&mut section, number);
            assert_eq!(read(&section), [(b":status".to_vec(), number.to_string().into_bytes())]);
        }
    }

    #[test]
    fn parts_and_lines_are_fields() {
        let mut section = PREFIX.to_vec();
        assert_eq!(lines(&mut section, b"date: then\r\nx: \r\n"), "datethenx".len());
        field_of_two(&mut section, b"cache-status", b"a", b"bc");
        let fields = [("date", "then"), ("x", ""), ("cache-status", "abc")];
        assert_eq!(
            read(&section),
            fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        );
    }

    proptest! {
        #[test]
        fn encoded_fields_read_back(fields in prop::collection::vec(("[a-z-]{1,30}", prop::collection::vec(any::<u8>(), 0..300)), 0..8)) {
            let mut section = PREFIX.to_vec();
            for (name, value) in &fields {
                field(&mut section, name.as_bytes(), value);
            }
            let fields: Vec<_> = fields.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
            prop_assert_eq!(read(&section), fields);
        }
    }
}

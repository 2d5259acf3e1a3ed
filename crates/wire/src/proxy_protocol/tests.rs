//! PROXY protocol: both versions, every prefix, and refused headers.

use super::*;
use proptest::prelude::*;

fn addresses(source: &str, destination: &str) -> Option<Addresses> {
    Some(Addresses {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
    })
}

/// Checks that `header`, followed by a request, is read whole, and that no prefix of it is.
fn check(header: &[u8], expected: Option<Addresses>) {
    let bytes = [header, b"GET / HTTP/1.1\r\n"].concat();
    assert_eq!(parse(&bytes), Header::Complete { length: header.len(), addresses: expected }, "{header:?}");
    for end in 0..header.len() {
        assert_eq!(parse(&bytes[..end]), Header::Incomplete, "{header:?} cut at {end}");
    }
}

fn version_2(command: u8, family: u8, variable: &[u8]) -> Vec<u8> {
    let length = u16::try_from(variable.len()).expect("short").to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, variable].concat()
}

#[test]
fn version_1_lines_are_read() {
    let four = addresses("192.0.2.1:56324", "198.51.100.7:443");
    check(b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n", four);
    check(b"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n", addresses("[2001:db8::1]:0", "[::1]:65535"));
    check(b"PROXY UNKNOWN\r\n", None);
    check(b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None);
}

#[test]
fn version_2_headers_are_read() {
    let mut block = vec![192, 0, 2, 1, 198, 51, 100, 7, 0xdc, 0x04, 0x01, 0xbb];
    let four = addresses("192.0.2.1:56324", "198.51.100.7:443");
    check(&version_2(0x21, 0x11, &block), four);
    block.extend_from_slice(&[0x04, 0x00, 0x02, 0xaa, 0xbb]);
    check(&version_2(0x21, 0x11, &block), four);
    check(&version_2(0x20, 0x00, b""), None);
    check(&version_2(0x20, 0x11, &block), None);
    check(&version_2(0x21, 0x00, b"whatever"), None);
    check(&version_2(0x21, 0x31, &[0; 216]), None);
    let mut six = [0; 36];
    (six[15], six[31], six[33], six[35]) = (1, 2, 80, 81);
    check(&version_2(0x21, 0x21, &six), addresses("[::1]:80", "[::2]:81"));
}

#[test]
fn malformed_header_is_refused() {
    let lines: [&[u8]; 12] = [
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 56324\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443 1\r\n",
        b"PROXY TCP4 192.0.2.1  198.51.100.7 56324 443\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.1 198.51.100.7 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 01 443\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 +1 443\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.7 65536 443\r\n",
        b"PROXY UDP4 192.0.2.1 198.51.100.7 1 2\r\n",
        b"PROXYTCP4",
    ];
    let long = [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 100]].concat();
    let binary = [
        version_2(0x11, 0x11, &[0; 12]),
        version_2(0x22, 0x11, &[0; 12]),
        version_2(0x21, 0x11, &[0; 11]),
        version_2(0x21, 0x21, &[0; 35]),
        version_2(0x21, 0x41, &[0; 12]),
        version_2(0x21, 0x13, &[0; 12]),
        version_2(0x21, 0x11, &[0; 5000]),
    ];
    for bytes in lines.into_iter().chain([&long[..]]).chain(binary.iter().map(|header| &header[..])) {
        assert!(matches!(parse(bytes), Header::Malformed(_)), "{bytes:?} gave {:?}", parse(bytes));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..64), version in 0..3) {
        let start: &[u8] = [&b""[..], b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"][version as usize];
        if let Header::Complete { length, .. } = parse(&[start, &bytes].concat()) {
            prop_assert!(length <= start.len() + bytes.len());
        }
    }
}

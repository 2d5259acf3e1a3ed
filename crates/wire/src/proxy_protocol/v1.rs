//! Version 1: one line of text.
//!
//! ```text
//!   PROXY TCP4 192.0.2.1 198.51.100.7 56324 443 CRLF
//!   PROXY UNKNOWN … CRLF
//! ```

use super::{Addresses, Header};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

pub(super) const SIGNATURE: &[u8] = b"PROXY ";

pub(super) fn parse(bytes: &[u8]) -> Header {
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        return match bytes.len() < LINE_BYTES_MAX {
            true => Header::Incomplete,
            false => Header::Malformed("PROXY protocol line too long"),
        };
    };
    let line = bytes[SIGNATURE.len().min(end)..end].strip_suffix(b"\r");
    match line.and_then(|line| std::str::from_utf8(line).ok()).and_then(read_line) {
        Some(addresses) => Header::Complete { length: end + 1, addresses },
        None => Header::Malformed("invalid PROXY protocol line"),
    }
}

/// Reads the line after the signature. "If the announced transport protocol is "UNKNOWN", then the
/// receiver knows that the sender speaks the correct PROXY protocol … and SHOULD accept the
/// connection and use the real connection's parameters as if there were no PROXY protocol header on
/// the wire". The rest of such a line is ignored.
fn read_line(line: &str) -> Option<Option<Addresses>> {
    let (family, rest) = line.split_once(' ').unwrap_or((line, ""));
    match family {
        "TCP4" => read_addresses::<Ipv4Addr>(rest).map(Some),
        "TCP6" => read_addresses::<Ipv6Addr>(rest).map(Some),
        "UNKNOWN" => Some(None),
        _ => None,
    }
}

fn read_addresses<A: FromStr + Into<IpAddr>>(text: &str) -> Option<Addresses> {
    let mut parts = text.split(' ');
    let mut address = || parts.next()?.parse::<A>().ok().map(Into::into);
    let (source, destination) = (address()?, address()?);
    let (from, to) = (read_port(parts.next()?)?, read_port(parts.next()?)?);
    parts.next().is_none().then_some(Addresses {
        source: SocketAddr::new(source, from),
        destination: SocketAddr::new(destination, to),
    })
}

/// Reads a port: "a decimal integer in the range [0..65535] inclusive … without leading zeroes".
fn read_port(text: &str) -> Option<u16> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| canonical)
}

/// Largest length of the line: "a 108-byte buffer is always enough to store all the line and a
/// trailing zero".
const LINE_BYTES_MAX: usize = 107;

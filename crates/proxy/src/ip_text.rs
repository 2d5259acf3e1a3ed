//! IP addresses as text, for what is written of every request: the formatter's padding costs more than the digits do.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Appends the address as [`IpAddr`] displays it.
pub fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => push_v4(out, address),
        IpAddr::V6(address) => write!(out, "{address}").expect("memory takes every write"),
    }
}

fn push_v4(out: &mut Vec<u8>, address: Ipv4Addr) {
    let mut text = [b'.'; "255.255.255.255.".len()];
    let mut end = 0;
    for octet in address.octets() {
        if octet >= 100 {
            text[end] = b'0' + octet / 100;
            end += 1;
        }
        if octet >= 10 {
            text[end] = b'0' + octet / 10 % 10;
            end += 1;
        }
        text[end] = b'0' + octet % 10;
        // The array was made of points.
        end += 2;
    }
    out.extend_from_slice(&text[..end - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_displayed() {
        for text in [
            "0.0.0.0",
            "10.20.99.100",
            "192.168.255.199",
            "192.0.2.10",
            "::1",
            "2001:db8::7",
            "::ffff:10.2.3.4",
        ] {
            let mut out = Vec::new();
            push_address(&mut out, text.parse().expect("an address"));
            assert_eq!(String::from_utf8(out).expect("ASCII"), text);
        }
    }
}

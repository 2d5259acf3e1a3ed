//! Fast text of IP addresses, for logging every request. In the standard formatter the padding
//! costs more than the digits.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Appends the address in the format of [`IpAddr`]'s `Display`.
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
        let Octet { digits, count } = OCTETS[usize::from(octet)];
        *text[end..].first_chunk_mut().expect("room for four octets with their points") = digits;
        // The dot comes after the `count` digits.
        end += usize::from(count) + 1;
    }
    out.extend_from_slice(&text[..end - 1]);
}

/// Text of an octet.
#[derive(Clone, Copy)]
struct Octet {
    /// Digits of the octet, then dots.
    digits: [u8; 4],
    count: u8,
}

static OCTETS: [Octet; 256] = {
    let mut octets = [Octet { digits: [b'.'; 4], count: 0 }; 256];
    let mut value = 0;
    while value < octets.len() {
        let octet = &mut octets[value];
        let mut unit = 100;
        while unit > 0 {
            if value >= unit || unit == 1 {
                octet.digits[octet.count as usize] = b'0' + (value / unit % 10) as u8;
                octet.count += 1;
            }
            unit /= 10;
        }
        value += 1;
    }
    octets
};

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
        for octet in 0..=255 {
            let (address, mut out) = (Ipv4Addr::new(octet, 0, octet, octet), Vec::new());
            push_address(&mut out, address.into());
            assert_eq!(String::from_utf8(out).expect("ASCII"), address.to_string());
        }
    }
}

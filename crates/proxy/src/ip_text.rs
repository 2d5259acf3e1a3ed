//! IP addresses as text, for what is written of every request: the formatter's padding costs more than the digits do.

use shoal_wire::response::push_decimal;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Appends the address as [`IpAddr`] displays it.
pub fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => push_v4(out, address),
        IpAddr::V6(address) => write!(out, "{address}").expect("memory takes every write"),
    }
}

/// The address and port as [`SocketAddr`] displays them.
pub fn socket_text(address: SocketAddr) -> String {
    let SocketAddr::V4(v4) = address else { return address.to_string() };
    let mut out = Vec::with_capacity("255.255.255.255:65535".len());
    push_v4(&mut out, *v4.ip());
    out.push(b':');
    push_decimal(&mut out, u64::from(v4.port()));
    String::from_utf8(out).expect("digits, points and a colon")
}

fn push_v4(out: &mut Vec<u8>, address: Ipv4Addr) {
    let [first, rest @ ..] = address.octets();
    push_decimal(out, first.into());
    for octet in rest {
        out.push(b'.');
        push_decimal(out, octet.into());
    }
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
            let socket = SocketAddr::new(text.parse().expect("an address"), 8081);
            assert_eq!(socket_text(socket), socket.to_string());
        }
    }
}

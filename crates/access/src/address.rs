//! Classification of addresses that belong to this machine or its networks, not to the Internet.
//!
//! The ranges are the ones that the IANA special-purpose registries (RFC 6890 and its updates) mark
//! as not globally reachable, with multicast. An IPv6 form that carries an IPv4 address gets the
//! class of the IPv4 address: a translator or the kernel would deliver to the IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the class of a non-public address, and `None` for a public one.
pub fn private_class(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => class_of_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => class_of_v4(v4),
            None => class_of_v6(v6),
        },
    }
}

/// Returns the address at which packets to `address` end: the IPv4 address embedded in an IPv6
/// form, otherwise `address`.
pub fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Returns the IPv4 address within an IPv4-mapped, IPv4-compatible, translated, 6to4, NAT64 or
/// Teredo address.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let last = |bits: u128| Ipv4Addr::from((bits & 0xffff_ffff) as u32);
    let bits = address.to_bits();
    match address.segments() {
        // :: and ::1 are themselves, not compatible forms of 0.0.0.0 and 0.0.0.1.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // IPv4-compatible (RFC 4291, 2.5.5.1) and IPv4-mapped (2.5.5.2).
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] => Some(last(bits)),
        // IPv4-translated (RFC 2765, 2.1).
        [0, 0, 0, 0, 0xffff, 0, ..] => Some(last(bits)),
        // NAT64's well-known prefix (RFC 6052, 2.1).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(last(bits)),
        // 6to4 (RFC 3056, 2).
        [0x2002, ..] => Some(last(bits >> 80)),
        // Teredo keeps the client's address inverted (RFC 4380, 4).
        [0x2001, 0, ..] => Some(last(!bits)),
        _ => None,
    }
}

fn class_of_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("unspecified"),
        [127, ..] => Some("loopback"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some("private"),
        [100, 64..=127, ..] => Some("carrier-grade NAT"),
        [169, 254, ..] => Some("link-local"),
        [192, 0, 0, _] => Some("protocol assignments"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some("documentation"),
        [198, 18 | 19, ..] => Some("benchmarking"),
        [224..=239, ..] => Some("multicast"),
        [240..=255, ..] => Some("reserved"),
        _ => None,
    }
}

fn class_of_v6(address: Ipv6Addr) -> Option<&'static str> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        [0xfc00..=0xfdff, ..] => Some("unique local"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfec0..=0xfeff, ..] => Some("site-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        // Local NAT64 prefixes lead to addresses that this network chooses (RFC 8215).
        [0x64, 0xff9b, 1, ..] => Some("local NAT64"),
        [0x100, 0, 0, 0 | 1, ..] => Some("discard"),
        [0x2001, 2, 0, ..] => Some("benchmarking"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("documentation"),
        [0x5f00, ..] => Some("segment routing"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_inside_address_is_recognised() {
        for (text, class) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("10.1.2.3", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "carrier-grade NAT"),
            ("169.254.169.254", "link-local"),
            ("192.0.0.170", "protocol assignments"),
            ("192.0.2.7", "documentation"),
            ("198.18.0.1", "benchmarking"),
            ("224.0.0.251", "multicast"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::7f00:1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:0:127.0.0.1", "loopback"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b:1::1", "local NAT64"),
            ("2002:7f00:1::", "loopback"),
            ("2002:a9fe:a9fe::1", "link-local"),
            ("2001:0:4136:e378:8000:63bf:f5ff:fffe", "private"),
            ("fd00::1", "unique local"),
            ("fe80::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
            ("2001:db8::1", "documentation"),
            ("100::1", "discard"),
        ] {
            assert_eq!(private_class(text.parse().unwrap()), Some(class), "{text}");
        }
    }

    #[test]
    fn public_addresses_pass() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(private_class(text.parse().unwrap()), None, "{text}");
        }
    }
}

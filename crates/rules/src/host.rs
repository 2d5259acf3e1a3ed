//! Hosts in the one spelling in which rules compare them.
//!
//! A name with final dots leads to the same server. Resolvers take `127.1`, `0x7f000001` and
//! `2130706433` for 127.0.0.1, and an address of IPv6 has many texts. Clients choose the spelling.
//! A rule for a host has to hold for each.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns a host, which is in lower case and without port, in its normal form: no final dots,
/// addresses as [`IpAddr`] writes them, those of IPv6 in brackets unless they are mapped.
pub fn normal_host(host: &str) -> Cow<'_, str> {
    let host = host.trim_end_matches('.');
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>().map(|address| address.to_canonical()) {
            Ok(IpAddr::V4(address)) => Cow::Owned(address.to_string()),
            Ok(IpAddr::V6(address)) => Cow::Owned(format!("[{address}]")),
            Err(_) => Cow::Borrowed(host),
        };
    }
    match ipv4(host) {
        Some(address) => Cow::Owned(address.to_string()),
        None => Cow::Borrowed(host),
    }
}

/// Reads a host of a rule: a name, `*.suffix`, `*` or an address.
///
/// # Errors
/// Says that the text is none.
pub fn host_pattern(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is no host: write a name, *.example.org or *, without a port");
    if text == "*" {
        return Ok(text.into());
    }
    let lower = text.to_ascii_lowercase();
    let bare = lower.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&lower);
    if bare.parse::<Ipv6Addr>().is_ok() {
        return Ok(normal_host(&format!("[{bare}]")).into_owned());
    }
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    match labels.split('.').all(is_label) {
        true if labels.len() == name.len() => Ok(normal_host(name).into_owned()),
        true => Ok(name.into()),
        false => Err(wrong()),
    }
}

/// Reads an address as `inet_aton` does: one to four numbers, octal after `0` and hexadecimal after
/// `0x`, the last of which fills the rest.
fn ipv4(host: &str) -> Option<Ipv4Addr> {
    if !host.as_bytes().first()?.is_ascii_digit() {
        return None;
    }
    let mut parts = [0_u32; 4];
    let mut count = 0;
    for part in host.split('.') {
        *parts.get_mut(count)? = number(part)?;
        count += 1;
    }
    let last = parts[count - 1];
    let mut address = 0_u32;
    for part in &parts[..count - 1] {
        address = address << 8 | u32::from(u8::try_from(*part).ok()?);
    }
    let bits = 8 * (5 - count as u32);
    if bits < u32::BITS && last >> bits != 0 {
        return None;
    }
    let above = if bits < u32::BITS { address << bits } else { 0 };
    Some(Ipv4Addr::from(above | last))
}

fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    is_number.then(|| u32::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each host has one normal form.
        #[test]
        fn normal_hosts_are_stable(host in "[0-9a-fx.:\\[\\]]{0,24}") {
            let normal = normal_host(&host).into_owned();
            prop_assert_eq!(normal_host(&normal), normal.as_str());
        }

        /// Any number is the address with this value.
        #[test]
        fn numbers_are_addresses(value: u32) {
            let address = Ipv4Addr::from(value).to_string();
            for text in [value.to_string(), format!("{value:#x}"), format!("0{value:o}"), address.clone()] {
                prop_assert_eq!(normal_host(&text), address.as_str(), "{}", text);
            }
        }
    }

    #[test]
    fn hosts_have_one_form() {
        for (host, normal) in [
            ("a.test", "a.test"),
            ("a.test..", "a.test"),
            ("127.1", "127.0.0.1"),
            ("127.0.1", "127.0.0.1"),
            ("0x7f.0.0.1.", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("[::ffff:7f00:1]", "127.0.0.1"),
            ("[0:0::1]", "[::1]"),
            ("[::1%25lo]", "[::1%25lo]"),
            ("1.2.3.4.5", "1.2.3.4.5"),
            ("256.1.1.1", "256.1.1.1"),
            ("127.0.0.1.test", "127.0.0.1.test"),
            ("4294967296", "4294967296"),
            ("09", "09"),
            ("", ""),
        ] {
            assert_eq!(normal_host(host), normal, "{host}");
        }
    }

    #[test]
    fn hosts_of_rules_can_match() {
        for (text, pattern) in [
            ("*", "*"),
            ("*.Example.org.", "*.example.org"),
            ("example.org.", "example.org"),
            ("a_b", "a_b"),
            ("[2001:DB8:0::1]", "[2001:db8::1]"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
        ] {
            assert_eq!(host_pattern(text).as_deref(), Ok(pattern), "{text}");
        }
        for text in
            ["", ".", "a.test:80", "a..test", ".a.test", "*a.test", "a*", "*.", "[x]", "[::1]:80", "é"]
        {
            assert!(host_pattern(text).is_err(), "{text}");
        }
    }
}

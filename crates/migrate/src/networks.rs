//! Sets of client networks.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads the forms in which peers write networks: an address, `10.0.0.0/8`, `10.0.0.0/255.0.0.0`,
/// `10.0.0.1-10.0.0.9`, `all`. Returns `None` for any other text.
pub fn parse(text: &str) -> Option<Vec<IpNet>> {
    let text = text.trim();
    if ["all", "any", "0/0"].contains(&text) {
        return Some(everyone());
    }
    if let Some((first, last)) = text.split_once('-') {
        let (last, prefix) = last.split_once('/').map_or((last, None), |(last, prefix)| (last, Some(prefix)));
        if prefix.is_some() {
            return None;
        }
        return range(address(first)?, address(last)?);
    }
    let Some((start, mask)) = text.split_once('/') else {
        return address(text).map(|address| vec![IpNet::from(address)]);
    };
    if let Ok(net) = text.parse::<IpNet>() {
        return Some(vec![net.trunc()]);
    }
    let start: Ipv4Addr = start.parse().ok()?;
    let net = Ipv4Net::with_netmask(start, mask.parse().ok()?).ok()?;
    Some(vec![IpNet::V4(net.trunc())])
}

/// Every address.
pub fn everyone() -> Vec<IpNet> {
    vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())]
}

/// Loopback addresses.
pub fn loopback() -> Vec<IpNet> {
    let v4 = Ipv4Net::new(Ipv4Addr::new(127, 0, 0, 0), 8).expect("8 of 32 bits");
    vec![IpNet::V4(v4), IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST))]
}

/// Returns `true` if the networks contain every address.
pub fn is_everyone(nets: &[IpNet]) -> bool {
    let has = |is_v4: bool| nets.iter().any(|net| net.prefix_len() == 0 && net.addr().is_ipv4() == is_v4);
    has(true) && has(false)
}

/// Returns the addresses of `nets` outside of `removed`; `None` if that takes too many networks.
pub fn subtract(nets: &[IpNet], removed: &[IpNet]) -> Option<Vec<IpNet>> {
    let mut left = nets.to_vec();
    for hole in removed {
        let mut next = Vec::new();
        for net in left {
            without(net, hole, &mut next);
        }
        if next.len() > NETS_MAX {
            return None;
        }
        left = next;
    }
    debug_assert!(left.iter().all(|net| removed.iter().all(|hole| !hole.contains(net))), "holes are out");
    let is_inside = |net: &IpNet| nets.iter().any(|whole| whole.contains(net));
    debug_assert!(left.iter().all(is_inside), "a subtraction adds no address");
    Some(IpNet::aggregate(&left))
}

/// Adds the parts of `net` outside of `hole`.
fn without(net: IpNet, hole: &IpNet, parts: &mut Vec<IpNet>) {
    if hole.contains(&net) {
        return;
    }
    if !net.contains(hole) {
        parts.push(net);
        return;
    }
    let mut around = net;
    // Each step halves the network around the hole and keeps the other half.
    while around != *hole {
        let Ok(halves) = around.subnets(around.prefix_len() + 1) else { return };
        let mut inner = None;
        for half in halves {
            match half.contains(hole) {
                true => inner = Some(half),
                false => parts.push(half),
            }
        }
        let Some(half) = inner else { return };
        debug_assert!(half.prefix_len() > around.prefix_len(), "each step halves the network");
        around = half;
    }
}

fn address(text: &str) -> Option<IpAddr> {
    text.trim().trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn range(first: IpAddr, last: IpAddr) -> Option<Vec<IpNet>> {
    let nets: Vec<IpNet> = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
            ipnet::Ipv4Subnets::new(first, last, 0).map(IpNet::V4).take(NETS_MAX + 1).collect()
        }
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
            ipnet::Ipv6Subnets::new(first, last, 0).map(IpNet::V6).take(NETS_MAX + 1).collect()
        }
        _ => return None,
    };
    (nets.len() <= NETS_MAX).then_some(nets)
}

/// Most networks that a subtraction may take.
const NETS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().flat_map(|text| parse(text).expect("a network")).collect()
    }

    #[test]
    fn forms_of_networks_are_read() {
        for (text, found) in [
            ("10.0.0.0/8", &["10.0.0.0/8"][..]),
            ("10.1.2.3/8", &["10.0.0.0/8"]),
            ("10.0.0.0/255.255.0.0", &["10.0.0.0/16"]),
            ("192.0.2.7", &["192.0.2.7"]),
            ("10.0.0.0-10.0.0.3", &["10.0.0.0/30"]),
            ("fe80::/10", &["fe80::/10"]),
            ("all", &["0.0.0.0/0", "::/0"]),
        ] {
            assert_eq!(parse(text), Some(nets(found)), "{text}");
        }
        for text in ["", "x", "10.0.0.0/33", "10.0.0.9-10.0.0.1", "10.0.0.0/255.0.255.0"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn holes_are_cut() {
        let left = subtract(&nets(&["10.0.0.0/8"]), &nets(&["10.0.0.0/9", "192.0.2.0/24"]));
        assert_eq!(left, Some(nets(&["10.128.0.0/9"])));
        assert_eq!(subtract(&nets(&["10.0.0.0/8"]), &everyone()), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_removed_address_stays(net in 8u8..28, hole in 8u8..33, a: u32, b: u32, probe: u32) {
            let of = |bits: u32, prefix: u8| {
                IpNet::V4(Ipv4Net::new(Ipv4Addr::from(bits), prefix).expect("a prefix").trunc())
            };
            let (net, hole) = (of(a, net), of(if b % 2 == 0 { a ^ (b >> 16) } else { b }, hole));
            let left = subtract(&[net], &[hole]).expect("few networks");
            for probe in [Ipv4Addr::from(probe), Ipv4Addr::from(a), Ipv4Addr::from(a ^ (probe >> 12))] {
                let probe = IpAddr::V4(probe);
                let is_left = left.iter().any(|part| part.contains(&probe));
                prop_assert_eq!(is_left, net.contains(&probe) && !hole.contains(&probe));
            }
        }
    }
}

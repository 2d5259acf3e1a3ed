//! Reads the fields by which trusted proxies describe a client: its address, path and scheme.
//!
//! ```text
//!   client 203.0.113.7 ── proxy 10.0.0.2 ── proxy 10.0.0.1 ── this node
//!   X-Forwarded-For: 198.51.100.1, 203.0.113.7, 10.0.0.2      the connection comes from 10.0.0.1
//!                    └ not vouched for ┘
//! ```
//!
//! Addresses are read from the right, as long as the sender of each is trusted. The client is the
//! rightmost address that does not belong to a trusted proxy. Addresses further left come from the
//! client and are dropped. `Forwarded` (RFC 7239) is read only without `X-Forwarded-For` and
//! `X-Forwarded-Proto`.

use super::speaking::FieldStatement;
use crate::message::Client;
use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};

/// Fields of a request by which a proxy describes its client.
#[derive(Debug, Default)]
pub struct Heard<'a> {
    addresses: SmallVec<[&'a [u8]; 2]>,
    scheme: Option<&'a [u8]>,
    forwarded: SmallVec<[&'a [u8]; 2]>,
    tells_more: bool,
}

/// A client as trusted proxies describe it.
#[derive(Debug)]
pub struct ClientReport {
    /// The client, in place of the nearest proxy.
    pub client: Client,
    /// Path of the client's request.
    pub way: Way,
}

/// Path of a request through trusted proxies.
#[derive(Debug)]
pub struct Way {
    /// Proxies between the client and this node, the nearest last.
    pub proxies: Vec<IpAddr>,
    /// `true` if the proxies say more about the client. Such fields are forwarded, and the cache
    /// has no part in the request.
    pub tells_more: bool,
}

impl<'a> Heard<'a> {
    /// Records a field; its name may have any case.
    pub fn note(&mut self, name: &'a [u8], value: &'a [u8]) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.first() {
            Some(b'x' | b'X') if is("x-forwarded-for") => self.addresses.push(value),
            Some(b'x' | b'X') if is("x-forwarded-proto") => self.scheme = Some(value),
            Some(b'x' | b'X') => {
                self.tells_more |=
                    FieldStatement::of(&name.to_ascii_lowercase()) == Some(FieldStatement::Identity);
            }
            Some(b'f' | b'F') if is("forwarded") => self.forwarded.push(value),
            _ => {}
        }
    }

    /// Returns the client and path that the proxies report. `client` is the nearest proxy and must
    /// be trusted.
    pub fn told(&self, client: &Client, trusts: impl Fn(IpAddr) -> bool) -> Option<ClientReport> {
        let mut nearest = client.address.ip().to_canonical();
        if !trusts(nearest) {
            return None;
        }
        let reads_forwarded = self.addresses.is_empty() && self.scheme.is_none();
        let elements = || self.forwarded.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
        let scheme = match reads_forwarded {
            true => elements().next().and_then(|element| parameter(element, "proto")),
            false => self.scheme.and_then(|line| line.rsplit(|byte| *byte == b',').next()),
        };
        let mut proxies = Vec::new();
        let mut step = |address: Option<IpAddr>| {
            let Some(address) = address.filter(|_| trusts(nearest) && proxies.len() < PROXIES_MAX) else {
                return false;
            };
            proxies.push(nearest);
            nearest = address;
            true
        };
        match reads_forwarded {
            true => {
                let addresses = elements().map(|element| parameter(element, "for").and_then(address_of));
                addresses.take_while(|address| step(*address)).for_each(drop);
            }
            false => {
                let lines = self.addresses.iter().rev();
                let addresses = lines.flat_map(|line| line.rsplit(|byte| *byte == b',')).map(address_of);
                addresses.take_while(|address| step(*address)).for_each(drop);
            }
        }
        proxies.reverse();
        let address = match proxies.is_empty() {
            true => client.address,
            false => SocketAddr::new(nearest, 0),
        };
        let told = Client {
            address,
            local: client.local,
            listener: client.listener,
            tls: scheme.and_then(is_secure).unwrap_or(client.tls),
            server_name: None,
            certificate: client.certificate.clone(),
            intercepted: client.intercepted.clone(),
        };
        Some(ClientReport { client: told, way: Way { proxies, tells_more: self.tells_more } })
    }
}

/// Returns `true` for a scheme over TLS; `None` for a scheme outside the web.
fn is_secure(scheme: &[u8]) -> Option<bool> {
    let scheme = scheme.trim_ascii();
    let is = |names: [&str; 2]| names.iter().any(|name| scheme.eq_ignore_ascii_case(name.as_bytes()));
    if is(["https", "wss"]) { Some(true) } else { is(["http", "ws"]).then_some(false) }
}

/// Returns a parameter of an element of Forwarded, without quotes.
fn parameter<'a>(element: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let pairs = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let value = pairs.filter_map(|pair| pair.split_at_checked(name.len() + 1)).find_map(|(key, value)| {
        let [key @ .., b'='] = key else { return None };
        key.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
    })?;
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// Parses an address, with or without brackets or a port.
fn address_of(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// Maximum number of proxies in a row that are trusted.
const PROXIES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(peer: &str, fields: &[(&str, &str)]) -> Option<ClientReport> {
        let mut heard = Heard::default();
        fields.iter().for_each(|(name, value)| heard.note(name.as_bytes(), value.as_bytes()));
        let local = ([127, 0, 0, 1], 80).into();
        let address = SocketAddr::new(peer.parse().expect("an address"), 4000);
        let client = Client {
            address,
            local,
            listener: 0,
            tls: false,
            server_name: None,
            certificate: None,
            intercepted: None,
        };
        let trusted: ipnet::IpNet = "10.0.0.0/8".parse().expect("a network");
        heard.told(&client, |address| trusted.contains(&address))
    }

    #[test]
    fn the_client_is_the_rightmost_that_is_not_trusted() {
        for (fields, client, proxies) in [
            (&[("X-Forwarded-For", "203.0.113.7")][..], "203.0.113.7:0", &["10.0.0.1"][..]),
            (
                &[("x-forwarded-for", "198.51.100.9, 203.0.113.7, 10.0.0.2")],
                "203.0.113.7:0",
                &["10.0.0.2", "10.0.0.1"],
            ),
            (
                &[("x-forwarded-for", "198.51.100.9"), ("x-forwarded-for", "203.0.113.7")],
                "203.0.113.7:0",
                &["10.0.0.1"],
            ),
            (&[("x-forwarded-for", "10.0.0.3,10.0.0.2")], "10.0.0.3:0", &["10.0.0.2", "10.0.0.1"]),
            (&[("x-forwarded-for", "203.0.113.7, unknown")], "10.0.0.1:4000", &[]),
            (&[("x-forwarded-for", "203.0.113.7:99")], "203.0.113.7:0", &["10.0.0.1"]),
            (&[("x-forwarded-for", "[2001:db8::7]:99")], "[2001:db8::7]:0", &["10.0.0.1"]),
            (&[("x-forwarded-for", "2001:db8::7")], "[2001:db8::7]:0", &["10.0.0.1"]),
            (
                &[("forwarded", "for=198.51.100.9, for=\"[2001:db8::7]:9\";proto=https")],
                "[2001:db8::7]:0",
                &["10.0.0.1"],
            ),
            (
                &[("forwarded", "for=198.51.100.9"), ("x-forwarded-for", "203.0.113.7")],
                "203.0.113.7:0",
                &["10.0.0.1"],
            ),
            (&[("forwarded", "for=198.51.100.9"), ("x-forwarded-proto", "https")], "10.0.0.1:4000", &[]),
            (&[], "10.0.0.1:4000", &[]),
        ] {
            let told = told("10.0.0.1", fields).expect("it is trusted");
            assert_eq!(told.client.address.to_string(), client, "{fields:?}");
            let came: Vec<_> = told.way.proxies.iter().map(ToString::to_string).collect();
            assert_eq!(came, proxies, "{fields:?}");
        }
        assert!(told("192.0.2.1", &[("x-forwarded-for", "203.0.113.7")]).is_none());
    }

    #[test]
    fn the_nearest_proxy_tells_the_scheme() {
        for (fields, tls) in [
            (&[("x-forwarded-proto", "https")][..], true),
            (&[("x-forwarded-proto", "HTTPS ")], true),
            (&[("x-forwarded-proto", "wss")], true),
            (&[("x-forwarded-proto", "https, http")], false),
            (&[("x-forwarded-proto", "gopher")], false),
            (&[("forwarded", "proto=http, for=203.0.113.7;Proto=https")], true),
            (&[("forwarded", "proto=https"), ("x-forwarded-for", "203.0.113.7")], false),
        ] {
            assert_eq!(told("10.0.0.1", fields).expect("it is trusted").client.tls, tls, "{fields:?}");
        }
    }

    #[test]
    fn more_than_the_way_is_told_of() {
        for (name, more) in
            [("x-forwarded-user", true), ("X-Forwarded-Email", true), ("x-forwarded-host", false)]
        {
            assert_eq!(
                told("10.0.0.1", &[(name, "x")]).expect("it is trusted").way.tells_more,
                more,
                "{name}"
            );
        }
    }

    #[test]
    fn a_chain_without_end_is_followed_so_far() {
        let chain = vec!["10.0.0.2"; 1000].join(",");
        let told = told("10.0.0.1", &[("x-forwarded-for", &chain)]).expect("it is trusted");
        assert_eq!(told.way.proxies.len(), PROXIES_MAX);
    }
}

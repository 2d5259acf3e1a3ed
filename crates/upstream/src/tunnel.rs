//! Tunnels: CONNECT to a destination, and the protocol switch of Upgrade.

use crate::access::ForwardRules;
use crate::message::TunnelIo;
use crate::{Caller, Origin, Scheme, UpstreamError, Upstreams};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Version};
use shoal_core::{Fields, value_text};
use std::net::SocketAddr;
use std::sync::Arc;

/// Far end of a CONNECT.
pub struct Tunnel {
    /// The connection.
    pub io: Box<dyn TunnelIo>,
    /// Address of the far end.
    pub peer: SocketAddr,
}

/// Opens a tunnel for `caller`'s CONNECT if the rules allow the address. Port and name were checked
/// before ([`ForwardRules::tunnel`]).
///
/// # Errors
/// If the rules refuse the address, or the destination cannot be connected to.
pub async fn connect(
    upstreams: &Upstreams,
    rules: &Arc<ForwardRules>,
    host: &str,
    port: u16,
    caller: &Caller,
) -> Result<Tunnel, UpstreamError> {
    let origin = Origin::new(Scheme::Http, host, port);
    let (io, peer) = upstreams.dial(&origin, rules, caller).await?;
    Ok(Tunnel { io, peer })
}

/// Returns the protocols that a request offers to switch to, for
/// [`crate::UpstreamRequest::upgrade`]. Returns `None` if there are none.
pub fn upgrade_offer(version: Version, fields: &impl Fields) -> Option<HeaderValue> {
    // RFC 9110, 7.8: "A server that receives an Upgrade header field in an HTTP/1.0 request MUST
    // ignore that Upgrade field." HTTP/2 has none (RFC 9113, 8.6).
    if version != Version::HTTP_11 {
        return None;
    }
    // "A sender of Upgrade MUST also send an "Upgrade" connection option in the Connection header
    // field": without this option, an intermediary that does not know Upgrade forwarded the field.
    let mut options = fields.values(&CONNECTION).filter_map(value_text);
    if !options.any(|options| options.split(',').any(|option| option.trim().eq_ignore_ascii_case("upgrade")))
    {
        return None;
    }
    let mut protocols = Vec::new();
    for value in fields.values(&UPGRADE).filter_map(value_text) {
        // HTTP/2 over TCP is negotiated hop by hop. A tunnel of HTTP/2 would carry requests past
        // the cache unseen.
        let passed = |protocol: &&str| {
            !protocol.is_empty() && !protocol.eq_ignore_ascii_case("h2c") && !is_http(protocol)
        };
        protocols.extend(value.split(',').map(str::trim).filter(passed));
    }
    if protocols.is_empty() { None } else { HeaderValue::from_str(&protocols.join(", ")).ok() }
}

fn is_http(protocol: &str) -> bool {
    let name = protocol.split('/').next().unwrap_or(protocol);
    name.eq_ignore_ascii_case("http") || name.eq_ignore_ascii_case("tls")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn offer(version: Version, lines: &[(&'static str, &'static str)]) -> Option<String> {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_static(value));
        }
        upgrade_offer(version, &fields).map(|value| value.to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn an_offer_needs_its_connection_option() {
        let websocket = Some("websocket".to_owned());
        for (version, lines, expected) in [
            (Version::HTTP_11, &[("connection", "Upgrade"), ("upgrade", "websocket")][..], websocket.clone()),
            (
                Version::HTTP_11,
                &[("connection", "keep-alive, UPGRADE"), ("upgrade", "websocket, h2c")],
                websocket,
            ),
            (Version::HTTP_11, &[("upgrade", "websocket")], None),
            (Version::HTTP_11, &[("connection", "upgrade")], None),
            (Version::HTTP_11, &[("connection", "upgrade"), ("upgrade", "h2c")], None),
            (Version::HTTP_11, &[("connection", "upgrade"), ("upgrade", "TLS/1.2, HTTP/2.0")], None),
            (Version::HTTP_10, &[("connection", "upgrade"), ("upgrade", "websocket")], None),
            (Version::HTTP_2, &[("connection", "upgrade"), ("upgrade", "websocket")], None),
        ] {
            assert_eq!(offer(version, lines), expected, "{version:?} {lines:?}");
        }
    }
}

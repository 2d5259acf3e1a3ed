//! Proxy-Status (RFC 9209).

use super::{MEMBER_BYTES, push_name, push_quoted};
use crate::fields::append_shared_member;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};

/// Proxy-Status.
pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Member of Proxy-Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyStatus<'a> {
    /// Name of this proxy.
    pub proxy: &'a str,
    /// Error that occurred, if any.
    pub error: Option<ProxyError>,
    /// Next hop that was asked: host name or address.
    pub next_hop: Option<&'a str>,
    /// Protocol spoken with the next hop, as an ALPN identifier.
    pub next_protocol: Option<&'a str>,
    /// Status received from the next hop.
    pub received_status: Option<StatusCode>,
    /// Further details.
    pub details: Option<&'a str>,
}

impl ProxyStatus<'_> {
    /// Returns the member as bytes.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(MEMBER_BYTES);
        self.write(&mut out);
        out.into()
    }

    /// Adds the member behind the members of earlier proxies.
    pub fn append_to(&self, response: &mut HeaderMap) {
        append_shared_member(response, &PROXY_STATUS, self.to_bytes());
    }

    /// Writes the member.
    pub fn write(&self, out: &mut Vec<u8>) {
        push_name(out, self.proxy);
        if let Some(error) = self.error {
            out.extend_from_slice(b";error=");
            out.extend_from_slice(error.as_str().as_bytes());
        }
        if let Some(next_hop) = self.next_hop {
            out.extend_from_slice(b";next-hop=");
            push_quoted(out, next_hop);
        }
        if let Some(protocol) = self.next_protocol {
            out.extend_from_slice(b";next-protocol=");
            push_name(out, protocol);
        }
        if let Some(status) = self.received_status {
            out.extend_from_slice(b";received-status=");
            out.extend_from_slice(status.as_str().as_bytes());
        }
        if let Some(details) = self.details {
            out.extend_from_slice(b";details=");
            push_quoted(out, details);
        }
    }
}

/// Declares the error types of RFC 9209, section 2.3, with their recommended status and the remedy.
macro_rules! proxy_errors {
    ($(#[doc = $doc:literal] $name:ident = $token:literal, $status:ident, $remedy:literal;)*) => {
        /// Error type of Proxy-Status (RFC 9209, section 2.3).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ProxyError {
            $(#[doc = $doc] $name,)*
        }

        impl ProxyError {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the token.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $token,)* }
            }

            /// Returns the status that the RFC recommends for a response made because of this
            /// error.
            pub fn recommended_status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// Returns the meaning, one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc,)* }
            }

            /// Returns the remedy: a setting, or the duty of another party.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)* }
            }
        }
    };
}

proxy_errors! {
    #[doc = "The name could not be resolved in time."]
    DnsTimeout = "dns_timeout", GATEWAY_TIMEOUT,
        "The name servers of this machine; `upstream.connect_timeout`.";
    #[doc = "The name could not be resolved."]
    DnsError = "dns_error", BAD_GATEWAY,
        "The host in the URL or in `site.upstreams`, or the name servers of this machine.";
    #[doc = "Means other than DNS could not find the origin."]
    DestinationNotFound = "destination_not_found", INTERNAL_SERVER_ERROR,
        "`site.upstreams`.";
    #[doc = "The origin is considered unhealthy."]
    DestinationUnavailable = "destination_unavailable", SERVICE_UNAVAILABLE,
        "The upstream: `shoal status` shows which one is down.";
    #[doc = "This proxy may not connect to that address."]
    DestinationIpProhibited = "destination_ip_prohibited", BAD_GATEWAY,
        "`forward.allow_private_destinations`.";
    #[doc = "There is no route to that address."]
    DestinationIpUnroutable = "destination_ip_unroutable", BAD_GATEWAY,
        "The network of this machine.";
    #[doc = "The connection was refused."]
    ConnectionRefused = "connection_refused", BAD_GATEWAY,
        "The origin: no server listens at this address and port.";
    #[doc = "The connection was closed before the whole response had arrived."]
    ConnectionTerminated = "connection_terminated", BAD_GATEWAY,
        "The origin, or a firewall before it.";
    #[doc = "The connection was not made in time."]
    ConnectionTimeout = "connection_timeout", GATEWAY_TIMEOUT,
        "The origin or the network; `upstream.connect_timeout`.";
    #[doc = "Nothing was read in time."]
    ConnectionReadTimeout = "connection_read_timeout", GATEWAY_TIMEOUT,
        "The origin; `upstream.idle_timeout`.";
    #[doc = "Nothing could be written in time."]
    ConnectionWriteTimeout = "connection_write_timeout", GATEWAY_TIMEOUT,
        "The origin, which does not read.";
    #[doc = "This proxy has reached its limit of connections."]
    ConnectionLimitReached = "connection_limit_reached", SERVICE_UNAVAILABLE,
        "`upstream.connections_per_origin`, `upstream.tunnels`.";
    #[doc = "TLS failed."]
    TlsProtocolError = "tls_protocol_error", BAD_GATEWAY,
        "The origin: its versions and ciphers of TLS, or no TLS at this port.";
    #[doc = "The origin's certificate is not trusted."]
    TlsCertificateError = "tls_certificate_error", BAD_GATEWAY,
        "The origin, or `upstream.ca_file` with the authority that signed its certificate.";
    #[doc = "The origin sent a TLS alert."]
    TlsAlertReceived = "tls_alert_received", BAD_GATEWAY,
        "The origin, which refused this node.";
    #[doc = "The client's request is wrong; this proxy answered on behalf of the origin."]
    HttpRequestError = "http_request_error", BAD_REQUEST,
        "The client; the limits are in `[client]`.";
    #[doc = "The request was refused by an access rule."]
    HttpRequestDenied = "http_request_denied", FORBIDDEN,
        "The setting that `details` names.";
    #[doc = "The response ended before its length."]
    HttpResponseIncomplete = "http_response_incomplete", BAD_GATEWAY,
        "The origin.";
    #[doc = "The head of the response is too large."]
    HttpResponseHeaderSectionSize = "http_response_header_section_size", BAD_GATEWAY,
        "The origin; its head is above the limit of docs/LIMITS.md.";
    #[doc = "The body of the response is too large."]
    HttpResponseBodySize = "http_response_body_size", BAD_GATEWAY,
        "The origin.";
    #[doc = "The response has a coding that this proxy cannot remove."]
    HttpResponseTransferCoding = "http_response_transfer_coding", BAD_GATEWAY,
        "The origin.";
    #[doc = "The response did not arrive in time."]
    HttpResponseTimeout = "http_response_timeout", GATEWAY_TIMEOUT,
        "The origin; `upstream.first_byte_timeout`.";
    #[doc = "The change of protocol failed."]
    HttpUpgradeFailed = "http_upgrade_failed", BAD_GATEWAY,
        "The origin or the client.";
    #[doc = "The origin broke HTTP."]
    HttpProtocolError = "http_protocol_error", BAD_GATEWAY,
        "The origin; the error log has the mistake.";
    #[doc = "This proxy made the answer itself."]
    ProxyInternalResponse = "proxy_internal_response", INTERNAL_SERVER_ERROR,
        "None.";
    #[doc = "This proxy failed."]
    ProxyInternalError = "proxy_internal_error", INTERNAL_SERVER_ERROR,
        "The error log of this node.";
    #[doc = "This proxy is misconfigured."]
    ProxyConfigurationError = "proxy_configuration_error", INTERNAL_SERVER_ERROR,
        "`upstream.ca_file`, or the certificates of this machine.";
    #[doc = "The request came through this proxy before."]
    ProxyLoopDetected = "proxy_loop_detected", BAD_GATEWAY,
        "The URL or an upstream, which leads back to this node; nodes in a row need different names in `cache.name`.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_of_proxy_status() {
        let mut response = HeaderMap::new();
        let status = ProxyStatus {
            proxy: "shoal",
            error: Some(ProxyError::ConnectionTimeout),
            next_hop: Some("2001:db8::1"),
            next_protocol: Some("http/1.1"),
            received_status: Some(StatusCode::BAD_GATEWAY),
            details: Some("after 10 s"),
        };
        status.append_to(&mut response);
        ProxyStatus { proxy: "shoal", ..ProxyStatus::default() }.append_to(&mut response);
        assert_eq!(
            response[PROXY_STATUS],
            "shoal;error=connection_timeout;next-hop=\"2001:db8::1\";next-protocol=http/1.1;received-status=502;\
             details=\"after 10 s\", shoal"
        );
    }

    #[test]
    fn errors_have_tokens_and_statuses() {
        for error in ProxyError::ALL {
            assert!(
                !error.as_str().is_empty()
                    && error.as_str().bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
            );
            assert!(
                error.recommended_status().is_client_error() || error.recommended_status().is_server_error()
            );
        }
    }

    proptest! {
        /// For any names and details, the field is a structured list of one member.
        #[test]
        fn members_are_structured(proxy in any::<String>(), next_hop in any::<String>(), details in any::<String>()) {
            let status = ProxyStatus {
                proxy: &proxy,
                next_hop: Some(&next_hop),
                details: Some(&details),
                ..ProxyStatus::default()
            };
            let list: sfv::List = sfv::Parser::new(&status.to_bytes()).parse().expect("a list");
            prop_assert_eq!(list.len(), 1);
        }
    }
}

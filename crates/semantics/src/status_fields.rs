//! Cache-Status (RFC 9211) and Proxy-Status (RFC 9209): what this node tells about how it handled a request.
//!
//! Both are structured lists to which each node on the way adds a member of its own at the end. A member is built with one
//! allocation, since every answer carries one.

use crate::fields::append_member;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use std::fmt::{self, Display, Write};

/// Cache-Status.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// Proxy-Status.
pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// A member of Cache-Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// The name of this cache.
    pub cache: &'a str,
    /// Whether it answered or forwarded the request.
    pub handling: Handling,
    /// Seconds for which the response stays fresh; negative when it is stale.
    pub ttl: Option<i64>,
    /// The cache key used.
    pub key: Option<&'a str>,
    /// Anything more to know, a token by preference.
    pub detail: Option<&'a str>,
}

/// What a cache did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// Answered it from storage, without forwarding it.
    Hit,
    /// Forwarded it, or let it share a forwarded request.
    Forwarded(Forwarded),
    /// Neither: it made the answer itself, as an error page or a redirect.
    Generated,
}

/// How a request was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// Why.
    pub reason: ForwardReason,
    /// The status that came back, when it differs from the one sent on, as with a 304 that validated.
    pub status: Option<StatusCode>,
    /// Whether the response was stored.
    pub stored: bool,
    /// Whether the request was collapsed with others.
    pub collapsed: bool,
}

/// Why a request was forwarded (RFC 9211, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// "The cache was configured to not handle this request."
    Bypass,
    /// "The request method's semantics require the request to be forwarded."
    Method,
    /// "The cache did not contain any responses that matched the request URI."
    UriMiss,
    /// "The cache contained a response that matched the request URI, but it could not select a response based upon this
    /// request's header fields and stored Vary header fields."
    VaryMiss,
    /// "The cache did not contain any responses that could be used to satisfy this request (to be used when an implementation
    /// cannot distinguish between uri-miss and vary-miss)."
    Miss,
    /// "The cache was able to select a fresh response for the request, but the request's semantics (e.g., Cache-Control request
    /// directives) did not allow its use."
    Request,
    /// "The cache was able to select a response for the request, but it was stale."
    Stale,
    /// "The cache was able to select a partial response for the request, but it did not contain all of the requested ranges (or
    /// the request was for the complete response)."
    Partial,
}

impl ForwardReason {
    /// The token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

impl CacheStatus<'_> {
    /// The member as bytes.
    pub fn to_bytes(&self) -> Bytes {
        self.to_text().into()
    }

    /// Adds the member behind those of the caches before.
    pub fn append_to(&self, response: &mut HeaderMap) {
        append_member(response, &CACHE_STATUS, &self.to_text());
    }

    fn to_text(&self) -> String {
        let mut text = String::with_capacity(96);
        write!(text, "{self}").expect("writing to a string");
        text
    }
}

impl Display for CacheStatus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Name(self.cache))?;
        match self.handling {
            Handling::Hit => f.write_str(";hit")?,
            Handling::Forwarded(forwarded) => {
                write!(f, ";fwd={}", forwarded.reason.as_str())?;
                if let Some(status) = forwarded.status {
                    write!(f, ";fwd-status={}", status.as_u16())?;
                }
                if forwarded.stored {
                    f.write_str(";stored")?;
                }
                if forwarded.collapsed {
                    f.write_str(";collapsed")?;
                }
            }
            Handling::Generated => {}
        }
        if let Some(ttl) = self.ttl {
            write!(f, ";ttl={}", ttl.clamp(-INTEGER_MAX, INTEGER_MAX))?;
        }
        if let Some(key) = self.key {
            write!(f, ";key={}", Quoted(key))?;
        }
        match self.detail {
            Some(detail) => write!(f, ";detail={}", Name(detail)),
            None => Ok(()),
        }
    }
}

/// A member of Proxy-Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyStatus<'a> {
    /// The name of this proxy.
    pub proxy: &'a str,
    /// What went wrong, when something did.
    pub error: Option<ProxyError>,
    /// Who was asked: host name or address.
    pub next_hop: Option<&'a str>,
    /// The protocol spoken with it, as an ALPN identifier.
    pub next_protocol: Option<&'a str>,
    /// The status received from it.
    pub received_status: Option<StatusCode>,
    /// Anything more to know.
    pub details: Option<&'a str>,
}

impl ProxyStatus<'_> {
    /// Adds the member behind those of the proxies before.
    pub fn append_to(&self, response: &mut HeaderMap) {
        append_member(response, &PROXY_STATUS, &self.to_string());
    }
}

impl Display for ProxyStatus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Name(self.proxy))?;
        if let Some(error) = self.error {
            write!(f, ";error={}", error.as_str())?;
        }
        if let Some(next_hop) = self.next_hop {
            write!(f, ";next-hop={}", Quoted(next_hop))?;
        }
        if let Some(protocol) = self.next_protocol {
            write!(f, ";next-protocol={}", Name(protocol))?;
        }
        if let Some(status) = self.received_status {
            write!(f, ";received-status={}", status.as_u16())?;
        }
        match self.details {
            Some(details) => write!(f, ";details={}", Quoted(details)),
            None => Ok(()),
        }
    }
}

/// Declares the error types of RFC 9209, section 2.3, with their recommended status.
macro_rules! proxy_errors {
    ($($(#[$doc:meta])* $name:ident = $token:literal, $status:ident;)*) => {
        /// An error type of Proxy-Status (RFC 9209, section 2.3).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ProxyError {
            $($(#[$doc])* $name,)*
        }

        impl ProxyError {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The token.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $token,)* }
            }

            /// The status that the RFC recommends for a response made because of it.
            pub fn recommended_status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }
        }
    };
}

proxy_errors! {
    /// The name could not be resolved in time.
    DnsTimeout = "dns_timeout", GATEWAY_TIMEOUT;
    /// The name could not be resolved.
    DnsError = "dns_error", BAD_GATEWAY;
    /// The origin could not be found by other means than DNS.
    DestinationNotFound = "destination_not_found", INTERNAL_SERVER_ERROR;
    /// The origin is considered unhealthy.
    DestinationUnavailable = "destination_unavailable", SERVICE_UNAVAILABLE;
    /// This proxy may not connect to that address.
    DestinationIpProhibited = "destination_ip_prohibited", BAD_GATEWAY;
    /// There is no route to that address.
    DestinationIpUnroutable = "destination_ip_unroutable", BAD_GATEWAY;
    /// The connection was refused.
    ConnectionRefused = "connection_refused", BAD_GATEWAY;
    /// The connection was closed before a whole response had come.
    ConnectionTerminated = "connection_terminated", BAD_GATEWAY;
    /// The connection was not made in time.
    ConnectionTimeout = "connection_timeout", GATEWAY_TIMEOUT;
    /// Nothing was read in time.
    ConnectionReadTimeout = "connection_read_timeout", GATEWAY_TIMEOUT;
    /// Nothing could be written in time.
    ConnectionWriteTimeout = "connection_write_timeout", GATEWAY_TIMEOUT;
    /// This proxy has as many connections as it may.
    ConnectionLimitReached = "connection_limit_reached", SERVICE_UNAVAILABLE;
    /// TLS failed.
    TlsProtocolError = "tls_protocol_error", BAD_GATEWAY;
    /// The origin's certificate is not trusted.
    TlsCertificateError = "tls_certificate_error", BAD_GATEWAY;
    /// The origin sent a TLS alert.
    TlsAlertReceived = "tls_alert_received", BAD_GATEWAY;
    /// The client's request is wrong; this proxy answered on behalf of the origin.
    HttpRequestError = "http_request_error", BAD_REQUEST;
    /// The request was refused by an access rule.
    HttpRequestDenied = "http_request_denied", FORBIDDEN;
    /// The response ended before its length.
    HttpResponseIncomplete = "http_response_incomplete", BAD_GATEWAY;
    /// The head of the response is too large.
    HttpResponseHeaderSectionSize = "http_response_header_section_size", BAD_GATEWAY;
    /// The body of the response is too large.
    HttpResponseBodySize = "http_response_body_size", BAD_GATEWAY;
    /// The response has a coding that cannot be taken off.
    HttpResponseTransferCoding = "http_response_transfer_coding", BAD_GATEWAY;
    /// The response did not come in time.
    HttpResponseTimeout = "http_response_timeout", GATEWAY_TIMEOUT;
    /// The change of protocol failed.
    HttpUpgradeFailed = "http_upgrade_failed", BAD_GATEWAY;
    /// The origin broke HTTP.
    HttpProtocolError = "http_protocol_error", BAD_GATEWAY;
    /// This proxy answered by itself.
    ProxyInternalResponse = "proxy_internal_response", INTERNAL_SERVER_ERROR;
    /// This proxy failed.
    ProxyInternalError = "proxy_internal_error", INTERNAL_SERVER_ERROR;
    /// This proxy is misconfigured.
    ProxyConfigurationError = "proxy_configuration_error", INTERNAL_SERVER_ERROR;
    /// The request came through this proxy before.
    ProxyLoopDetected = "proxy_loop_detected", BAD_GATEWAY;
}

/// A structured token when the text is one, a string otherwise.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match is_token(self.0) {
            true => f.write_str(self.0),
            false => Quoted(self.0).fmt(f),
        }
    }
}

/// A structured string; what is no printable ASCII becomes a question mark.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                ' '..='~' => f.write_char(char)?,
                _ => f.write_char('?')?,
            }
        }
        f.write_char('"')
    }
}

/// RFC 9651, section 3.3.4: a letter or `*`, then characters of a token, `:` or `/`.
fn is_token(text: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'*';
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    text.bytes().next().is_some_and(first) && text.bytes().all(rest)
}

/// The largest structured integer.
const INTEGER_MAX: i64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn forwarded(reason: ForwardReason) -> Forwarded {
        Forwarded { reason, status: None, stored: false, collapsed: false }
    }

    fn cache_status(handling: Handling) -> CacheStatus<'static> {
        CacheStatus { cache: "shoal", handling, ttl: None, key: None, detail: None }
    }

    #[test]
    fn members_of_cache_status() {
        let stale = Forwarded { status: Some(StatusCode::NOT_MODIFIED), ..forwarded(ForwardReason::Stale) };
        let missed = Forwarded { stored: true, collapsed: true, ..forwarded(ForwardReason::UriMiss) };
        for (member, text) in [
            (CacheStatus { ttl: Some(376), ..cache_status(Handling::Hit) }, "shoal;hit;ttl=376"),
            (CacheStatus { ttl: Some(-412), ..cache_status(Handling::Hit) }, "shoal;hit;ttl=-412"),
            (cache_status(Handling::Forwarded(stale)), "shoal;fwd=stale;fwd-status=304"),
            (cache_status(Handling::Forwarded(missed)), "shoal;fwd=uri-miss;stored;collapsed"),
            (
                CacheStatus {
                    key: Some("GET \"x\""),
                    detail: Some("no-store"),
                    ..cache_status(Handling::Generated)
                },
                "shoal;key=\"GET \\\"x\\\"\";detail=no-store",
            ),
            (
                CacheStatus { cache: "a cache é", detail: Some("two words"), ..cache_status(Handling::Hit) },
                "\"a cache ?\";hit;detail=\"two words\"",
            ),
            (
                CacheStatus { ttl: Some(i64::MIN), ..cache_status(Handling::Hit) },
                "shoal;hit;ttl=-999999999999999",
            ),
        ] {
            assert_eq!(member.to_bytes(), text);
        }
    }

    #[test]
    fn members_are_added_behind_those_of_others() {
        let mut response = HeaderMap::from_iter([(CACHE_STATUS, HeaderValue::from_static("Origin;hit"))]);
        response.append(CACHE_STATUS, HeaderValue::from_static("CDN;fwd=miss"));
        cache_status(Handling::Hit).append_to(&mut response);
        assert_eq!(response.get_all(CACHE_STATUS).iter().count(), 1);
        assert_eq!(response[CACHE_STATUS], "Origin;hit, CDN;fwd=miss, shoal;hit");
    }

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
                is_token(error.as_str())
                    && error.as_str().bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
            );
            assert!(
                error.recommended_status().is_client_error() || error.recommended_status().is_server_error()
            );
        }
    }

    proptest! {
        /// Whatever the names and details are, the field is a structured list of one member.
        #[test]
        fn members_are_structured(cache in any::<String>(), key in any::<String>(), detail in any::<String>(), ttl in any::<i64>()) {
            let member = CacheStatus {
                cache: &cache,
                ttl: Some(ttl),
                key: Some(&key),
                detail: Some(&detail),
                handling: Handling::Forwarded(forwarded(ForwardReason::Miss)),
            };
            let list: sfv::List = sfv::Parser::new(&member.to_bytes()).parse().expect("a list");
            prop_assert_eq!(list.len(), 1);
            let status = ProxyStatus { proxy: &cache, next_hop: Some(&key), details: Some(&detail), ..ProxyStatus::default() };
            let list: sfv::List = sfv::Parser::new(&status.to_string()).parse().expect("a list");
            prop_assert_eq!(list.len(), 1);
        }
    }
}

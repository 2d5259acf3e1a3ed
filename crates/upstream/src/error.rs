//! Errors of origins: their cause, the party at fault, and the client's status.

use crate::access::AccessRefusal;
use crate::exchanged::Origin;
use crate::metrics::{Metrics, PerCoreCounter};
use http::StatusCode;
use shoal_rules::FailureKind;
use shoal_semantics::status_fields::ProxyError;
use std::fmt;
use std::time::Duration;

/// Request without a usable response head.
#[derive(Debug)]
pub struct UpstreamError {
    /// Cause of the error.
    pub cause: Cause,
    /// Address asked: `host:port`.
    pub next_hop: String,
    /// Details for the log; never sent to clients.
    pub detail: String,
    /// Time after which a retry may help.
    pub retry_after: Option<Duration>,
    /// `true` if the log already says that this upstream is down.
    pub is_told: bool,
}

/// Cause of an error between this node and an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A rule of forward mode forbids the destination: the client's fault.
    Refused(AccessRefusal),
    /// The client's request could not be sent as HTTP: the client's fault.
    RequestInvalid,
    /// The request's body failed while it was passed on: the client's fault.
    RequestBody,
    /// The name does not resolve.
    DnsError,
    /// The name lookup took too long.
    DnsTimeout,
    /// No process listens at the address.
    ConnectionRefused,
    /// No route to any of the addresses, or another network error while connecting.
    Unreachable,
    /// Connecting took too long.
    ConnectTimeout,
    /// Too many requests already wait for a connection to this origin: our limit.
    ConnectionLimit,
    /// The origin's certificate was not accepted.
    TlsCertificate,
    /// The origin ended the TLS handshake with an alert.
    TlsAlert,
    /// The TLS handshake failed for another reason.
    TlsProtocol,
    /// No certificate authorities are configured to verify the origin: our configuration's fault.
    TrustRoots,
    /// This machine has no descriptors or buffers left: our fault.
    Internal,
    /// The connection ended before a response.
    Terminated,
    /// The connection ended within the response's head.
    Incomplete,
    /// The request could not be passed on in time.
    WriteTimeout,
    /// No response arrived in time.
    ResponseTimeout,
    /// The response's head is not HTTP, or its framing is ambiguous.
    Malformed,
    /// The response's head exceeds our limit.
    HeadTooLarge,
    /// The response uses a transfer coding that was not requested.
    TransferCoding,
    /// The origin switched protocols without permission, or in an invalid way.
    UpgradeFailed,
}

impl UpstreamError {
    /// Creates an error. Only an error that passes by itself has a time for a retry.
    pub fn new(cause: Cause, next_hop: impl Into<String>, detail: impl Into<String>) -> Self {
        let retry_after = (cause == Cause::ConnectionLimit).then_some(LIMIT_RETRY_AFTER);
        Self { cause, next_hop: next_hop.into(), detail: detail.into(), retry_after, is_told: false }
    }

    /// Creates the error of a refusal by the rules of forward mode.
    pub fn refused(refusal: AccessRefusal, origin: &Origin) -> Self {
        let detail = refusal.to_string();
        Self::new(Cause::Refused(refusal), origin.authority(), detail)
    }

    /// Returns the status of the reply to the client.
    pub fn status(&self) -> StatusCode {
        self.cause.status()
    }

    /// Returns the error type of `Proxy-Status` (RFC 9209, 2.3).
    pub fn proxy_status(&self) -> ProxyError {
        self.cause.proxy_status()
    }
}

impl Cause {
    /// Returns the status of the reply to the client.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Refused(refusal) => refusal.status(),
            Self::RequestInvalid | Self::RequestBody => StatusCode::BAD_REQUEST,
            Self::DnsTimeout | Self::ConnectTimeout | Self::WriteTimeout | Self::ResponseTimeout => {
                StatusCode::GATEWAY_TIMEOUT
            }
            Self::ConnectionLimit | Self::Internal => StatusCode::SERVICE_UNAVAILABLE,
            Self::TrustRoots => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns the failure as rules name it.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::ConnectTimeout | Self::DnsTimeout => FailureKind::ConnectTimeout,
            Self::WriteTimeout | Self::ResponseTimeout => FailureKind::Timeout,
            Self::DnsError | Self::ConnectionRefused | Self::Unreachable | Self::ConnectionLimit => {
                FailureKind::Connect
            }
            Self::TlsCertificate | Self::TlsAlert | Self::TlsProtocol | Self::TrustRoots => {
                FailureKind::Connect
            }
            Self::Internal => FailureKind::Connect,
            _ => FailureKind::Broken,
        }
    }

    /// Returns the error type of `Proxy-Status` (RFC 9209, 2.3).
    pub fn proxy_status(&self) -> ProxyError {
        match self {
            Self::Refused(refusal) => refusal.proxy_status(),
            Self::RequestInvalid | Self::RequestBody => ProxyError::HttpRequestError,
            Self::DnsError => ProxyError::DnsError,
            Self::DnsTimeout => ProxyError::DnsTimeout,
            Self::ConnectionRefused => ProxyError::ConnectionRefused,
            Self::Unreachable => ProxyError::DestinationIpUnroutable,
            Self::ConnectTimeout => ProxyError::ConnectionTimeout,
            Self::ConnectionLimit => ProxyError::ConnectionLimitReached,
            Self::TlsCertificate => ProxyError::TlsCertificateError,
            Self::TlsAlert => ProxyError::TlsAlertReceived,
            Self::TlsProtocol => ProxyError::TlsProtocolError,
            Self::TrustRoots => ProxyError::ProxyConfigurationError,
            Self::Internal => ProxyError::ProxyInternalError,
            Self::Terminated => ProxyError::ConnectionTerminated,
            Self::Incomplete => ProxyError::HttpResponseIncomplete,
            Self::WriteTimeout => ProxyError::ConnectionWriteTimeout,
            Self::ResponseTimeout => ProxyError::HttpResponseTimeout,
            Self::Malformed => ProxyError::HttpProtocolError,
            Self::HeadTooLarge => ProxyError::HttpResponseHeaderSectionSize,
            Self::TransferCoding => ProxyError::HttpResponseTransferCoding,
            Self::UpgradeFailed => ProxyError::HttpUpgradeFailed,
        }
    }

    /// Returns `true` if this is an error of connecting, which another upstream may not have.
    pub(super) fn is_of_connecting(&self) -> bool {
        matches!(
            self,
            Self::DnsError
                | Self::DnsTimeout
                | Self::ConnectionRefused
                | Self::Unreachable
                | Self::ConnectTimeout
                | Self::ConnectionLimit
                | Self::TlsCertificate
                | Self::TlsAlert
                | Self::TlsProtocol
                | Self::Terminated
        )
    }

    /// Returns `true` if the upstream is at fault. Only such errors count against its health.
    pub fn blames_upstream(&self) -> bool {
        !matches!(
            self,
            Self::Refused(_)
                | Self::RequestInvalid
                | Self::RequestBody
                | Self::ConnectionLimit
                | Self::TrustRoots
                | Self::Internal
                | Self::WriteTimeout
        )
    }

    /// Returns the counter of this cause.
    pub(super) fn counter<'a>(&self, metrics: &'a Metrics) -> &'a PerCoreCounter {
        match self {
            Self::Refused(_) => &metrics.upstream_errors_refused,
            Self::RequestInvalid | Self::RequestBody => &metrics.upstream_errors_request,
            Self::DnsError | Self::DnsTimeout => &metrics.upstream_errors_dns,
            Self::ConnectionRefused | Self::Unreachable | Self::ConnectTimeout => {
                &metrics.upstream_errors_connect
            }
            Self::ConnectionLimit => &metrics.upstream_errors_limit,
            Self::TlsCertificate | Self::TlsAlert | Self::TlsProtocol => &metrics.upstream_errors_tls,
            Self::TrustRoots | Self::Internal => &metrics.upstream_errors_internal,
            Self::Terminated | Self::Incomplete => &metrics.upstream_errors_cut,
            Self::WriteTimeout | Self::ResponseTimeout => &metrics.upstream_errors_timeout,
            Self::Malformed | Self::HeadTooLarge | Self::TransferCoding | Self::UpgradeFailed => {
                &metrics.upstream_errors_protocol
            }
        }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.next_hop, self.proxy_status().as_str(), self.detail)
    }
}

impl std::error::Error for UpstreamError {}

/// A full queue drains within seconds. A dead origin causes other errors.
const LIMIT_RETRY_AFTER: Duration = Duration::from_secs(2);

//! Reasons for refusing a request.

use http::StatusCode;

/// Refused request: answered with an error and a closed connection, never forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// Status of the answer.
    pub status: StatusCode,
    /// Reason, for the log and the error page. Holds no text that the client sent.
    pub reason: &'static str,
}

impl RequestRefusal {
    /// 400: the request has no meaning, or more than one.
    pub const fn bad_request(reason: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason }
    }

    /// 414: the request target is longer than the limit.
    pub const fn target_too_long() -> Self {
        Self { status: StatusCode::URI_TOO_LONG, reason: "request target too long" }
    }

    /// 431: the head is larger, or has more fields, than the limit.
    pub const fn fields_too_large(reason: &'static str) -> Self {
        Self { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, reason }
    }

    /// 501: the transfer coding or method is not implemented.
    pub const fn not_implemented(reason: &'static str) -> Self {
        Self { status: StatusCode::NOT_IMPLEMENTED, reason }
    }

    /// 505: the HTTP version is not supported on this connection.
    pub const fn version_not_supported() -> Self {
        Self { status: StatusCode::HTTP_VERSION_NOT_SUPPORTED, reason: "HTTP version not supported" }
    }

    /// 417: an expectation other than `100-continue`.
    pub const fn expectation_failed() -> Self {
        Self { status: StatusCode::EXPECTATION_FAILED, reason: "expectation not supported" }
    }
}

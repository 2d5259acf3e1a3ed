//! Why a request is not taken.

use http::StatusCode;

/// A request that is answered with an error and a closed connection, and never forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// The status to answer with.
    pub status: StatusCode,
    /// What was wrong, for the log and the error page. Holds nothing that the client sent.
    pub reason: &'static str,
}

impl RequestRefusal {
    /// 400: the request makes no sense, or more than one.
    pub const fn bad_request(reason: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason }
    }

    /// 414: the request target is longer than we take.
    pub const fn target_too_long() -> Self {
        Self { status: StatusCode::URI_TOO_LONG, reason: "request target too long" }
    }

    /// 431: the head is larger, or has more fields, than we take.
    pub const fn fields_too_large(reason: &'static str) -> Self {
        Self { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, reason }
    }

    /// 501: a transfer coding or method that we do not implement.
    pub const fn not_implemented(reason: &'static str) -> Self {
        Self { status: StatusCode::NOT_IMPLEMENTED, reason }
    }

    /// 505: an HTTP version that we do not speak on this connection.
    pub const fn version_not_supported() -> Self {
        Self { status: StatusCode::HTTP_VERSION_NOT_SUPPORTED, reason: "HTTP version not supported" }
    }

    /// 417: an expectation other than `100-continue`.
    pub const fn expectation_failed() -> Self {
        Self { status: StatusCode::EXPECTATION_FAILED, reason: "expectation not supported" }
    }
}

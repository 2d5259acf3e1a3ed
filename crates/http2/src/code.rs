//! HTTP/2 error codes (RFC 9113 section 7).

/// Reason for ending a stream or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// The end is not the result of an error.
    pub const NO_ERROR: Self = Self(0);
    /// The other side has broken the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// This side has failed.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// The sender sent more bytes than the window allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame has an impossible size.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not processed at all, and may be retried.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(8);
    /// A field block could not be read.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The other side causes more work here than it does itself.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

/// Error in a frame, and the stream or connection that it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// Stream that ends; `None` for the connection.
    pub stream: Option<u32>,
    /// Reason for the end.
    pub code: ErrorCode,
}

impl FrameError {
    /// Makes an error that ends the connection.
    pub const fn connection(code: ErrorCode) -> Self {
        Self { stream: None, code }
    }

    /// Makes an error that ends one stream.
    pub const fn stream(stream: u32, code: ErrorCode) -> Self {
        debug_assert!(stream < 1 << 31);
        Self { stream: Some(stream), code }
    }
}

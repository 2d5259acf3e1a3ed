//! Error codes (RFC 9113 section 7).

/// Why a stream or a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Not as a result of an error.
    pub const NO_ERROR: Self = Self(0);
    /// The other side has broken the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// Our own failure.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More was sent than the window had room for.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame has an impossible size.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not taken up at all, and may be tried again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// Nobody needs the stream any more.
    pub const CANCEL: Self = Self(8);
    /// A field block could not be read.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The other side does what costs us more than it.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

/// What is wrong with a frame, and what ends by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// The stream that ends; `None` for the connection.
    pub stream: Option<u32>,
    /// Why.
    pub code: ErrorCode,
}

impl FrameError {
    /// The connection ends.
    pub const fn connection(code: ErrorCode) -> Self {
        Self { stream: None, code }
    }

    /// One stream ends.
    pub const fn stream(stream: u32, code: ErrorCode) -> Self {
        debug_assert!(stream < 1 << 31);
        Self { stream: Some(stream), code }
    }
}

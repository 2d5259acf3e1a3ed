//! HTTP/3 error codes (RFC 9114 section 8.1, RFC 9204 section 6).

/// Reason for ending a stream or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// The end is not the result of an error.
    pub const NO_ERROR: Self = Self(0x100);
    /// This side has failed.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// A stream of a kind that the other side may not open, or not twice.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A stream that the connection needs was closed.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame that its stream, or this place of it, does not allow.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame that has no valid form, or ends too early.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// The other side causes more work here than it does itself.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// A number of a stream or push that cannot be.
    pub const ID_ERROR: Self = Self(0x108);
    /// Invalid settings.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// The control stream does not begin with settings.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request was not processed at all, and may be sent again.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request or its response is no longer needed.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// The stream ended within the request.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// The request is malformed.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// A field section could not be read.
    pub const DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An instruction on the encoder's stream that is not allowed.
    pub const ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An instruction on the decoder's stream that is not allowed.
    pub const DECODER_STREAM_ERROR: Self = Self(0x202);
}

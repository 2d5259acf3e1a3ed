//! HTTP/2 (RFC 9113) and HPACK (RFC 7541) as functions of bytes: frames, field blocks, and requests
//! from field lists. The server keeps connections and streams.
//!
//! ```text
//!   bytes ──► Frame ──► hpack::Decoder ──► FieldList ──► Http2Head
//! ```
//!
//! Nothing here reads a socket or a clock. Every buffer that a peer can make grow has a limit.

#![forbid(unsafe_code)]

mod code;
mod frame;
mod head;
pub mod hpack;

pub use code::{ErrorCode, FrameError};
pub use frame::{
    ACK, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameHead, FrameKind, PREFACE,
    PeerSettings, Setting, WINDOW_INITIAL, WINDOW_MAX, write_goaway, write_ping, write_reset, write_settings,
    write_settings_ack, write_window_update,
};
pub use head::{Http2Head, MalformedRequest, trailers};

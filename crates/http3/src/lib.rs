//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) as functions of bytes: the frames of each kind of stream,
//! and field sections. The server keeps connections and streams.
//!
//! ```text
//!   request stream ──► RequestReader ──► head ──► qpack::decode ──► FieldList ──► Http2Head
//!                             └──────► data, trailers
//!   control stream ──► UniReader ──► settings checked, the rest judged
//! ```
//!
//! Field names and values follow the rules of HTTP/2, so its checks serve here too. There is no
//! dynamic table: no stream ever waits for another, and no client makes this side remember fields.
//! Nothing here reads a socket or a clock. Every buffer that a peer can make grow has a limit.

#![forbid(unsafe_code)]

mod code;
mod frame;
pub mod qpack;
mod request;
mod uni;
mod varint;

pub use code::ErrorCode;
pub use frame::{FRAME_HEAD_BYTES_MAX, control_stream, data_head, goaway, headers};
pub use request::{Part, RequestReader, StreamFault};
pub use uni::{UniReader, UniStreams};

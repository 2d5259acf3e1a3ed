//! Strict HTTP/1 framing and the PROXY protocol, as pure functions of bytes.
//!
//! ```text
//!   bytes ──► HeadParser ──► RequestHead ──► BodyDecoder ──► data, trailers
//!   bytes ──► ResponseHeadParser ──► ResponseHead ──► BodyDecoder ──► data, trailers
//!   bytes ◄── response::{status_line, fields, …} ◄── chunk::{size_line, trailers}
//! ```
//!
//! Nothing here reads a socket or a clock. Bytes that two recipients could understand in two ways
//! are refused, never guessed: request smuggling exploits such guesses. Every buffer that a peer
//! can make grow has a limit.

#![forbid(unsafe_code)]

mod body;
pub mod chunk;
mod date;
mod decimal;
mod lines;
pub mod proxy_protocol;
mod refusal;
mod request;
pub mod response;
mod response_head;

pub use body::{BodyDecoder, BodyEvent, MalformedBody};
pub use date::{DateCache, IMF_FIXDATE_BYTES};
pub use decimal::{Decimal, push_decimal, push_filled, push_labelled, three_digits};
pub use refusal::RequestRefusal;
pub use request::{
    Authority, BodyFraming, Conditions, FastPathRequest, HeadLimits, HeadParser, ParseOutcome, RequestHead,
    RequestParts,
};
pub use response_head::{BadHead, RESPONSE_FIELDS_MAX, ResponseHead, ResponseHeadParser};

/// Largest permitted length of a body. Recipients with signed numbers read a longer one as
/// negative, or as none. RFC 9110, section 8.6: "a recipient MUST anticipate potentially large
/// decimal numerals and prevent parsing errors".
pub const BODY_BYTES_MAX: u64 = i64::MAX as u64;

//! Cache-Status (RFC 9211) and Proxy-Status (RFC 9209): this node's report of how it handled a
//! request.
//!
//! Both fields are structured lists. Each node on the way adds a member at the end. Every answer
//! carries one, so a member is written directly into its output buffer.

mod cache_status;
mod proxy_status;
mod reason;

pub use cache_status::{CACHE_STATUS, CacheStatus, ForwardFacts, HandlingWay};
pub use proxy_status::{PROXY_STATUS, ProxyError, ProxyStatus};
pub use reason::{ForwardReason, Reason};

use shoal_core::alphanumeric_and;

/// Writes a structured token when the text is one, a string otherwise.
fn push_name(out: &mut Vec<u8>, text: &str) {
    match is_token(text) {
        true => out.extend_from_slice(text.as_bytes()),
        false => push_quoted(out, text),
    }
}

/// Writes a structured string; a character outside printable ASCII becomes a question mark.
fn push_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend([b'\\', char as u8]),
            ' '..='~' => out.push(char as u8),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

/// Returns `true` for a structured token (RFC 9651, section 3.3.4): a letter or `*`, then
/// characters of a token, `:` or `/`.
fn is_token(text: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'*';
    text.bytes().next().is_some_and(first) && text.bytes().all(|byte| IN_TOKEN[usize::from(byte)])
}

/// Room for most members, in bytes.
const MEMBER_BYTES: usize = 96;

static IN_TOKEN: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~:/");

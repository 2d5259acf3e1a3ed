//! Cache-Status (RFC 9211) and Proxy-Status (RFC 9209): what this node tells about how it handled a request.
//!
//! Both are structured lists to which each node on the way adds a member of its own at the end. A member is
//! put together on the stack, since every answer carries one.

mod cache_status;
mod proxy_status;

pub use cache_status::{CACHE_STATUS, CacheStatus, ForwardReason, Forwarded, Handling};
pub use proxy_status::{PROXY_STATUS, ProxyError, ProxyStatus};

use crate::fields::Text;
use shoal_core::alphanumeric_and;

/// Writes a structured token when the text is one, a string otherwise.
fn push_name(out: &mut Text, text: &str) {
    match is_token(text) {
        true => out.extend_from_slice(text.as_bytes()),
        false => push_quoted(out, text),
    }
}

/// Writes a structured string; what is no printable ASCII becomes a question mark.
fn push_quoted(out: &mut Text, text: &str) {
    out.push(b'"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend_from_slice(&[b'\\', char as u8]),
            ' '..='~' => out.push(char as u8),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

/// Writes `;name=` and digits.
fn push_number(out: &mut Text, name: &str, number: i64) {
    push_parameter(out, name);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes `;name=`.
fn push_parameter(out: &mut Text, name: &str) {
    out.push(b';');
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
}

/// RFC 9651, section 3.3.4: a letter or `*`, then characters of a token, `:` or `/`.
fn is_token(text: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'*';
    text.bytes().next().is_some_and(first) && text.bytes().all(|byte| IN_TOKEN[usize::from(byte)])
}

static IN_TOKEN: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~:/");

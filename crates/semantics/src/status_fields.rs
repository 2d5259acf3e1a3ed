//! Cache-Status (RFC 9211) and Proxy-Status (RFC 9209): what this node tells about how it handled a request.
//!
//! Both are structured lists to which each node on the way adds a member of its own at the end. A member is
//! built with one allocation, since every answer carries one.

mod cache_status;
mod proxy_status;

pub use cache_status::{CACHE_STATUS, CacheStatus, ForwardReason, Forwarded, Handling};
pub use proxy_status::{PROXY_STATUS, ProxyError, ProxyStatus};

use std::fmt::{self, Display, Write};

/// A structured token when the text is one, a string otherwise.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match is_token(self.0) {
            true => f.write_str(self.0),
            false => Quoted(self.0).fmt(f),
        }
    }
}

/// A structured string; what is no printable ASCII becomes a question mark.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                ' '..='~' => f.write_char(char)?,
                _ => f.write_char('?')?,
            }
        }
        f.write_char('"')
    }
}

/// RFC 9651, section 3.3.4: a letter or `*`, then characters of a token, `:` or `/`.
fn is_token(text: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'*';
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    text.bytes().next().is_some_and(first) && text.bytes().all(rest)
}

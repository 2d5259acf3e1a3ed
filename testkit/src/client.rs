//! A raw HTTP/1 client: exact bytes out, exact bytes in, every wait limited.

mod connection;
mod exact;
mod response;

pub use connection::Connection;
pub use exact::Exact;
pub use response::{Ending, Head, Response};

use crate::fields::Fields;

/// A request to be written; what it says is sent as it stands, sound or not.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The target as it stands in the request line.
    pub target: String,
    /// Fields in order. `Host` is added in front when none is given.
    pub fields: Fields,
    /// The body, sent after the head.
    pub body: Vec<u8>,
}

impl Request {
    /// A request with `method` for `target`.
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.into(), target: target.into(), fields: Fields::default(), body: Vec::new() }
    }

    /// GET.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Adds a field.
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push(name, value);
        self
    }

    /// Adds a body with its Content-Length.
    pub fn body(mut self, body: &[u8]) -> Self {
        self.fields.push("Content-Length", &body.len().to_string());
        self.body = body.into();
        self
    }

    /// Adds a chunked body, one chunk, with `trailers`.
    pub fn chunked(mut self, body: &[u8], trailers: &Fields) -> Self {
        self.fields.push("Transfer-Encoding", "chunked");
        self.body = format!("{:x}\r\n", body.len()).into_bytes();
        self.body.extend_from_slice(body);
        self.body.extend_from_slice(format!("\r\n0\r\n{}\r\n", trailers.lines()).as_bytes());
        self
    }

    /// The bytes on the wire; `host` stands in the Host field unless the request has one.
    pub fn to_bytes(&self, host: &str) -> Vec<u8> {
        let host = if self.fields.has("host") { String::new() } else { format!("Host: {host}\r\n") };
        let head = format!("{} {} HTTP/1.1\r\n{host}{}\r\n", self.method, self.target, self.fields.lines());
        [head.as_bytes(), &self.body].concat()
    }
}

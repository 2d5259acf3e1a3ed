//! The PROXY protocol, versions 1 and 2: who a load balancer says the client is.
//!
//! Source: "The PROXY protocol", W. Tarreau, HAProxy Technologies, revision 2020/03/05. A header
//! comes first on the connection, before TLS and before the request. Only connections from the
//! balancers' networks may send one, and those must; the caller sees to that.

mod v1;
mod v2;

use std::net::SocketAddr;

/// What the first bytes of a connection turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Not whole yet; more bytes are needed.
    Incomplete,
    /// A header of `length` bytes, after which the client's own bytes begin.
    Complete {
        /// Bytes to skip.
        length: usize,
        /// The connection that the balancer took. `None` when it speaks for itself (a health check)
        /// or the client came over something other than TCP: then the socket's own addresses count.
        addresses: Option<Addresses>,
    },
    /// Not a header, or one that makes no sense.
    Malformed(&'static str),
}

/// The two ends of the connection that the balancer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// Where it connected to.
    pub destination: SocketAddr,
}

/// No header is longer; a buffer of this size can hold any that is taken.
pub const HEADER_BYTES_MAX: usize = v2::HEADER_BYTES_MAX;

/// Reads the header at the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Header {
    let starts = |signature: &[u8]| bytes.iter().zip(signature).all(|(byte, expected)| byte == expected);
    if starts(v2::SIGNATURE) {
        v2::parse(bytes)
    } else if starts(v1::SIGNATURE) {
        v1::parse(bytes)
    } else {
        Header::Malformed("no PROXY protocol header")
    }
}

#[cfg(test)]
mod tests;

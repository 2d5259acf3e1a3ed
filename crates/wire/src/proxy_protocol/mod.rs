//! PROXY protocol, versions 1 and 2: the client's address, reported by a load balancer.
//!
//! Source: "The PROXY protocol", W. Tarreau, HAProxy Technologies, revision 2020/03/05. A header
//! comes first on the connection, before TLS and before the request. Only connections from the
//! balancers' networks may send one, and those must; the caller ensures this.

mod v1;
mod v2;

use std::net::SocketAddr;

/// Result of reading the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Incomplete header; more bytes are needed.
    Incomplete,
    /// Header of `length` bytes, followed by the client's own bytes.
    Complete {
        /// Bytes to skip.
        length: usize,
        /// Ends of the connection that the balancer accepted. `None` when the balancer speaks for
        /// itself (a health check), or when the client did not come over TCP. The socket's own
        /// addresses count then.
        addresses: Option<Addresses>,
    },
    /// No header, or an invalid one.
    Malformed(&'static str),
}

/// Ends of the connection that the balancer accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the client.
    pub source: SocketAddr,
    /// Address that the client connected to.
    pub destination: SocketAddr,
}

/// Largest size of a header; a buffer of this size holds any accepted header.
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

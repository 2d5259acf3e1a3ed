//! Protocols of Squid's neighbours as functions of bytes: ICP, HTCP and cache digests.
//!
//! No sockets and no clock: each module reads and writes messages. CARP is in `shoal_cooperation`.
//!
//! ```text
//! icp      version 2: "do you hold this URL?" in one datagram each way
//! htcp     the same with method and fields; removal of a URL; signatures
//! digest   a Bloom filter of all URLs of a cache, fetched over HTTP
//! waiting  how long a neighbour's answer is waited for
//! ```
//!
//! No answer is longer than the question that caused it, so that nothing is amplified.

#![forbid(unsafe_code)]

pub mod digest;
pub mod htcp;
pub mod icp;
mod reader;
pub mod waiting;

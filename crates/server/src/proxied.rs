//! Reads the PROXY protocol header at the start of a connection from a load balancer.

use bytes::{Buf, BytesMut};
use shoal_wire::proxy_protocol::{self, Addresses, HEADER_BYTES_MAX, Header};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads one header within `timeout`. Bytes after the header stay in `buffer`. Returns `None` if
/// the socket's own addresses apply.
pub(super) async fn read_header(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    timeout: Duration,
) -> Result<Option<Addresses>, &'static str> {
    tokio::time::timeout(timeout, read(io, buffer)).await.unwrap_or(Err("no PROXY protocol header in time"))
}

async fn read(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> Result<Option<Addresses>, &'static str> {
    buffer.reserve(HEADER_BYTES_MAX);
    loop {
        match proxy_protocol::parse(buffer) {
            Header::Complete { length, addresses } => {
                buffer.advance(length);
                return Ok(addresses);
            }
            Header::Malformed(reason) => return Err(reason),
            Header::Incomplete => match io.read_buf(buffer).await {
                Ok(0) | Err(_) => return Err("connection ended within its PROXY protocol header"),
                Ok(_) => {}
            },
        }
    }
}

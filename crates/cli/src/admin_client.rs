//! Client of a running node's admin listener: one request, one response, over TCP or a Unix socket.

use crate::failure::Failure;
use shoal_settings::AdminAddress;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Response of an admin listener.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status of the response.
    pub status: u16,
    /// Body of the response.
    pub body: String,
}

/// Sends one request with JSON and reads the response.
pub fn ask(address: &AdminAddress, method: &str, path: &str, body: &str) -> Result<Answer, Failure> {
    send(address, method, path, body.as_bytes())
}

/// Sends one request and reads the response.
pub fn send(address: &AdminAddress, method: &str, path: &str, body: &[u8]) -> Result<Answer, Failure> {
    let unreachable = |error: io::Error| {
        Failure::Unreachable(format!(
            "no node answers at {address}: {error}; is it running? (--admin names another address, --config the settings \
             that do)"
        ))
    };
    let bytes = match address {
        AdminAddress::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT).map_err(unreachable)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(unreachable)?;
            exchange(stream, &address.to_string(), method, path, body)
        }
        AdminAddress::Unix(path_of_socket) => {
            let stream = UnixStream::connect(path_of_socket).map_err(unreachable)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(unreachable)?;
            exchange(stream, "localhost", method, path, body)
        }
    };
    let bytes = bytes.map_err(unreachable)?;
    parse(&bytes)
        .ok_or_else(|| Failure::Unreachable(format!("what answers at {address} is no admin listener")))
}

/// Appends a value with every byte encoded that is not a letter or a digit.
pub fn push_encoded(text: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte.is_ascii_alphanumeric() {
            true => text.push(char::from(byte)),
            false => drop(write!(text, "%{byte:02X}")),
        }
    }
    debug_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?} is encoded");
}

fn exchange(
    mut stream: impl Read + Write,
    host: &str,
    method: &str,
    path: &str,
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let length = body.len();
    // Nothing in a path may end the request's line: paths are made here, names in them encoded.
    assert!(path.starts_with('/') && !path.contains([' ', '\r', '\n']), "{path:?} is a path");
    debug_assert!(method.bytes().all(|byte| byte.is_ascii_uppercase()), "{method:?} is a method");
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Parses a response that ends with its connection.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for a response. A purge may walk over the whole index.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// Largest number of bytes read of a response.
const ANSWER_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_others_refused() {
        let answer = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(answer, Some(Answer { status: 200, body: "hi".into() }));
        for bytes in [&b""[..], b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 2", b"HTTP/1.1 abc\r\n\r\n"] {
            assert_eq!(parse(bytes), None);
        }
    }

    #[test]
    fn values_in_paths_are_encoded() {
        let mut text = String::new();
        push_encoded(&mut text, "a.b/&é");
        assert_eq!(text, "a%2Eb%2F%26%C3%A9");
    }
}

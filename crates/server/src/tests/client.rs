//! Client that sends given bytes and parses responses strictly.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Client connection.
pub struct Client<S = TcpStream> {
    /// Transport of the connection.
    pub stream: S,
    buffer: Vec<u8>,
}

/// Response as received.
#[derive(Debug)]
pub struct Response {
    /// Status line and fields, each with CRLF.
    pub head: String,
    /// Body, with chunks joined.
    pub body: Vec<u8>,
    /// Trailer section, without the empty line.
    pub trailers: String,
    /// Size of each chunk.
    pub chunks: Vec<usize>,
}

impl Client {
    /// Connects, with a read timeout of 10 s.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a sound timeout");
        Self::over(stream)
    }

    /// Ends the client's half.
    pub fn finish(&self) {
        self.stream.shutdown(Shutdown::Write).expect("still open");
    }
}

impl<S: Read + Write> Client<S> {
    /// Wraps a connection.
    pub fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Sends bytes.
    pub fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).expect("the server reads");
    }

    /// Requests `path` and reads the response.
    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    /// Reads a response to a request other than HEAD and CONNECT.
    pub fn response(&mut self) -> Response {
        let head = self.head();
        let (mut body, mut trailers, mut chunks) = (Vec::new(), String::new(), Vec::new());
        let bodiless =
            ["HTTP/1.1 1", "HTTP/1.1 204", "HTTP/1.1 304"].iter().any(|start| head.starts_with(start));
        if head.contains("\r\ntransfer-encoding: chunked\r\n") {
            loop {
                let line = self.line();
                let size = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("chunk size {line:?}"));
                if size == 0 {
                    break;
                }
                chunks.push(size);
                body.extend(self.exactly(size));
                assert_eq!(self.exactly(2), b"\r\n");
            }
            loop {
                match self.line() {
                    line if line.is_empty() => break,
                    line => trailers.push_str(&format!("{line}\r\n")),
                }
            }
        } else if let Some(length) = field(&head, "content-length").filter(|_| !bodiless) {
            body = self.exactly(length.parse().expect("a number"));
        } else if !bodiless {
            body = self.rest();
        }
        Response { head, body, trailers, chunks }
    }

    /// Reads a head, including its empty line.
    pub fn head(&mut self) -> String {
        let mut head = String::new();
        loop {
            let line = self.line();
            head.push_str(&line);
            head.push_str("\r\n");
            if line.is_empty() {
                return head;
            }
        }
    }

    /// Reads `count` bytes.
    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert!(self.fill() > 0, "ended after {:?}", String::from_utf8_lossy(&self.buffer));
        }
        self.buffer.drain(..count).collect()
    }

    /// Reads to the end of the connection; a reset counts as the end.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() > 0 {}
        std::mem::take(&mut self.buffer)
    }

    /// Reads to the end of the connection. Returns `true` if it ended in a reset.
    pub fn ends_in_reset(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return String::from_utf8(line[..at].to_vec()).expect("ASCII");
            }
            assert!(self.fill() > 0, "ended after {:?}", String::from_utf8_lossy(&self.buffer));
        }
    }

    fn fill(&mut self) -> usize {
        let mut bytes = [0; 4096];
        let count = match self.stream.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&self.buffer)),
        };
        self.buffer.extend_from_slice(&bytes[..count]);
        count
    }
}

impl Response {
    /// Returns the status.
    pub fn status(&self) -> u16 {
        self.head[9..12].parse().expect("three digits")
    }

    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

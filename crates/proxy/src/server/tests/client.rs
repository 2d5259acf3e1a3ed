//! A client that sends exactly what it is told and reads responses strictly.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// One connection.
pub struct Client<S = TcpStream> {
    /// The connection itself.
    pub stream: S,
    buffer: Vec<u8>,
}

/// A response as it came.
#[derive(Debug)]
pub struct Response {
    /// Status line and fields, each with CRLF.
    pub head: String,
    /// The body, chunks joined.
    pub body: Vec<u8>,
    /// The trailer section, without the empty line.
    pub trailers: String,
    /// The size of each chunk.
    pub chunks: Vec<usize>,
}

impl Client {
    /// Connects; nothing is waited for longer than ten seconds.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a sound timeout");
        Self::over(stream)
    }

    /// Ends our side.
    pub fn finish(&self) {
        self.stream.shutdown(Shutdown::Write).expect("still open");
    }
}

impl<S: Read + Write> Client<S> {
    /// A client on this connection.
    pub fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Sends these bytes.
    pub fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).expect("the server reads");
    }

    /// Asks for `path` and reads the response.
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

    /// Reads a head, its empty line included.
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

    /// Reads so many bytes.
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

    /// Reads to the end of the connection, and says whether it ended in a reset.
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
    /// The status.
    pub fn status(&self) -> u16 {
        self.head[9..12].parse().expect("three digits")
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

//! One connection of the load generator: a request out, its response in, without blocking.
//!
//! Only what caches answer to plain requests is understood: a head with Content-Length, or one that has no body. Bodies are counted, not kept.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// A connection that is asked one thing at a time.
pub(super) struct Connection {
    socket: TcpStream,
    /// Whether the responses have bodies, but for 304s.
    has_bodies: bool,
    /// What has come of the response's head; empty once that is whole.
    head: Vec<u8>,
    /// Bytes of the body that have not come yet, and the status; `None` before the head is whole.
    body: Option<(u64, u16)>,
    /// When the request was due that is being answered.
    due: Option<Instant>,
}

/// How far an answer has come.
pub(super) enum Progress {
    /// There is more to come, or nothing was asked.
    Waiting,
    /// It is whole.
    Answered {
        /// When its request was due.
        due: Instant,
        /// Its status.
        status: u16,
    },
}

impl Connection {
    /// Connects, to ask for what has bodies, or only for heads.
    pub fn open(address: SocketAddr, has_bodies: bool) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, has_bodies, head: Vec::new(), body: None, due: None })
    }

    /// The socket, to be watched.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends a request that was due at `due`. It must fit into the socket's buffer, which is empty.
    pub fn ask(&mut self, request: &[u8], due: Instant) -> io::Result<()> {
        self.due = Some(due);
        self.socket.write_all(request)
    }

    /// Reads what has come, through `bytes`.
    pub fn take_in(&mut self, bytes: &mut [u8]) -> io::Result<Progress> {
        let count = match self.socket.read(bytes) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed a connection")),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::Waiting),
            Err(error) => return Err(error),
        };
        let of_body = match self.body {
            Some(_) => count as u64,
            None => {
                self.head.extend_from_slice(&bytes[..count]);
                let Some(end) = memchr::memmem::find(&self.head, b"\r\n\r\n") else {
                    return Ok(Progress::Waiting);
                };
                self.body = Some(understand(&self.head[..end], self.has_bodies)?);
                let rest = self.head.len() - (end + 4);
                self.head.clear();
                rest as u64
            }
        };
        let Some((rest, status)) = &mut self.body else { return Ok(Progress::Waiting) };
        *rest = rest.checked_sub(of_body).ok_or_else(|| invalid("more came than Content-Length said"))?;
        if *rest > 0 {
            return Ok(Progress::Waiting);
        }
        let status = *status;
        self.body = None;
        let due = self.due.take().ok_or_else(|| invalid("an answer to nothing"))?;
        Ok(Progress::Answered { due, status })
    }
}

/// The length of the body and the status that a head tells.
fn understand(head: &[u8], has_body: bool) -> io::Result<(u64, u16)> {
    let number = |digits: &[u8]| str::from_utf8(digits).ok()?.parse::<u64>().ok();
    let status = head.get(9..12).and_then(number).and_then(|status| u16::try_from(status).ok());
    if let Some(status) = status.filter(|status| !has_body || *status == 304) {
        return Ok((0, status));
    }
    let length = head.split(|&byte| byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked(LENGTH.len())?;
        name.eq_ignore_ascii_case(LENGTH).then(|| number(value.trim_ascii()))?
    });
    match (length, status) {
        (Some(length), Some(status)) => Ok((length, status)),
        _ => Err(invalid("a head without status or Content-Length")),
    }
}

const LENGTH: &[u8] = b"content-length:";

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

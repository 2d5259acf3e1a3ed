//! One connection of the load generator: a request out, its response in, without blocking.
//!
//! Only what caches answer to plain requests is understood: a head with Content-Length, or one that
//! has no body. Bodies are counted, not kept. The kernel notes when each packet came
//! (`SO_TIMESTAMPNS`), so that what a response waits for this process is told from what it took.

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns};
use nix::sys::time::TimeSpec;
use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A connection that is asked one thing at a time.
pub(super) struct Connection {
    socket: TcpStream,
    /// Whether the responses have bodies, but for 304s.
    has_bodies: bool,
    /// What has come of the response's head; empty once that is whole.
    head: Vec<u8>,
    /// Bytes of the body that have not come yet, and the status; `None` before the head is whole.
    body: Option<(u64, u16)>,
    /// Instants of the request that is being answered.
    asked: Option<Asked>,
}

/// Instants of a request.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// When it was due.
    pub due: Instant,
    /// When it left; when it was seen to be due, where it waited for a connection to be free.
    pub from: SystemTime,
}

/// What bytes are read through.
pub(super) struct Scratch {
    bytes: Vec<u8>,
    control: Vec<u8>,
}

impl Scratch {
    pub fn new() -> Self {
        Self { bytes: vec![0; READ_BYTES], control: cmsg_space!(TimeSpec) }
    }
}

/// How far an answer has come.
pub(super) enum Progress {
    /// There is more to come, or nothing was asked.
    Waiting,
    /// It is whole.
    Answered {
        /// Instants of its request.
        asked: Asked,
        /// When the kernel had the last of it.
        came: SystemTime,
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
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        Ok(Self { socket, has_bodies, head: Vec::new(), body: None, asked: None })
    }

    /// The socket, to be watched.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends a request. It must fit into the socket's buffer, which is empty.
    pub fn ask(&mut self, request: &[u8], asked: Asked) -> io::Result<()> {
        self.asked = Some(asked);
        self.socket.write_all(request)
    }

    /// Reads what has come, through `scratch`.
    pub fn take_in(&mut self, scratch: &mut Scratch) -> io::Result<Progress> {
        let (count, came) = match self.read(scratch) {
            Ok((0, _)) => {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed a connection"));
            }
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::Waiting),
            Err(error) => return Err(error),
        };
        let bytes = &scratch.bytes;
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
        let asked = self.asked.take().ok_or_else(|| invalid("an answer to nothing"))?;
        Ok(Progress::Answered { asked, came, status })
    }

    /// Bytes that have come, and when the last of them did.
    fn read(&self, scratch: &mut Scratch) -> io::Result<(usize, SystemTime)> {
        let mut bytes = [IoSliceMut::new(&mut scratch.bytes)];
        let control = Some(scratch.control.as_mut_slice());
        let message = recvmsg::<()>(self.socket.as_raw_fd(), &mut bytes, control, MsgFlags::empty())?;
        let came = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(time) => Some(UNIX_EPOCH + Duration::from(time)),
            _ => None,
        });
        // The end of a connection has no time.
        Ok((message.bytes, came.unwrap_or_else(SystemTime::now)))
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

/// Bytes read at once: a small response whole, a large one in few calls.
const READ_BYTES: usize = 256 << 10;

const LENGTH: &[u8] = b"content-length:";

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

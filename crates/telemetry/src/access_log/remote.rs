//! Access log lines for syslog (RFC 5424) and for the systemd journal.
//!
//! Each line is one message. The writer's thread sends it. A wait ends after a second, and a
//! message after two, though the receiver takes some of it. A receiver that takes nothing costs its
//! lines, which are counted, and is tried again after a pause that doubles. Lines meanwhile are
//! dropped at once: no serving thread waits, and no queue grows.

use super::date;
use crate::otlp::write_until;
use shoal_core::Timestamp;
use shoal_settings::SyslogAddress;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// Receiver of lines.
pub(super) struct Remote {
    address: RemoteAddress,
    connection: Option<Connection>,
    /// Name of this machine, for syslog.
    host: String,
    pid: u32,
    message: Vec<u8>,
    /// Time before which nothing is tried.
    retry_at: Option<Instant>,
    pause: Duration,
}

/// Address of a receiver.
pub(super) enum RemoteAddress {
    Syslog(SyslogAddress),
    Journal(PathBuf),
}

enum Connection {
    Datagram(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Remote {
    pub(super) fn new(address: RemoteAddress) -> Self {
        let uname = rustix::system::uname();
        let graphic = uname.nodename().to_bytes().iter().filter(|byte| byte.is_ascii_graphic());
        let host: String = graphic.take(HOST_MAX).map(|byte| char::from(*byte)).collect();
        Self {
            address,
            connection: None,
            host: if host.is_empty() { "-".into() } else { host },
            pid: std::process::id(),
            message: Vec::new(),
            retry_at: None,
            pause: PAUSE_FIRST,
        }
    }

    /// Sends whole lines. Returns the number of lines that are lost and the failure that began it.
    pub(super) fn send(&mut self, lines: &[u8], now: Timestamp) -> Result<(), (u64, Option<io::Error>)> {
        let mut lost = 0;
        let mut failure = None;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if self.retry_at.is_some_and(|at| Instant::now() < at) {
                lost += 1;
                continue;
            }
            match self.send_line(line, now) {
                Ok(()) => (self.retry_at, self.pause) = (None, PAUSE_FIRST),
                Err(error) => {
                    lost += 1;
                    self.connection = None;
                    self.retry_at = Some(Instant::now() + self.pause);
                    self.pause = (self.pause * 2).min(PAUSE_MAX);
                    failure.get_or_insert(error);
                }
            }
        }
        if lost == 0 { Ok(()) } else { Err((lost, failure)) }
    }

    /// Forgets the connection: the receiver's socket may be another one now.
    pub(super) fn reopen(&mut self) {
        (self.connection, self.retry_at, self.pause) = (None, None, PAUSE_FIRST);
    }

    fn send_line(&mut self, line: &[u8], now: Timestamp) -> io::Result<()> {
        debug_assert!(!line.contains(&b'\n'), "a message is a line");
        self.message.clear();
        let line = clipped(line);
        match &self.address {
            RemoteAddress::Journal(_) => journal(&mut self.message, line),
            RemoteAddress::Syslog(_) => syslog(&mut self.message, (&self.host, self.pid), now, line),
        }
        if let RemoteAddress::Syslog(SyslogAddress::Tcp(_)) = &self.address {
            // Octet counting, RFC 6587, 3.4.1: "Octet counting SHOULD be used".
            let count = format!("{} ", self.message.len());
            self.message.splice(0..0, count.into_bytes());
        }
        // A receiver that was started again has left the old connection.
        let had_connection = self.connection.is_some();
        match self.send_message() {
            Err(_) if had_connection => {
                self.connection = None;
                self.send_message()
            }
            sent => sent,
        }
    }

    fn send_message(&mut self) -> io::Result<()> {
        if self.connection.is_none() {
            self.connection = Some(connect(&self.address)?);
        }
        let message = &self.message;
        match self.connection.as_mut().expect("made above") {
            Connection::Datagram(socket) => socket.send(message).map(drop),
            Connection::Udp(socket) => socket.send(&message[..message.len().min(UDP_MAX)]).map(drop),
            Connection::Tcp(stream) => write_until(stream, message, Instant::now() + SEND_WAIT_MAX),
        }
    }
}

fn connect(address: &RemoteAddress) -> io::Result<Connection> {
    let path = match address {
        RemoteAddress::Journal(path) | RemoteAddress::Syslog(SyslogAddress::Unix(path)) => path,
        RemoteAddress::Syslog(SyslogAddress::Udp(address)) => {
            let first = resolved(address)?;
            let socket = UdpSocket::bind(if first.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
            socket.connect(first)?;
            socket.set_write_timeout(Some(SEND_WAIT_MAX))?;
            return Ok(Connection::Udp(socket));
        }
        RemoteAddress::Syslog(SyslogAddress::Tcp(address)) => {
            let stream = TcpStream::connect_timeout(&resolved(address)?, SEND_WAIT_MAX)?;
            stream.set_write_timeout(Some(SEND_WAIT_MAX))?;
            stream.set_nodelay(true)?;
            return Ok(Connection::Tcp(stream));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(SEND_WAIT_MAX))?;
    Ok(Connection::Datagram(socket))
}

fn resolved(address: &str) -> io::Result<std::net::SocketAddr> {
    address.to_socket_addrs()?.next().ok_or_else(|| ErrorKind::NotFound.into())
}

/// Appends a message of RFC 5424, 6: `<PRI>VERSION`, `TIMESTAMP`, `HOSTNAME`, `APP-NAME`, `PROCID`,
/// `MSGID`, `SD` and `MSG`, with blanks between them.
fn syslog(message: &mut Vec<u8>, (host, pid): (&str, u32), now: Timestamp, line: &[u8]) {
    message.extend_from_slice(format!("<{PRIORITY}>1 ").as_bytes());
    date::rfc3339(message, now);
    message.extend_from_slice(format!(" {host} shoal {pid} access - ").as_bytes());
    message.extend_from_slice(line);
}

/// Appends an entry of the journal's own protocol: a field a line. A line of the log has no line
/// end, so that its field needs no length.
fn journal(message: &mut Vec<u8>, line: &[u8]) {
    debug_assert!(!line.contains(&b'\n'));
    message.extend_from_slice(
        b"PRIORITY=6\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=shoal\nSHOAL_LOG=access\nMESSAGE=",
    );
    message.extend_from_slice(line);
    message.push(b'\n');
}

/// Returns the beginning of a line that fits into a datagram, as whole characters.
fn clipped(line: &[u8]) -> &[u8] {
    let mut end = line.len().min(LINE_MAX);
    while end < line.len() && end > 0 && line[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    assert!(end <= LINE_MAX, "a line that fits no datagram");
    &line[..end]
}

/// Returns the present time.
pub(super) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// Facility daemon, severity informational (RFC 5424, 6.2.1).
const PRIORITY: u8 = 3 * 8 + 6;
/// Longest wait for a receiver.
const SEND_WAIT_MAX: Duration = Duration::from_secs(1);
/// Pause after the first failure; it doubles with each.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest line that is sent, in bytes.
const LINE_MAX: usize = 48 << 10;
/// Longest message over UDP, in bytes.
const UDP_MAX: usize = 65_000;
/// Longest name of a host (RFC 5424, 6).
const HOST_MAX: usize = 255;

const _: () = assert!(LINE_MAX + 1024 < UDP_MAX);

#[cfg(test)]
mod tests;

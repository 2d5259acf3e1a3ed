//! One connection: bytes sent as given, responses read as their framing says.

use super::{Ending, Exact, Head, Request, Response};
use crate::fields::Fields;
use crate::wait::LIMIT;
use crate::wire::{self, Wire};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A client connection with what has been received and not yet read.
pub struct Connection {
    wire: Box<dyn Wire>,
    buffer: Vec<u8>,
}

/// How the end of a body is known (RFC 9112 section 6.3).
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Connection {
    /// Connects in plain text.
    pub fn open(address: SocketAddr) -> Self {
        Self::over(Box::new(connect(address)))
    }

    /// Connects with TLS, asking for `server_name`.
    pub fn open_tls(address: SocketAddr, server_name: &str, config: Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from(server_name.to_string()).expect("a host name");
        let session = ClientConnection::new(config, name).expect("a client configuration that fits");
        Self::over(Box::new(StreamOwned::new(session, connect(address))))
    }

    /// Takes over an open stream.
    pub fn over(wire: Box<dyn Wire>) -> Self {
        wire::limit_reads(&*wire, LIMIT);
        Self { wire, buffer: Vec::new() }
    }

    /// Sends exactly these bytes. A connection that the peer has closed takes them silently, since
    /// what matters is what comes back.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.wire.write_all(bytes.as_ref()).and_then(|()| self.wire.flush());
    }

    /// Ends this side's sending; responses can still be read.
    pub fn end_sending(&mut self) {
        let _ = self.wire.end_sending();
    }

    /// Closes with a reset.
    pub fn reset(self) {
        wire::reset(self.wire);
    }

    /// Limits every later wait for bytes.
    pub fn limit(&mut self, limit: Duration) {
        wire::limit_reads(&*self.wire, limit);
    }

    /// Sends a request and reads its response.
    pub fn ask(&mut self, request: &Request, host: &str) -> Response {
        self.send(request.to_bytes(host));
        self.response(&request.method)
    }

    /// Reads the response to a request with `method`, interim ones included.
    pub fn response(&mut self, method: &str) -> Response {
        self.try_response(method).unwrap_or_else(|why| panic!("no response: {why}"))
    }

    /// Like [`Connection::response`], but a connection that ends or stays silent before a head is
    /// an error.
    pub fn try_response(&mut self, method: &str) -> Result<Response, String> {
        let mut interim = Vec::new();
        let head = loop {
            let head = self.head()?;
            if !(100..200).contains(&head.status) || head.status == 101 {
                break head;
            }
            interim.push(head);
        };
        Ok(self.whole(method, head, interim))
    }

    /// Sends a request and reads its response as it stands.
    pub fn ask_exactly(&mut self, request: &Request, host: &str) -> Exact {
        self.send(request.to_bytes(host));
        self.exact(&request.method)
    }

    /// Reads the response to a request with `method` as it stands. Panics when there is none, or
    /// not all of it.
    pub fn exact(&mut self, method: &str) -> Exact {
        let head = self.until(b"\r\n\r\n").unwrap_or_else(|why| panic!("no response: {why}"));
        let response = self.whole(method, Head::parse(&head), Vec::new());
        assert_eq!(response.ending, Ending::Complete, "{head}");
        Exact { head, body: response.body }
    }

    /// The response with this head, whose body is read.
    pub fn whole(&mut self, method: &str, head: Head, interim: Vec<Head>) -> Response {
        let mut response = Response {
            interim,
            version: head.version,
            status: head.status,
            fields: head.fields,
            body: Vec::new(),
            trailers: Fields::default(),
            ending: Ending::Complete,
        };
        if let Err(why) = self.rest(method, &mut response) {
            response.ending = Ending::Cut(why);
        }
        response
    }

    /// Reads one head, interim or final.
    pub fn head(&mut self) -> Result<Head, String> {
        let text = self.until(b"\r\n\r\n")?;
        Ok(Head::parse(&text))
    }

    /// Reads exactly `count` bytes as they come, framing included.
    pub fn exactly(&mut self, count: usize) -> Result<Vec<u8>, String> {
        while self.buffer.len() < count {
            self.more()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Reads everything until the peer closes or resets, or the limit passes without a byte. The
    /// second is how it ended: `None` in order.
    pub fn everything(&mut self) -> (Vec<u8>, Option<String>) {
        loop {
            match self.more() {
                Ok(()) => {}
                Err(why) => {
                    let ending = (why != CLOSED).then_some(why);
                    return (std::mem::take(&mut self.buffer), ending);
                }
            }
        }
    }

    /// Reads one chunk of a chunked body; empty at the last.
    pub fn chunk(&mut self) -> Result<Vec<u8>, String> {
        let line = self.until(b"\r\n")?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| format!("not a chunk size: {line:?}"))?;
        if size == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.exactly(size)?;
        match &self.exactly(2)?[..] {
            b"\r\n" => Ok(bytes),
            other => Err(format!("a chunk followed by {other:?}")),
        }
    }

    /// Whether the peer closes this connection within the limit, having sent nothing more.
    pub fn closes(&mut self) -> bool {
        self.buffer.is_empty() && matches!(self.more(), Err(why) if why == CLOSED || why.starts_with("reset"))
    }

    /// Whether nothing at all comes within `pause`.
    pub fn stays_silent(&mut self, pause: Duration) -> bool {
        self.limit(pause);
        let silent = self.buffer.is_empty() && matches!(self.more(), Err(why) if why == SILENT);
        self.limit(LIMIT);
        silent
    }

    fn rest(&mut self, method: &str, response: &mut Response) -> Result<(), String> {
        let Some(framing) = framing(method, response)? else { return Ok(()) };
        match framing {
            Framing::Length(length) => {
                while self.buffer.len() < length {
                    if let Err(why) = self.more() {
                        response.body = std::mem::take(&mut self.buffer);
                        return Err(why);
                    }
                }
                response.body = self.buffer.drain(..length).collect();
            }
            Framing::UntilClose => {
                let (body, ending) = self.everything();
                response.body = body;
                ending.map_or(Ok(()), Err)?;
            }
            Framing::Chunked => loop {
                let chunk = self.chunk()?;
                if chunk.is_empty() {
                    return self.trailers(response);
                }
                response.body.extend_from_slice(&chunk);
            },
        }
        Ok(())
    }

    fn trailers(&mut self, response: &mut Response) -> Result<(), String> {
        loop {
            let line = self.until(b"\r\n")?;
            if line.is_empty() {
                return Ok(());
            }
            response.trailers.0.extend(Fields::parse(&line).0);
        }
    }

    /// Reads through `mark`; gives the text before it.
    fn until(&mut self, mark: &[u8]) -> Result<String, String> {
        let mut searched = 0;
        loop {
            let found = self.buffer[searched..].windows(mark.len()).position(|window| window == mark);
            if let Some(position) = found {
                let bytes: Vec<u8> = self.buffer.drain(..searched + position + mark.len()).collect();
                return Ok(bytes[..bytes.len() - mark.len()].iter().map(|byte| char::from(*byte)).collect());
            }
            searched = self.buffer.len().saturating_sub(mark.len() - 1);
            self.more()?;
        }
    }

    /// Waits for more bytes.
    fn more(&mut self) -> Result<(), String> {
        let mut bytes = [0; 16 * 1024];
        match wire::read(&mut *self.wire, &mut bytes) {
            Ok(0) => Err(CLOSED.into()),
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(SILENT.into())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(format!("reset: {error}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

const CLOSED: &str = "closed";
const SILENT: &str = "silent for too long";

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, LIMIT);
    let stream = stream.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
    stream.set_nodelay(true).expect("a TCP socket has the option");
    stream.set_write_timeout(Some(LIMIT)).expect("a limit above zero is taken");
    stream
}

/// RFC 9112 section 6.3, the client's side. `None` is no body.
fn framing(method: &str, response: &Response) -> Result<Option<Framing>, String> {
    let status = response.status;
    if method == "HEAD"
        || matches!(status, 100..200 | 204 | 304)
        || (method == "CONNECT" && status / 100 == 2)
    {
        return Ok(None);
    }
    if let Some(coding) = response.field("transfer-encoding") {
        assert!(!response.fields.has("content-length"), "Transfer-Encoding with Content-Length");
        let chunked = coding.eq_ignore_ascii_case("chunked");
        return if chunked { Ok(Some(Framing::Chunked)) } else { Err(format!("transfer coding {coding}")) };
    }
    let lengths = response.fields.all("content-length");
    match lengths[..] {
        [] => Ok(Some(Framing::UntilClose)),
        [length] => length.parse().map(|length| Some(Framing::Length(length))).map_err(|_| length.into()),
        _ => Err(format!("several lengths: {lengths:?}")),
    }
}

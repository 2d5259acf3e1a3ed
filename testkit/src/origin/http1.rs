//! The origin's side of an HTTP/1.1 connection.

use super::Shared;
use super::answer::{After, Answer, Framing, Step};
use super::journal::Received;
use crate::fields::Fields;
use crate::wire::{self, Wire};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, SystemTime};

/// Serves one connection to its end.
pub fn serve(wire: Box<dyn Wire>, connection: usize, shared: &Shared) {
    wire::limit_reads(&*wire, IDLE);
    let mut peer = Peer { wire, buffer: Vec::new(), sent: 0 };
    let mut after = After::Keep;
    while after == After::Keep {
        let Ok(Some(mut request)) = peer.head(connection) else { return };
        let early = shared.routes.before_body(&request);
        if !early && peer.body(&mut request).is_err() {
            return;
        }
        let earlier = shared.journal.note(&request);
        let answer = shared.routes.answer(&request, earlier);
        let outcome = peer.answer(&request, &answer);
        shared.journal.sent(std::mem::take(&mut peer.sent));
        after = match outcome {
            Ok(()) if early || answer.framing == Framing::Close => After::Close.max_of(answer.after),
            Ok(()) => answer.after,
            Err(_) => {
                shared.journal.abort();
                return;
            }
        };
    }
    peer.finish(after, shared);
}

impl After {
    /// The other one when it says more than to keep the connection.
    fn max_of(self, other: Self) -> Self {
        if other == Self::Keep { self } else { other }
    }
}

struct Peer {
    wire: Box<dyn Wire>,
    buffer: Vec<u8>,
    sent: u64,
}

impl Peer {
    /// Reads a request's head; `None` when the peer ends first.
    fn head(&mut self, connection: usize) -> io::Result<Option<Received>> {
        let text = match self.until(b"\r\n\r\n") {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        let (line, rest) = text.split_once("\r\n").unwrap_or((&text, ""));
        let mut words = line.splitn(3, ' ').map(str::to_string);
        let mut word = || words.next().unwrap_or_default();
        Ok(Some(Received {
            method: word(),
            target: word(),
            version: word(),
            fields: Fields::parse(rest),
            connection,
            head: text.clone(),
            ..Received::default()
        }))
    }

    /// Reads a request's body, asking for it first when the peer expects that.
    fn body(&mut self, request: &mut Received) -> io::Result<()> {
        let expects =
            request.fields.first("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
        if expects {
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        if request.fields.has("transfer-encoding") {
            return self.chunks(request);
        }
        let length = request.fields.first("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        request.body = self.exactly(length)?;
        Ok(())
    }

    fn chunks(&mut self, request: &mut Received) -> io::Result<()> {
        loop {
            let line = self.until(b"\r\n")?;
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16);
            let size = size.map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
            if size == 0 {
                break;
            }
            request.body.extend(self.exactly(size)?);
            self.exactly(2)?;
        }
        loop {
            let line = self.until(b"\r\n")?;
            if line.is_empty() {
                return Ok(());
            }
            request.trailers.0.extend(Fields::parse(&line).0);
        }
    }

    fn answer(&mut self, request: &Received, answer: &Answer) -> io::Result<()> {
        for step in &answer.before {
            self.step(step, Framing::Raw)?;
        }
        let bodiless = request.method == "HEAD" || matches!(answer.status, 100..200 | 204 | 304);
        if answer.framing != Framing::Raw {
            for (status, fields) in &answer.interim {
                self.send(format!("HTTP/1.1 {status} Interim\r\n{}\r\n", fields.lines()).as_bytes())?;
            }
            self.send(head(answer, bodiless).as_bytes())?;
            if bodiless && answer.status != 101 {
                return Ok(());
            }
        }
        for step in &answer.steps {
            self.step(step, answer.framing)?;
        }
        if answer.framing == Framing::Chunked && answer.after == After::Keep {
            self.send(format!("0\r\n{}\r\n", answer.trailers.lines()).as_bytes())?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, framing: Framing) -> io::Result<()> {
        match step {
            Step::Send(bytes) if framing == Framing::Chunked && !bytes.is_empty() => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                self.send(&chunk)
            }
            Step::Send(bytes) => self.send(bytes),
            Step::Pause(pause) => {
                std::thread::sleep(*pause);
                Ok(())
            }
            Step::Await(gate) => {
                gate.wait(IDLE);
                Ok(())
            }
            Step::Open(gate) => {
                gate.open();
                Ok(())
            }
            Step::Echo => self.echo(),
        }
    }

    fn echo(&mut self) -> io::Result<()> {
        let early = std::mem::take(&mut self.buffer);
        self.send(&early)?;
        let mut bytes = [0; 16 * 1024];
        loop {
            match wire::read(&mut *self.wire, &mut bytes)? {
                0 => return Ok(()),
                count => self.send(&bytes[..count])?,
            }
        }
    }

    fn finish(mut self, after: After, shared: &Shared) {
        match after {
            After::Reset => {
                wire::reset(self.wire);
                shared.journal.ended();
            }
            After::Stall => {
                let _ = self.wire.read(&mut [0]);
            }
            After::Keep | After::Close => {
                let _ = self.wire.end_sending();
                shared.journal.ended();
                // what is still unread would turn the close into a reset and take the answer with
                // it
                wire::limit_reads(&*self.wire, Duration::from_secs(1));
                let mut rest = [0; 16 * 1024];
                while matches!(self.wire.read(&mut rest), Ok(1..)) {}
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.write_all(bytes)?;
        self.wire.flush()?;
        self.sent += bytes.len() as u64;
        Ok(())
    }

    fn until(&mut self, mark: &[u8]) -> io::Result<String> {
        loop {
            if let Some(position) = self.buffer.windows(mark.len()).position(|window| window == mark) {
                let bytes: Vec<u8> = self.buffer.drain(..position + mark.len()).collect();
                return Ok(bytes[..position].iter().map(|byte| char::from(*byte)).collect());
            }
            self.more()?;
        }
    }

    fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            self.more()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    fn more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        match wire::read(&mut *self.wire, &mut bytes)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                self.buffer.extend_from_slice(&bytes[..count]);
                Ok(())
            }
        }
    }
}

/// The head's bytes, framing fields included.
fn head(answer: &Answer, bodiless: bool) -> String {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n{}", answer.status, answer.fields.lines());
    if answer.dated && !answer.fields.has("date") {
        let _ = write!(head, "Date: {}\r\n", httpdate::fmt_http_date(SystemTime::now()));
    }
    let length = answer.body().len();
    match answer.framing {
        Framing::Length if answer.fields.has("content-length") || (bodiless && length == 0) => {}
        Framing::Length => {
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        Framing::Claimed(claimed) => {
            let _ = write!(head, "Content-Length: {claimed}\r\n");
        }
        Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
        Framing::Close => head.push_str("Connection: close\r\n"),
        Framing::Raw => {}
    }
    head + "\r\n"
}

/// The longest wait for a peer or a gate.
const IDLE: Duration = Duration::from_secs(30);

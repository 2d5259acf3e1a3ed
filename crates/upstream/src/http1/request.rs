//! Sends a request: its head, then its body as it arrives. The response may arrive meanwhile.

use crate::head::{AttemptFailure, AttemptHead, invalid};
use crate::request_body::{Upload, UploadStream};
use crate::socket::OriginStream;
use crate::transport::MessageOutput;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http_body::Body;
use shoal_wire::{chunk, response};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// State of sending one request.
pub(crate) struct RequestWriter {
    output: MessageOutput,
    /// Body, until it has ended or the rest is not wanted.
    body: Option<UploadStream>,
    coding: Coding,
    /// Some bytes were written.
    has_begun: bool,
    state: RequestState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestState {
    /// Bytes are left to write.
    Sending,
    /// Everything was written.
    Sent,
    /// The rest cannot be sent, so the connection cannot be reused after the response.
    Broken,
}

/// Framing of the body.
enum Coding {
    /// Content-Length, with the number of bytes still due.
    Length(u64),
    Chunked,
}

impl RequestWriter {
    /// Creates the writer of a request for `head` with the body of `upload`. The Host is
    /// `authority` unless `head` names another.
    pub fn new(head: &AttemptHead, authority: &str, upload: &Arc<Upload>) -> Result<Self, AttemptFailure> {
        let body = upload.outgoing();
        let has_body = !upload.is_finished();
        let mut output = MessageOutput::default();
        write_head(&mut output.head, head, authority)?;
        let coding = match (has_body, length_of(head, &body)) {
            (false, _) => Coding::Length(0),
            (true, Some(length)) => Coding::Length(length),
            (true, None) => Coding::Chunked,
        };
        // A body that has ended without a byte is declared by its length only.
        if has_body || head.is_meant_for_content() {
            write_framing(&mut output.head, head, &coding);
        }
        output.head.extend_from_slice(chunk::CRLF);
        let body = has_body.then_some(body);
        Ok(Self { output, body, coding, has_begun: false, state: RequestState::Sending })
    }

    /// Returns `true` if no byte was written yet.
    pub fn is_unsent(&self) -> bool {
        !self.has_begun
    }

    /// Returns `true` if everything was written.
    pub fn is_sent(&self) -> bool {
        self.state == RequestState::Sent
    }

    /// Sends available bytes. Returns ready if everything is sent, or the rest cannot be sent.
    pub fn poll(&mut self, stream: &mut OriginStream, context: &mut Context<'_>) -> Poll<()> {
        if self.state == RequestState::Sending {
            let outcome = ready!(self.poll_sent(stream, context));
            self.state = if outcome.is_ok() { RequestState::Sent } else { RequestState::Broken };
            self.body = None;
        }
        Poll::Ready(())
    }

    fn poll_sent(&mut self, stream: &mut OriginStream, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.output.is_written() {
                match ready!(self.output.poll_write(stream, context))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    _ => self.has_begun = true,
                }
            }
            ready!(Pin::new(&mut *stream).poll_flush(context))?;
            self.output.clear();
            if !ready!(self.poll_more(context))? {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Puts the next piece of the body into the output. Returns `false` at its end.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(false)) };
        let frame = match ready!(Pin::new(body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            None => return Poll::Ready(self.end(None)),
        };
        Poll::Ready(match frame.into_data() {
            Ok(data) => self.take(data).map(|()| true),
            Err(frame) => self.end(frame.into_trailers().ok().as_ref()),
        })
    }

    fn take(&mut self, data: Bytes) -> io::Result<()> {
        let length = data.len() as u64;
        match &mut self.coding {
            Coding::Length(due) => *due = due.checked_sub(length).ok_or(io::ErrorKind::InvalidData)?,
            Coding::Chunked if length == 0 => return Ok(()),
            Coding::Chunked => {}
        }
        self.output.set_data(data, matches!(self.coding, Coding::Chunked));
        Ok(())
    }

    /// Ends the body. Returns `true` if the end must be written.
    fn end(&mut self, trailers: Option<&http::HeaderMap>) -> io::Result<bool> {
        self.body = None;
        match self.coding {
            Coding::Length(0) => Ok(false),
            Coding::Length(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Coding::Chunked => {
                chunk::last(&mut self.output.tail, trailers);
                Ok(true)
            }
        }
    }
}

/// Writes the head without framing fields and empty line.
fn write_head(out: &mut Vec<u8>, head: &AttemptHead, authority: &str) -> Result<(), AttemptFailure> {
    out.reserve(HEAD_BYTES);
    let absolute = head.absolute.as_deref().unwrap_or_default();
    for part in [head.method.as_str(), " ", absolute, head.target.as_str(), " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    // RFC 9110, 7.2: Host first, "since it is critical information for handling a request".
    let host = head.host.as_ref().map_or(authority.as_bytes(), HeaderValue::as_bytes);
    if host.iter().any(|byte| byte.is_ascii_control() || *byte == b' ') {
        return Err(invalid("Host"));
    }
    response::field(out, "host", host);
    out.extend_from_slice(head.fields.as_bytes());
    if let Some(protocols) = &head.upgrade {
        response::field(out, "connection", b"upgrade");
        response::field(out, "upgrade", protocols.as_bytes());
    }
    Ok(())
}

fn write_framing(out: &mut Vec<u8>, head: &AttemptHead, coding: &Coding) {
    match coding {
        Coding::Length(_) if head.fields.content_length().is_some() => {}
        Coding::Length(length) => {
            response::field(out, CONTENT_LENGTH.as_str(), itoa::Buffer::new().format(*length).as_bytes());
        }
        Coding::Chunked => response::field(out, TRANSFER_ENCODING.as_str(), b"chunked"),
    }
}

/// Returns the body's length from the request's field, or else from the body itself.
fn length_of(head: &AttemptHead, body: &UploadStream) -> Option<u64> {
    let said = head.fields.content_length().and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
    said.or_else(|| body.size_hint().exact())
}

/// Initial capacity, more than most request heads need.
const HEAD_BYTES: usize = 1024;

//! Reads a response's body from an HTTP/1 connection: by length, in chunks, or until the end.

use super::request::RequestWriter;
use super::{CLOSED, H1};
use crate::message::BodyError;
use crate::transport::spare::{BODY_BYTES, BufferClass};
use bytes::Bytes;
use http::Version;
use http::header::CONNECTION;
use http_body::Frame;
use shoal_core::Fields;
use shoal_wire::chunk::ChunkDecoder;
use shoal_wire::{BodyDecoder, BodyEvent, ResponseHead};
use std::task::{Context, Poll, ready};

/// Exchange after the response's head: the response's body, and the rest of the request's.
pub(crate) struct ResponseReader {
    framing: Framing,
    requesting: RequestWriter,
    /// Both sides allow the connection to persist.
    may_persist: bool,
}

enum Framing {
    /// By length or in chunks.
    Delimited(BodyDecoder),
    /// By the connection's end.
    UntilClose,
}

impl ResponseReader {
    /// Creates the reader after a head with valid framing: a body of `length`, in chunks, or until
    /// the end.
    pub fn new(length: Option<u64>, is_chunked: bool, may_persist: bool, requesting: RequestWriter) -> Self {
        let framing = match length {
            Some(length) => Framing::Delimited(BodyDecoder::Length(length)),
            None if is_chunked => Framing::Delimited(BodyDecoder::Chunked(ChunkDecoder::of_response())),
            None => Framing::UntilClose,
        };
        Self { framing, requesting, may_persist }
    }

    /// Returns `true` if the body has ended.
    pub fn is_ended(&self) -> bool {
        matches!(&self.framing, Framing::Delimited(decoder) if decoder.is_ended())
    }

    /// Returns `true` if the connection can carry another request.
    pub fn is_reusable(&self) -> bool {
        self.may_persist && self.requesting.is_sent() && self.is_ended()
    }

    /// Polls for the next frame; `None` at the end.
    pub fn poll_frame(
        &mut self,
        connection: &mut H1,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let io = connection.io();
        // Send the rest of the request meanwhile. If that fails, the response may still be whole.
        let _ = self.requesting.poll(&mut io.stream, context);
        loop {
            match self.framing.decode(&mut io.input) {
                Ok(BodyEvent::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(BodyEvent::End(trailers)) => {
                    return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
                }
                Ok(BodyEvent::NeedMore) => {}
                Err(malformed) => return Poll::Ready(Some(Err(BodyError::Malformed(malformed.0)))),
            }
            let room = self.framing.room();
            match ready!(io.poll_fill_body(context, room)) {
                Ok(0) if matches!(self.framing, Framing::UntilClose) => return Poll::Ready(None),
                Ok(0) => return Poll::Ready(Some(Err(BodyError::Cut(CLOSED.into())))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(BodyError::Cut(error.to_string())))),
            }
        }
    }
}

impl Framing {
    fn decode(&mut self, input: &mut bytes::BytesMut) -> Result<BodyEvent, shoal_wire::MalformedBody> {
        match self {
            Self::Delimited(decoder) => decoder.decode(input),
            Self::UntilClose if input.is_empty() => Ok(BodyEvent::NeedMore),
            Self::UntilClose => Ok(BodyEvent::Data(input.split().freeze())),
        }
    }

    /// Returns the bytes to reserve: the rest of the body, within bounds.
    fn room(&self) -> usize {
        let rest = match self {
            Self::Delimited(decoder) => decoder.remaining(),
            Self::UntilClose => None,
        };
        let rest = rest.and_then(|rest| usize::try_from(rest).ok()).unwrap_or(BODY_BYTES);
        rest.clamp(BufferClass::Origin.bytes(), BODY_BYTES)
    }
}

/// Returns `true` if a connection persists after a response with this head (RFC 9112, 9.3).
pub(crate) fn persists(head: &ResponseHead) -> bool {
    let says = |option: &[u8]| {
        let names = |line: &[u8]| {
            line.split(|byte| *byte == b',').any(|said| said.trim_ascii().eq_ignore_ascii_case(option))
        };
        head.fields.values(&CONNECTION).any(names)
    };
    if head.version == Version::HTTP_10 { says(b"keep-alive") } else { !says(b"close") }
}

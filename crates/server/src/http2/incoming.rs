//! Reads a client's frames and field blocks, and opens the streams.

use super::held_heads::HeldHead;
use super::output::FrameOutput;
use super::stream::{self, StreamRequest};
use super::{StreamContext, fast_path};
use crate::message::Handler;
use bytes::{Buf, BytesMut};
use http::header;
use shoal_http2::hpack::{Decoder, FieldList};
use shoal_http2::{
    self, ACK, ErrorCode, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameError, FrameHead, FrameKind,
    Http2Head, PREFACE, PeerSettings,
};
use shoal_wire::{FastPathRequest, RequestRefusal};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

/// Reading side of a connection.
#[derive(Default)]
pub(super) struct FrameReader {
    /// The preface was read.
    begun: bool,
    /// The first SETTINGS frame was read.
    settled: bool,
    /// Number of frames read.
    frames: u64,
    decoder: Decoder,
    /// Field block that continues in further frames.
    block: Option<Block>,
    last_stream: u32,
    /// No further streams are accepted.
    ends: bool,
    /// Arrival time of the bytes being parsed.
    received: Option<Instant>,
    /// Payloads of our pings that were answered since the last check. The server sends only two
    /// kinds.
    pongs: [Option<[u8; 8]>; 2],
    /// Total bytes read, and the number of them in field blocks or bodies.
    bytes: u64,
    useful: u64,
}

struct Block {
    /// Number of the frame that began the block.
    began: u64,
    stream: u32,
    end_stream: bool,
    bytes: Vec<u8>,
}

/// Result of reading frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameProgress {
    /// All whole frames were read.
    All {
        /// Minimum number of further bytes for the next frame; 0 if unknown.
        wanted: usize,
    },
    /// Further frames are there, but must wait.
    Blocked,
}

impl FrameReader {
    /// Reads all whole frames. An error ends the connection.
    pub fn take<H: Handler>(
        &mut self,
        input: &mut BytesMut,
        output: &mut FrameOutput,
        streams: &Arc<StreamContext<H>>,
    ) -> Result<FrameProgress, ErrorCode> {
        if !self.begun && !self.take_preface(input)? {
            return Ok(FrameProgress::All { wanted: 0 });
        }
        let mut at = 0;
        let taken = loop {
            let rest = &input[at..];
            let Some(head) = FrameHead::read(rest) else { break FrameProgress::All { wanted: 0 } };
            if head.length > FRAME_BYTES_MAX {
                return Err(ErrorCode::FRAME_SIZE_ERROR);
            }
            let whole = FRAME_HEAD_BYTES + head.length;
            let Some(payload) = rest.get(FRAME_HEAD_BYTES..whole) else {
                if head.kind == FrameKind::Data as u8 {
                    streams.link.lock().arrives(head.stream, rest.len());
                }
                break FrameProgress::All { wanted: whole - rest.len() };
            };
            if output.is_clogged() || self.is_crowded(streams) {
                break FrameProgress::Blocked;
            }
            self.frames += 1;
            let frame = self.in_place(head).and_then(|()| Frame::read(head, payload));
            match frame.and_then(|frame| self.frame(frame, payload.len(), output, streams)) {
                Ok(()) => {}
                Err(FrameError { stream: None, code }) => return Err(code),
                // An idle stream cannot be reset.
                Err(FrameError { stream: Some(stream), code }) if self.is_unopened(stream) => {
                    return Err(code);
                }
                Err(FrameError { stream: Some(stream), code }) => Self::reset(stream, code, streams)?,
            }
            at += whole;
            debug_assert!(at <= input.len());
        };
        input.advance(at);
        if input.is_empty() {
            self.received = None;
        }
        if self.bytes / USELESS_SHARE > self.useful + output.response_bytes() + USELESS_BYTES {
            return Err(ErrorCode::ENHANCE_YOUR_CALM);
        }
        Ok(taken)
    }

    /// Counts `bytes` as read.
    pub fn filled(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.received = None;
    }

    /// Returns the last stream that was accepted.
    pub fn last_stream(&self) -> u32 {
        self.last_stream
    }

    /// Stops accepting streams.
    pub fn take_no_more(&mut self) {
        self.ends = true;
    }

    /// Takes the payloads of our pings that were answered.
    pub fn pongs(&mut self) -> impl Iterator<Item = [u8; 8]> + use<> {
        std::mem::take(&mut self.pongs).into_iter().flatten()
    }

    /// Returns the number of the unfinished element, if any: the preface, a frame other than DATA,
    /// or a field block. The number tells elements apart.
    pub fn begun(&self, input: &BytesMut) -> Option<u64> {
        let is_body = FrameHead::read(input).is_some_and(|head| head.kind == 0);
        match &self.block {
            Some(block) => Some(block.began),
            None if !self.begun || !input.is_empty() && !is_body => Some(self.frames),
            None => None,
        }
    }

    /// Returns `true` if the limit on running tasks is reached. Tasks of reset streams count until
    /// they run and end.
    pub fn is_crowded<H>(&self, streams: &StreamContext<H>) -> bool {
        streams.link.lock().tasks() >= 2 * streams.live.h2_streams.max(1) as usize
    }

    /// Reads the preface. Returns `false` if it is incomplete.
    fn take_preface(&mut self, input: &mut BytesMut) -> Result<bool, ErrorCode> {
        let there = input.len().min(PREFACE.len());
        if input[..there] != PREFACE[..there] {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if there < PREFACE.len() {
            return Ok(false);
        }
        debug_assert!(!self.settled, "settings before the preface");
        input.advance(PREFACE.len());
        self.begun = true;
        Ok(true)
    }

    /// Checks that a frame may come now. "The sequence MUST be followed by a SETTINGS frame"
    /// (section 3.4). Only CONTINUATION may follow within a field block: "any number of
    /// CONTINUATION frames can be sent, as long as the preceding frame is on the same stream"
    /// (section 6.10).
    fn in_place(&mut self, head: FrameHead) -> Result<(), FrameError> {
        let is_settings = head.kind == FrameKind::Settings as u8 && head.flags & ACK == 0;
        let was_settled = std::mem::replace(&mut self.settled, true);
        let goes_on =
            |block: &Block| head.kind == FrameKind::Continuation as u8 && head.stream == block.stream;
        match (was_settled || is_settings) && self.block.as_ref().is_none_or(goes_on) {
            true => Ok(()),
            false => Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR)),
        }
    }

    fn frame<H: Handler>(
        &mut self,
        frame: Frame<'_>,
        payload: usize,
        output: &mut FrameOutput,
        streams: &Arc<StreamContext<H>>,
    ) -> Result<(), FrameError> {
        let link = &streams.link;
        match frame {
            Frame::Headers { stream, block, end_stream, end_headers: true } => {
                self.fields(stream, block, end_stream, output, streams)
            }
            Frame::Headers { stream, block, end_stream, end_headers: false } => {
                debug_assert!(self.block.is_none(), "a block within a block");
                self.block = Some(Block { began: self.frames, stream, end_stream, bytes: block.to_vec() });
                Ok(())
            }
            Frame::Continuation { block, end_headers, .. } => {
                self.continued(block, end_headers, output, streams)
            }
            Frame::Data { stream, data, end } => {
                self.useful += data.len() as u64;
                if self.is_unopened(stream) {
                    return Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR));
                }
                link.lock().received(stream, data, payload, end)
            }
            Frame::Reset { stream } | Frame::WindowUpdate { stream, .. } if self.is_unopened(stream) => {
                Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR))
            }
            Frame::Reset { stream } => {
                let resets = link.lock().reset_by_client(stream);
                match resets <= resets_max(streams.live.h2_streams) {
                    true => Ok(()),
                    false => Err(FrameError::connection(ErrorCode::ENHANCE_YOUR_CALM)),
                }
            }
            Frame::WindowUpdate { stream, increment } => link.lock().widen(stream, increment),
            Frame::Settings(payload) => {
                link.lock().set(PeerSettings::read(payload)?)?;
                output.frames(shoal_http2::write_settings_ack);
                Ok(())
            }
            Frame::Ping(bytes) => {
                output.frames(|out| shoal_http2::write_ping(out, bytes, true));
                Ok(())
            }
            Frame::Pong(bytes) => {
                self.pongs = [Some(bytes), self.pongs[0]];
                Ok(())
            }
            Frame::SettingsAck | Frame::Ignored => Ok(()),
        }
    }

    /// Returns `true` if the client has not opened the stream, or cannot open it. After GOAWAY the
    /// client may not know the last accepted stream.
    fn is_unopened(&self, stream: u32) -> bool {
        is_ours(stream) || stream > self.last_stream && !self.ends
    }

    fn continued<H: Handler>(
        &mut self,
        more: &[u8],
        end_headers: bool,
        output: &mut FrameOutput,
        streams: &Arc<StreamContext<H>>,
    ) -> Result<(), FrameError> {
        let mut block = self.block.take().ok_or(FrameError::connection(ErrorCode::PROTOCOL_ERROR))?;
        // A compressed block may be as large as its fields, but continuation without end or
        // contents is abuse.
        if more.is_empty() && !end_headers || block.bytes.len() > 2 * streams.live.limits.head_bytes_max {
            return Err(FrameError::connection(ErrorCode::ENHANCE_YOUR_CALM));
        }
        block.bytes.extend_from_slice(more);
        if end_headers {
            return self.fields(block.stream, &block.bytes, block.end_stream, output, streams);
        }
        self.block = Some(block);
        Ok(())
    }

    /// Handles a whole field block: a request or trailers.
    fn fields<H: Handler>(
        &mut self,
        stream: u32,
        block: &[u8],
        end_stream: bool,
        output: &mut FrameOutput,
        streams: &Arc<StreamContext<H>>,
    ) -> Result<(), FrameError> {
        FIELDS.with_borrow_mut(|fields| {
            self.useful += block.len() as u64;
            let limit = streams.live.limits.head_bytes_max;
            let decoded = self.decoder.decode(block, fields, limit);
            decoded.map_err(|_| FrameError::connection(ErrorCode::COMPRESSION_ERROR))?;
            // "Streams initiated by a client MUST use odd-numbered stream identifiers" (section
            // 5.1.1).
            let outcome = if is_ours(stream) {
                Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR))
            } else if stream > self.last_stream {
                self.request(stream, fields, end_stream, output, streams)
            } else {
                trailers(stream, fields, end_stream, streams)
            };
            if fields.is_too_large() {
                fields.shrink();
            }
            outcome
        })
    }

    fn request<H: Handler>(
        &mut self,
        stream: u32,
        fields: &FieldList,
        end_stream: bool,
        output: &mut FrameOutput,
        streams: &Arc<StreamContext<H>>,
    ) -> Result<(), FrameError> {
        if self.ends {
            // GOAWAY has declared this stream as not accepted.
            return Ok(());
        }
        debug_assert!(stream % 2 == 1);
        debug_assert!(stream > self.last_stream, "streams rise");
        self.last_stream = stream;
        if streams.link.lock().is_full(streams.live.h2_streams as usize) {
            return Err(FrameError::stream(stream, ErrorCode::REFUSED_STREAM));
        }
        let received = *self.received.get_or_insert_with(Instant::now);
        if fields.is_too_large() {
            self.refuse(stream, "fields too large", end_stream, received, streams);
            return Ok(());
        }
        let malformed = |_| FrameError::stream(stream, ErrorCode::PROTOCOL_ERROR);
        let head = Http2Head::read(fields).map_err(malformed)?;
        if end_stream
            && let Some(plain) = FastPathRequest::of_http2(&head, &streams.live.limits)
            && fast_path::answer(streams, stream, &plain, received, output).is_some()
        {
            return Ok(());
        }
        let Some(held) = streams.heads.hold(fields.text().len()) else {
            let why = "the requests that wait for an answer have too many fields";
            self.refuse(stream, why, end_stream, received, streams);
            return Ok(());
        };
        let parts = head.to_parts().map_err(malformed)?;
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        if end_stream && length.is_some_and(|length: u64| length > 0) {
            return Err(malformed(shoal_http2::MalformedRequest));
        }
        self.start(stream, (Ok((parts, held)), end_stream, length), received, streams);
        Ok(())
    }

    /// Starts a task that answers the stream with 431.
    fn refuse<H: Handler>(
        &mut self,
        stream: u32,
        why: &'static str,
        end_stream: bool,
        received: Instant,
        streams: &Arc<StreamContext<H>>,
    ) {
        let head = Err(RequestRefusal::fields_too_large(why));
        self.start(stream, (head, end_stream, None), received, streams);
    }

    /// Starts a task that answers the stream.
    fn start<H: Handler>(
        &mut self,
        id: u32,
        (head, ended, length): (Result<(http::request::Parts, HeldHead), RequestRefusal>, bool, Option<u64>),
        received: Instant,
        streams: &Arc<StreamContext<H>>,
    ) {
        let (sending, receiving) = streams.link.open(id, ended, length);
        let (head, held) = match head {
            Ok((parts, held)) => (Ok(parts), Some(held)),
            Err(refusal) => (Err(refusal), None),
        };
        let asked = StreamRequest { head, sending, receiving, received, held };
        tokio::spawn(stream::serve(asked, Arc::clone(streams)));
    }

    /// Resets a stream for an error of the client.
    fn reset<H>(stream: u32, code: ErrorCode, streams: &StreamContext<H>) -> Result<(), ErrorCode> {
        let metrics = &streams.shared.metrics;
        match code {
            ErrorCode::REFUSED_STREAM => metrics.h2_streams_refused.increment(),
            _ => metrics.refused.increment(),
        }
        match streams.link.lock().reset_for_error(stream, code) <= ERRORS_MAX {
            true => Ok(()),
            false => Err(ErrorCode::ENHANCE_YOUR_CALM),
        }
    }
}

/// Returns `true` for the number of a server-initiated stream.
fn is_ours(stream: u32) -> bool {
    stream != 0 && stream.is_multiple_of(2)
}

/// Handles trailers, which end the client's half of the stream. Trailers of a closed stream are
/// ignored, but a request on it is an error: "The identifier of a newly established stream MUST be
/// numerically greater than all streams that the initiating endpoint has opened or reserved"
/// (section 5.1.1).
fn trailers<H>(
    stream: u32,
    fields: &FieldList,
    end_stream: bool,
    streams: &StreamContext<H>,
) -> Result<(), FrameError> {
    let link = &streams.link;
    if link.lock().stream(stream).is_err() {
        let is_request = fields.iter().next().is_some_and(|(name, _)| name.starts_with(b":"));
        return if is_request { Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR)) } else { Ok(()) };
    }
    let held = streams.heads.hold(fields.text().len());
    let held = held.ok_or(FrameError::stream(stream, ErrorCode::ENHANCE_YOUR_CALM))?;
    let trailers = shoal_http2::trailers(fields).ok().filter(|_| end_stream && !fields.is_too_large());
    let trailers = trailers.ok_or(FrameError::stream(stream, ErrorCode::PROTOCOL_ERROR))?;
    link.lock().received_trailers(stream, (trailers, held))
}

/// Maximum number of streams reset before their reply, less the streams answered. A browser that
/// leaves a page cancels all its open requests, perhaps twice in a row. Above the limit the
/// connection ends.
pub(crate) fn resets_max(streams_max: u32) -> u32 {
    2 * streams_max.max(10)
}

/// Maximum number of streams reset for the client's errors, less the streams answered.
pub(crate) const ERRORS_MAX: u32 = 512;

/// Inverse of the minimum share of received bytes that must be field blocks or bodies. Bytes of our
/// responses count too. The first [`USELESS_BYTES`] bytes are exempt.
const USELESS_SHARE: u64 = 8;
const USELESS_BYTES: u64 = 1 << 20;

thread_local! {
    /// Fields of the block being decoded.
    static FIELDS: RefCell<FieldList> = RefCell::default();
}

const _: () = assert!(USELESS_SHARE > 1);

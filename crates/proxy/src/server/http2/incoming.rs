//! What a client sends: frames, field blocks, and the streams that they open.

use super::held_heads::HeldHead;
use super::output::FrameOutput;
use super::stream::{self, StreamRequest};
use super::{StreamContext, fast_path};
use crate::message::Handler;
use bytes::{Buf, BytesMut};
use http::header;
use shoal_wire::hpack::{Decoder, FieldList};
use shoal_wire::http2::{
    self, ACK, ErrorCode, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameError, FrameHead, FrameKind,
    Http2Head, PREFACE, PeerSettings,
};
use shoal_wire::{FastPathRequest, RequestRefusal};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

/// The reading side of a connection.
#[derive(Default)]
pub(super) struct FrameReader {
    /// The preface was read.
    begun: bool,
    /// And its settings.
    settled: bool,
    /// Frames that were taken.
    frames: u64,
    decoder: Decoder,
    /// A field block of which more is to come.
    block: Option<Block>,
    last_stream: u32,
    /// No further streams are taken.
    ends: bool,
    /// When the bytes came that are being taken.
    received: Option<Instant>,
    /// Pings of ours that were answered since the last look, at most two: there are no others of
    /// ours.
    pongs: [Option<[u8; 8]>; 2],
    /// Bytes read, and those among them that were field blocks or bodies.
    bytes: u64,
    useful: u64,
}

struct Block {
    /// The number of the frame that it began with.
    began: u64,
    stream: u32,
    end_stream: bool,
    bytes: Vec<u8>,
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameProgress {
    /// All that was whole; the next frame wants at least so many bytes more.
    All {
        /// 0 where that is not known.
        wanted: usize,
    },
    /// More is there, and waits.
    Blocked,
}

impl FrameReader {
    /// Takes the frames that are there whole. An error ends the connection.
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
                // A stream that is idle has nothing to reset.
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

    /// So many bytes were read.
    pub fn filled(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.received = None;
    }

    /// The last stream that was taken up.
    pub fn last_stream(&self) -> u32 {
        self.last_stream
    }

    /// No further streams are taken.
    pub fn take_no_more(&mut self) {
        self.ends = true;
    }

    /// What our pings carried that were answered.
    pub fn pongs(&mut self) -> impl Iterator<Item = [u8; 8]> + use<> {
        std::mem::take(&mut self.pongs).into_iter().flatten()
    }

    /// What has begun and not ended, told from others by its number: the preface, a frame that is
    /// no body, or a field block.
    pub fn begun(&self, input: &BytesMut) -> Option<u64> {
        let is_body = FrameHead::read(input).is_some_and(|head| head.kind == 0);
        match &self.block {
            Some(block) => Some(block.began),
            None if !self.begun || !input.is_empty() && !is_body => Some(self.frames),
            None => None,
        }
    }

    /// Whether so many tasks are at work that no more are started. Those of streams that were reset
    /// end as soon as they run.
    pub fn is_crowded<H>(&self, streams: &StreamContext<H>) -> bool {
        streams.link.lock().tasks() >= 2 * streams.live.h2_streams.max(1) as usize
    }

    /// Whether the preface is there and was taken.
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

    /// Whether a frame may come now. "The sequence MUST be followed by a SETTINGS frame" (section
    /// 3.4); and of a field block, "any number of CONTINUATION frames can be sent, as long as the
    /// preceding frame is on the same stream" (section 6.10), and nothing else.
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
                output.frames(http2::write_settings_ack);
                Ok(())
            }
            Frame::Ping(bytes) => {
                output.frames(|out| http2::write_ping(out, bytes, true));
                Ok(())
            }
            Frame::Pong(bytes) => {
                self.pongs = [Some(bytes), self.pongs[0]];
                Ok(())
            }
            Frame::SettingsAck | Frame::Ignored => Ok(()),
        }
    }

    /// Whether the client has not opened the stream, or cannot; once no more are taken, it may not
    /// know which those are.
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
        // What is compressed may be as large as what it stands for; frames without an end, or
        // without contents, may not.
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

    /// A whole field block: a request, or trailers.
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
            // GOAWAY has said that it is not taken up.
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
            return Err(malformed(http2::Malformed));
        }
        self.start(stream, (Ok((parts, held)), end_stream, length), received, streams);
        Ok(())
    }

    /// Has a task answer the stream with 431.
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

    /// Has a task answer the stream.
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

    /// Ends a stream for the client's fault.
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

/// Whether a stream would be one that a server opens.
fn is_ours(stream: u32) -> bool {
    stream != 0 && stream.is_multiple_of(2)
}

/// Trailers, after which nothing comes; of a stream that is over they mean nothing. But it is not
/// opened again: "The identifier of a newly established stream MUST be numerically greater than all
/// streams that the initiating endpoint has opened or reserved" (section 5.1.1).
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
    let trailers = http2::trailers(fields).ok().filter(|_| end_stream && !fields.is_too_large());
    let trailers = trailers.ok_or(FrameError::stream(stream, ErrorCode::PROTOCOL_ERROR))?;
    link.lock().received_trailers(stream, (trailers, held))
}

/// Streams that may be reset before they are answered, beyond those that are answered meanwhile: a
/// browser that leaves a page gives up all it has open, and may do so again at once; a client that
/// goes beyond is sent away.
fn resets_max(streams_max: u32) -> u32 {
    2 * streams_max.max(10)
}

/// Streams that we reset for the client's errors, beyond those that are answered meanwhile.
const ERRORS_MAX: u32 = 512;

/// Of what a client sends, one part in so many at least must be field blocks or bodies, or we must
/// have answered as much; but for this many bytes.
const USELESS_SHARE: u64 = 8;
const USELESS_BYTES: u64 = 1 << 20;

thread_local! {
    /// The fields of the block that is being read.
    static FIELDS: RefCell<FieldList> = RefCell::default();
}

const _: () = assert!(USELESS_SHARE > 1);

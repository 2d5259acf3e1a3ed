//! Record of all frames between client and server, with checks of the server's frames.
//!
//! A client's frame counts once the server has read it. A change of the server's limits counts once
//! the server has acknowledged it. A violation found here is therefore one for any timing of the
//! server's reads.

use super::streams::StreamRecord;
use crate::http2::CONNECTION_WINDOW;
use shoal_http2::hpack::{Decoder, FieldList};
use shoal_http2::{
    ACK, END_HEADERS, END_STREAM, ErrorCode, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameError, FrameHead,
    FrameKind, PREFACE, PeerSettings, WINDOW_INITIAL, write_ping, write_reset, write_settings_ack,
    write_window_update,
};
use std::collections::{BTreeMap, VecDeque};

/// State of both directions of one connection.
#[derive(Default)]
pub(super) struct Account {
    said: Direction,
    heard: Direction,
    /// The client has sent the preface.
    begun: bool,
    /// The client has sent a wrong preface or another connection error.
    pub is_wrong: bool,
    /// Streams that the client has opened.
    pub streams: BTreeMap<u32, StreamRecord>,
    /// Bytes that the server may send on all streams.
    window: i64,
    /// Bytes that the server may send on a new stream.
    stream_window: i64,
    /// Maximum bytes of a frame from the server.
    frame_bytes_max: usize,
    /// Settings and pings that the server must acknowledge.
    settings: VecDeque<PeerSettings>,
    pings: VecDeque<[u8; 8]>,
    /// Bytes that the client may send on all streams, and on a new one.
    room: i64,
    stream_room: i64,
    /// Answers that the client owes to the server's settings and pings.
    pub owed: Vec<u8>,
    /// The server has sent settings.
    is_settled: bool,
    /// Last stream that the server accepts, once announced.
    last_stream: Option<u32>,
    /// Error with which the server has ended the connection.
    pub given_up: Option<ErrorCode>,
    pub frames_said: usize,
    control_bytes: usize,
}

/// Frames that the server still owes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DueFrames<'a> {
    pub streams: Vec<(&'a u32, &'a StreamRecord)>,
    settings: usize,
    pings: usize,
}

/// One direction of the connection.
#[derive(Default)]
struct Direction {
    /// Bytes of an unfinished frame.
    rest: Vec<u8>,
    /// Unfinished field block: its stream, and `true` if the block ends the stream.
    block: Option<(u32, bool, Vec<u8>)>,
    fields: Decoder,
}

impl Account {
    /// Creates the record of a new connection.
    pub fn new() -> Self {
        let window = i64::from(WINDOW_INITIAL);
        let frame_bytes_max = FRAME_BYTES_MAX;
        let (stream_window, room, stream_room) = (window, window, window);
        Self { window, stream_window, room, stream_room, frame_bytes_max, ..Self::default() }
    }

    /// Records bytes that the server has read.
    pub fn said(&mut self, bytes: &[u8]) {
        self.said.rest.extend_from_slice(bytes);
        if !self.begun {
            let there = self.said.rest.len().min(PREFACE.len());
            self.is_wrong |= self.said.rest[..there] != PREFACE[..there];
            if self.is_wrong || there < PREFACE.len() {
                return;
            }
            self.begun = true;
            self.said.rest.drain(..there);
        }
        while let Some((head, payload)) = self.said.next() {
            let is_first = self.frames_said == 0;
            self.frames_said += 1;
            let goes_on = head.kind == FrameKind::Continuation as u8;
            let is_in_place = match &self.said.block {
                Some((stream, ..)) => goes_on && head.stream == *stream,
                None => !goes_on && (!is_first || (head.kind, head.flags & ACK) == (4, 0)),
            };
            match Frame::read(head, &payload) {
                Ok(frame) if is_in_place => self.said_frame(frame, payload.len()),
                Err(FrameError { stream: Some(_), .. }) if is_in_place => {}
                _ => self.is_wrong = true,
            }
        }
        self.is_wrong |= FrameHead::read(&self.said.rest).is_some_and(|head| head.length > FRAME_BYTES_MAX);
    }

    fn said_frame(&mut self, frame: Frame<'_>, payload: usize) {
        match frame {
            Frame::Headers { stream, block, end_stream, end_headers } => {
                self.said.block = Some((stream, end_stream, block.to_vec()));
                self.said_block(end_headers);
            }
            Frame::Continuation { block, end_headers, .. } => {
                if let Some((_, _, begun)) = &mut self.said.block {
                    begun.extend_from_slice(block);
                    self.said_block(end_headers);
                }
            }
            Frame::Data { stream, end, .. } => {
                self.room -= payload as i64;
                if let Some(seen) = self.streams.get_mut(&stream) {
                    seen.room -= payload as i64;
                    seen.said_all |= end;
                }
            }
            Frame::Reset { stream } => {
                self.streams.get_mut(&stream).into_iter().for_each(|seen| seen.given_up = true);
            }
            Frame::Settings(payload) => match PeerSettings::read(payload) {
                Ok(settings) => self.settings.push_back(settings),
                Err(_) => self.is_wrong = true,
            },
            Frame::Ping(bytes) => self.pings.push_back(bytes),
            Frame::WindowUpdate { stream: 0, increment } => self.window += i64::from(increment),
            Frame::WindowUpdate { stream, increment } => {
                if let Some(seen) = self.streams.get_mut(&stream) {
                    seen.window += i64::from(increment);
                }
            }
            Frame::SettingsAck | Frame::Pong(_) | Frame::Ignored => {}
        }
    }

    /// Handles a field block of the client, once it is whole.
    fn said_block(&mut self, is_whole: bool) {
        let Some((stream, end, block)) = self.said.block.take_if(|_| is_whole) else { return };
        let mut fields = FieldList::default();
        if self.said.fields.decode(&block, &mut fields, 1 << 16).is_err() || stream % 2 == 0 {
            self.is_wrong = true;
        } else if let Some(seen) = self.streams.get_mut(&stream) {
            seen.said_all |= end;
        } else if self.streams.last_key_value().is_none_or(|(last, _)| *last < stream) {
            let begins = (self.stream_window, self.stream_room);
            self.streams.insert(stream, StreamRecord::new(&fields, end, begins));
        }
    }

    /// Checks bytes that the server has sent.
    pub fn heard(&mut self, bytes: &[u8]) {
        self.heard.rest.extend_from_slice(bytes);
        while let Some((head, payload)) = self.heard.next() {
            assert!(payload.len() <= self.frame_bytes_max, "a frame of {} bytes", payload.len());
            let is_first = !std::mem::replace(&mut self.is_settled, true);
            assert!(!is_first || (head.kind, head.flags) == (4, 0), "it begins with {head:?}");
            let goes_on = |block: &(u32, bool, Vec<u8>)| head.kind == 9 && head.stream == block.0;
            assert!(self.heard.block.as_ref().is_none_or(goes_on), "within a block: {head:?}");
            self.heard_frame(head, &payload);
        }
    }

    fn heard_frame(&mut self, head: FrameHead, payload: &[u8]) {
        let id = head.stream;
        let ends = head.flags & END_STREAM != 0;
        if head.kind > FrameKind::Headers as u8 {
            self.control_bytes += FRAME_HEAD_BYTES + payload.len();
            let allowance = 200 + CONTROL_SHARE * self.frames_said;
            assert!(self.control_bytes <= allowance, "{} bytes of frames", self.control_bytes);
        } else {
            assert_eq!(self.given_up, None, "it goes on: {head:?}");
        }
        match head.kind {
            0 => {
                self.window -= payload.len() as i64;
                assert!(payload.is_empty() || self.window >= 0, "too much by the connection's window");
                self.stream(id).took_data(payload, ends);
            }
            1 => {
                self.heard.block = Some((id, ends, payload.to_vec()));
                self.heard_block(head.flags & END_HEADERS != 0);
            }
            3 => self.stream(id).took_reset(),
            4 => self.heard_settings(head.flags, payload),
            6 if head.flags == 1 => {
                let ping = self.pings.pop_front().expect("an answer to a ping");
                assert_eq!(payload, ping, "another ping is answered");
            }
            6 => write_ping(&mut self.owed, *payload.first_chunk().expect("eight bytes"), true),
            7 => self.heard_goaway(numbers(payload)),
            8 if id == 0 => {
                self.room += i64::from(numbers::<1>(payload)[0]);
                assert!(self.room <= i64::from(CONNECTION_WINDOW), "more room than was announced");
            }
            8 => self.stream(id).took_room(i64::from(numbers::<1>(payload)[0])),
            9 => {
                if let Some((_, _, begun)) = &mut self.heard.block {
                    begun.extend_from_slice(payload);
                }
                self.heard_block(head.flags & END_HEADERS != 0);
            }
            kind => panic!("a frame of type {kind}"),
        }
    }

    fn heard_block(&mut self, is_whole: bool) {
        let Some((id, end, block)) = self.heard.block.take_if(|_| is_whole) else { return };
        let mut fields = FieldList::default();
        self.heard.fields.decode(&block, &mut fields, 1 << 16).expect("a field block");
        self.stream(id).took_fields(&fields, end);
    }

    fn heard_settings(&mut self, flags: u8, payload: &[u8]) {
        if flags == 0 {
            let settings = PeerSettings::read(payload).expect("sound settings");
            let room = settings.initial_window.map_or(self.stream_room, i64::from);
            let more = room - std::mem::replace(&mut self.stream_room, room);
            self.streams.values_mut().for_each(|seen| seen.room += more);
            return write_settings_ack(&mut self.owed);
        }
        let settings = self.settings.pop_front().expect("an answer to settings");
        self.frame_bytes_max = settings.frame_bytes_max.unwrap_or(self.frame_bytes_max);
        if let Some(window) = settings.initial_window {
            let more = i64::from(window) - std::mem::replace(&mut self.stream_window, i64::from(window));
            self.streams.values_mut().for_each(|seen| seen.window += more);
        }
    }

    fn heard_goaway(&mut self, [last, code]: [u32; 2]) {
        assert!(
            self.last_stream.is_none_or(|before| last <= before),
            "more streams are taken up than before"
        );
        self.last_stream = Some(last);
        self.given_up = Some(ErrorCode(code)).filter(|code| *code != ErrorCode::NO_ERROR);
    }

    fn stream(&mut self, id: u32) -> &mut StreamRecord {
        self.streams.get_mut(&id).unwrap_or_else(|| panic!("stream {id} was never opened"))
    }

    /// Returns the number of bytes that the client may send on a stream.
    pub fn room_of(&self, id: u32) -> usize {
        let room = self.streams.get(&id).map_or(0, |seen| seen.room);
        usize::try_from(room.min(self.room)).unwrap_or(0)
    }

    /// Returns frames with which the client makes everything end. Returns `None` if the server
    /// would misread them.
    pub fn last_words(&mut self) -> Option<Vec<u8>> {
        let mut words = std::mem::take(&mut self.owed);
        let is_between_frames =
            self.frames_said > 0 && self.said.rest.is_empty() && self.said.block.is_none();
        if self.is_wrong || !is_between_frames {
            return None;
        }
        let change = self.change_to_come();
        for (&id, seen) in self.streams.iter().filter(|(_, seen)| !seen.is_over()) {
            if seen.waits_for_ever() {
                write_reset(&mut words, id, ErrorCode::CANCEL);
                continue;
            }
            if seen.window + change < 1 << 30 {
                write_window_update(&mut words, id, 1 << 24);
            }
            if seen.may_say() {
                let end = FrameHead::of(FrameKind::Data, END_STREAM, id, 0);
                words.extend_from_slice(&end.to_bytes());
            }
        }
        if self.window < 1 << 30 {
            write_window_update(&mut words, 0, 1 << 28);
        }
        Some(words)
    }

    /// Returns the change of the streams' windows by settings that the server has not acknowledged
    /// yet.
    fn change_to_come(&self) -> i64 {
        let last = self.settings.iter().rev().find_map(|settings| settings.initial_window);
        last.map_or(0, |window| i64::from(window) - self.stream_window)
    }

    /// Returns the server's debts: ends of streams, answers to settings and pings.
    pub fn owing(&self) -> DueFrames<'_> {
        let is_taken_up = |id: u32| self.last_stream.is_none_or(|last| id <= last);
        let open = self.streams.iter().filter(|(id, seen)| is_taken_up(**id) && !seen.is_over());
        DueFrames { streams: open.collect(), settings: self.settings.len(), pings: self.pings.len() }
    }

    /// Checks that the server announced the end of its half, and finished its last frame.
    pub fn check_ended(&self) {
        assert!(self.last_stream.is_some(), "it ends without a word");
        assert!(self.heard.rest.is_empty() && self.heard.block.is_none(), "it ends within a frame");
    }
}

impl Direction {
    /// Takes the next whole frame.
    fn next(&mut self) -> Option<(FrameHead, Vec<u8>)> {
        let head = FrameHead::read(&self.rest)?;
        let payload = self.rest.get(FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + head.length)?.to_vec();
        self.rest.drain(..FRAME_HEAD_BYTES + head.length);
        Some((head, payload))
    }
}

fn numbers<const N: usize>(payload: &[u8]) -> [u32; N] {
    let (numbers, rest) = payload.as_chunks();
    assert!(rest.is_empty() && numbers.len() == N, "{} bytes for {N} numbers", payload.len());
    std::array::from_fn(|at| u32::from_be_bytes(numbers[at]))
}

/// Maximum bytes of control frames per frame of the client: one answer and two window updates.
const CONTROL_SHARE: usize = 40;

//! Client script from any bytes: one byte for the manner of reading and writing, then steps.
//!
//! The lower half of a step's first byte is its kind. The upper half is a choice, mostly among the
//! open streams. The first nine kinds are those of a sound client, which keeps to the windows. The
//! other kinds may break rules. Every input is therefore a connection, and a small change of the
//! input mostly gives a similar one.

use super::account::Account;
use crate::fuzzing::input::Input;
use crate::fuzzing::peer::{Manner, Next};
use shoal_http2::hpack::encode;
use shoal_http2::{
    ACK, END_HEADERS, END_STREAM, ErrorCode, FRAME_BYTES_MAX, FrameHead, FrameKind, PREFACE, write_goaway,
    write_ping, write_reset, write_window_update,
};

/// State of a script.
pub(super) struct Http2Script {
    input: Input,
    pub manner: Manner,
    /// The client has sent nothing forbidden, and nothing too often.
    pub is_sound: bool,
    /// The preface is sent outside the steps.
    has_preface: bool,
    last_stream: u32,
    resets: usize,
    /// Bytes of the previous step.
    before: Vec<u8>,
}

impl Http2Script {
    /// Creates the script of `data`.
    pub fn new(data: &[u8]) -> Self {
        let mut script = Self {
            input: Input::new(data),
            manner: Manner::new(0),
            is_sound: true,
            has_preface: true,
            last_stream: 0,
            resets: 0,
            before: Vec::new(),
        };
        let manner = script.input.byte().unwrap_or_default();
        script.manner = Manner::new(manner);
        (script.has_preface, script.is_sound) = (manner < 0xf0, manner < 0xf0);
        script
    }

    /// Returns the next step of a client with this record; `None` after the last.
    pub fn next(&mut self, account: &Account) -> Option<Next> {
        // The preface, unless the steps must send it.
        if std::mem::take(&mut self.has_preface) {
            return Some(Next::Say([PREFACE, &frame(FrameKind::Settings, 0, 0, b"")].concat()));
        }
        let step = self.input.byte()?;
        let (kind, choice) = (step & 15, step >> 4);
        let words = match kind {
            0..9 => self.sound(kind, choice, account)?,
            9..15 => {
                self.is_sound = false;
                self.wrong(kind, choice, account)?
            }
            _ => match choice {
                0 => return Some(Next::Release),
                1 => return Some(Next::Drain),
                2 => {
                    self.manner = Manner::new(self.input.byte()?);
                    return Some(Next::Rest { silent: 0, deaf: 0 });
                }
                3..8 => {
                    let turns = u32::from(self.input.byte()?);
                    let (silent, deaf) = [(turns, 0), (0, turns), (turns, turns)][usize::from(choice % 3)];
                    return Some(Next::Rest { silent, deaf });
                }
                _ => {
                    self.is_sound = false;
                    let times = usize::from(self.input.byte()?);
                    self.before.repeat(times.min(REPEATED_BYTES_MAX / self.before.len().max(1)))
                }
            },
        };
        self.before.clone_from(&words);
        Some(Next::Say(words))
    }

    fn sound(&mut self, kind: u8, choice: u8, account: &Account) -> Option<Vec<u8>> {
        let stream = stream(choice, account);
        let mut words = Vec::new();
        match kind {
            0 | 1 => {
                let bytes = usize::from(choice) * 17 * self.input.number()? / 64;
                words = self.ask("GET", &format!("/{}/{bytes}", ["hit", "memory"][usize::from(kind)]));
            }
            2 => {
                let (method, path) = ASKED[usize::from(choice)];
                words = self.ask(method, path);
            }
            3 => {
                let (bytes, end) = (self.input.number()?, choice & 1 != 0);
                words = body(stream.unwrap_or(0), bytes, end, account);
            }
            4 => {
                if let Some(stream) = stream {
                    self.resets += 1;
                    self.is_sound &= self.resets <= RESETS_SOUND;
                    write_reset(&mut words, stream, ErrorCode::CANCEL);
                }
            }
            5 => {
                let more = self.input.number()? as u32 + 1;
                write_window_update(&mut words, stream.filter(|_| choice < 12).unwrap_or(0), more);
            }
            6 => words = settings(&[(4, self.input.number()? as u32 * 2)]),
            7 => words = settings(&[(4, u32::from(choice)), (5, 16_384 + self.input.number()? as u32)]),
            _ => write_ping(&mut words, [choice; 8], false),
        }
        Some(words)
    }

    /// Returns bytes that are wrong, out of place, or both.
    fn wrong(&mut self, kind: u8, choice: u8, account: &Account) -> Option<Vec<u8>> {
        let stream = stream(choice, account).unwrap_or(1);
        Some(match kind {
            // A block of any fields, on a new stream or an open one.
            9 => {
                let flags = self.input.byte()?;
                let stream = if choice < 12 { self.new_stream() } else { stream };
                let block = self.input.some();
                frame(FrameKind::Headers, flags, stream, &block)
            }
            10 => {
                let flags = self.input.byte()?;
                frame(
                    FrameKind::Continuation,
                    flags,
                    if choice == 15 { stream } else { self.last_stream },
                    &self.input.some(),
                )
            }
            // DATA of any kind, regardless of the windows.
            11 => {
                let (flags, bytes) = (self.input.byte()?, self.input.number()? % (FRAME_BYTES_MAX + 1));
                frame(FrameKind::Data, flags, stream, &vec![choice; bytes])
            }
            // A frame of any kind on any stream.
            12 => {
                let [kind, flags, id] = [self.input.byte()?, self.input.byte()?, self.input.byte()?];
                let payload = self.input.some();
                let stream = if choice < 8 { u32::from(id) } else { stream };
                let head = FrameHead { length: payload.len(), kind: kind % 12, flags, stream };
                [&head.to_bytes()[..], &payload].concat()
            }
            // Settings and window updates of any size, and answers to nothing.
            13 => {
                let (first, second) = (self.input.number()? as u32, self.input.number()? as u32);
                let value = first << 16 | second;
                let mut words = Vec::new();
                match choice {
                    0..8 => words = settings(&[(u16::from(choice), value)]),
                    8..11 => write_window_update(&mut words, stream, value),
                    11 => write_window_update(&mut words, 0, value),
                    12 => write_ping(&mut words, *b"shoal by", true),
                    13 => write_goaway(&mut words, first, ErrorCode(second)),
                    14 => words = frame(FrameKind::Settings, ACK, 0, b""),
                    _ => write_reset(&mut words, first, ErrorCode(second)),
                }
                words
            }
            _ => self.input.some(),
        })
    }

    /// Returns a request. Methods with a body leave the stream open.
    fn ask(&mut self, method: &str, path: &str) -> Vec<u8> {
        let stream = self.new_stream();
        let has_body = matches!(method, "POST" | "CONNECT");
        let mut block = Vec::new();
        let mut field =
            |name: &str, value: &str| encode::field(&mut block, name.as_bytes(), value.as_bytes());
        field(":method", method);
        if method == "CONNECT" {
            field(":authority", path);
        } else {
            field(":scheme", "http");
            field(":authority", "test");
            field(":path", path);
        }
        if path == "/count/10" {
            field("content-length", "10");
        }
        if path == "/echo/expected" {
            field("expect", "100-continue");
        }
        let end = if has_body { 0 } else { END_STREAM };
        frame(FrameKind::Headers, END_HEADERS | end, stream, &block)
    }

    fn new_stream(&mut self) -> u32 {
        self.last_stream = if self.last_stream == 0 { 1 } else { self.last_stream + 2 };
        self.is_sound &= self.last_stream < STREAMS_SOUND;
        self.last_stream
    }
}

/// Returns one of the opened streams, counted from the last.
fn stream(choice: u8, account: &Account) -> Option<u32> {
    account.streams.keys().rev().nth(usize::from(choice) % account.streams.len().max(1)).copied()
}

/// Returns part of a body in frames, within the windows.
fn body(stream: u32, bytes: usize, end: bool, account: &Account) -> Vec<u8> {
    if !account.streams.get(&stream).is_some_and(|seen| seen.may_say()) {
        return Vec::new();
    }
    let body = vec![b'b'; bytes.min(account.room_of(stream))];
    let pieces: Vec<&[u8]> = if body.is_empty() { vec![&[]] } else { body.chunks(FRAME_BYTES_MAX).collect() };
    let last = pieces.len() - 1;
    let frames = pieces.into_iter().enumerate().map(|(at, piece)| {
        let flags = if end && at == last { END_STREAM } else { 0 };
        frame(FrameKind::Data, flags, stream, piece)
    });
    frames.collect::<Vec<_>>().concat()
}

fn settings(all: &[(u16, u32)]) -> Vec<u8> {
    let payload = all.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(FrameKind::Settings, 0, 0, &payload.collect::<Vec<u8>>())
}

fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&FrameHead::of(kind, flags, stream, payload.len()).to_bytes()[..], payload].concat()
}

/// Requests other than those for a number of bytes.
const ASKED: [(&str, &str); 16] = [
    ("POST", "/count"),
    ("POST", "/echo"),
    ("POST", "/first"),
    ("POST", "/memory/100000"),
    ("POST", "/never"),
    ("POST", "/count/10"),
    ("POST", "/echo/expected"),
    ("CONNECT", "test:443"),
    ("GET", "/frames"),
    ("GET", "/fails"),
    ("GET", "/trailers"),
    ("GET", "/hints"),
    ("GET", "/gated"),
    ("GET", "/never"),
    ("GET", "/304"),
    ("HEAD", "/memory/500"),
];

/// Maximum number of bytes of the previous step that a step repeats.
const REPEATED_BYTES_MAX: usize = 64 * 1024;

/// Limits of a sound client: number of resets, and highest stream. Above them the server may
/// refuse.
const RESETS_SOUND: usize = 10;
const STREAMS_SOUND: u32 = 500;

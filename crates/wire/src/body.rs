//! Body of a request, in any framing.

use crate::BodyFraming;
use crate::chunk::ChunkDecoder;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;

/// Decoder of one body at the front of a connection's buffer; bytes after the body stay untouched.
#[derive(Debug)]
pub enum BodyDecoder {
    /// Body by length: this number of bytes is still to come.
    Length(u64),
    /// Body in chunks.
    Chunked(ChunkDecoder),
}

/// Next piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyEvent {
    /// Data, never empty.
    Data(Bytes),
    /// The body has ended; with its trailers, if any.
    End(Option<HeaderMap>),
    /// The buffer holds nothing more of the body.
    NeedMore,
}

/// Body with invalid framing. Bytes after it on the connection cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedBody(pub &'static str);

impl std::fmt::Display for MalformedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for MalformedBody {}

impl BodyDecoder {
    /// Makes a decoder for a body with this framing.
    pub fn new(framing: BodyFraming) -> Self {
        match framing {
            BodyFraming::None => Self::Length(0),
            BodyFraming::Length(length) => Self::Length(length),
            BodyFraming::Chunked => Self::Chunked(ChunkDecoder::new()),
        }
    }

    /// Takes the next piece off `buffer`. After the end each call returns [`BodyEvent::End`].
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<BodyEvent, MalformedBody> {
        match self {
            Self::Length(0) => Ok(BodyEvent::End(None)),
            Self::Length(_) if buffer.is_empty() => Ok(BodyEvent::NeedMore),
            Self::Length(remaining) => {
                let count = usize::try_from(*remaining).unwrap_or(usize::MAX).min(buffer.len());
                *remaining -= count as u64;
                Ok(BodyEvent::Data(buffer.split_to(count).freeze()))
            }
            Self::Chunked(chunks) => chunks.decode(buffer),
        }
    }

    /// Returns `true` if the body was read to its end.
    pub fn is_ended(&self) -> bool {
        match self {
            Self::Length(remaining) => *remaining == 0,
            Self::Chunked(chunks) => chunks.is_ended(),
        }
    }

    /// Returns the bytes of data still to come, when known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            Self::Length(remaining) => Some(*remaining),
            Self::Chunked(_) => None,
        }
    }
}

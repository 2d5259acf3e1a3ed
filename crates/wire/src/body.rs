//! The body of a request, however it is framed.

use crate::BodyFraming;
use crate::chunk::ChunkDecoder;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;

/// Reads one body off the front of a connection's buffer and leaves what follows it untouched.
#[derive(Debug)]
pub enum BodyDecoder {
    /// So many bytes are still to come.
    Length(u64),
    /// In chunks.
    Chunked(ChunkDecoder),
}

/// The next piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Data, never empty.
    Data(Bytes),
    /// The body is at its end; trailers when there were any.
    End(Option<HeaderMap>),
    /// Nothing more in the buffer.
    NeedMore,
}

/// A body whose framing makes no sense. What follows it on the connection cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl BodyDecoder {
    /// A decoder for a body framed so.
    pub fn new(framing: BodyFraming) -> Self {
        match framing {
            BodyFraming::None => Self::Length(0),
            BodyFraming::Length(length) => Self::Length(length),
            BodyFraming::Chunked => Self::Chunked(ChunkDecoder::new()),
        }
    }

    /// Takes the next piece off `buffer`. After the end it goes on saying so.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Decoded, Malformed> {
        match self {
            Self::Length(0) => Ok(Decoded::End(None)),
            Self::Length(_) if buffer.is_empty() => Ok(Decoded::NeedMore),
            Self::Length(remaining) => {
                let count = usize::try_from(*remaining).unwrap_or(usize::MAX).min(buffer.len());
                *remaining -= count as u64;
                Ok(Decoded::Data(buffer.split_to(count).freeze()))
            }
            Self::Chunked(chunks) => chunks.decode(buffer),
        }
    }

    /// Whether the body was read to its end.
    pub fn is_ended(&self) -> bool {
        match self {
            Self::Length(remaining) => *remaining == 0,
            Self::Chunked(chunks) => chunks.is_ended(),
        }
    }

    /// Bytes of data still to come, when that is known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            Self::Length(remaining) => Some(*remaining),
            Self::Chunked(_) => None,
        }
    }
}

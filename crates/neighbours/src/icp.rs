//! Internet Cache Protocol, version 2 (RFC 2186 and 2187): one question and one answer by UDP.
//!
//! ```text
//!  0 opcode | 1 version = 2 | 2..4 length of all | 4..8 request number
//!  8..12 options | 12..16 option data | 16..20 sender's address, 0
//! 20.. QUERY: 4 bytes of the requester's address, then URL and NUL; others: URL and NUL
//! ```
//!
//! An answer is the question without four bytes. Objects within answers (HIT_OBJ) are neither sent
//! nor taken, and SRC_RTT is not asked for.

use crate::reader::Reader;
use std::fmt;

/// Meaning of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcpOpcode {
    /// Question: is this URL held?
    Query,
    /// The URL is held.
    Hit,
    /// The URL is not held, and may be asked for.
    Miss,
    /// The question was not understood.
    Error,
    /// The URL is not held, and shall not be asked for.
    MissNoFetch,
    /// The asker is not served.
    Denied,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IcpMessage<'a> {
    /// Meaning of the message.
    pub opcode: IcpOpcode,
    /// Number chosen by the asker and repeated in the answer.
    pub number: u32,
    /// The URL.
    pub url: &'a str,
}

/// Reason for dropping a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcpError {
    /// The length in the head is not the datagram's, or no message can be so long or short.
    Length,
    /// Another version than 2.
    Version,
    /// A meaning that Shoal does not take part in.
    Opcode,
    /// The URL is empty, not ASCII without blanks, or not ended by the only NUL.
    Url,
}

impl IcpOpcode {
    /// Returns the number of the opcode.
    pub fn code(self) -> u8 {
        match self {
            Self::Query => 1,
            Self::Hit => 2,
            Self::Miss => 3,
            Self::Error => 4,
            Self::MissNoFetch => 21,
            Self::Denied => 22,
        }
    }

    fn of(code: u8) -> Option<Self> {
        let all = [Self::Query, Self::Hit, Self::Miss, Self::Error, Self::MissNoFetch, Self::Denied];
        all.into_iter().find(|opcode| opcode.code() == code)
    }
}

impl<'a> IcpMessage<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// Names the part that is wrong.
    pub fn read(datagram: &'a [u8]) -> Result<Self, IcpError> {
        let mut reader = Reader::new(datagram);
        let mut word = || reader.u32().ok_or(IcpError::Length);
        let (head, number) = (word()?, word()?);
        let (_options, _option_data, _sender) = (word()?, word()?, word()?);
        let [code, version, length @ ..] = head.to_be_bytes();
        if usize::from(u16::from_be_bytes(length)) != datagram.len() || datagram.len() > ICP_BYTES_MAX {
            return Err(IcpError::Length);
        }
        if version != ICP_VERSION {
            return Err(IcpError::Version);
        }
        let opcode = IcpOpcode::of(code).ok_or(IcpError::Opcode)?;
        let from = if opcode == IcpOpcode::Query { QUERY_HEAD_BYTES } else { HEAD_BYTES };
        let url = datagram.get(from..).ok_or(IcpError::Length)?;
        let url = url.strip_suffix(&[0]).ok_or(IcpError::Url)?;
        if url.is_empty() || !url.iter().all(u8::is_ascii_graphic) {
            return Err(IcpError::Url);
        }
        let url = std::str::from_utf8(url).map_err(|_| IcpError::Url)?;
        Ok(Self { opcode, number, url })
    }

    /// Writes the message. Returns `None` if the URL cannot be sent.
    pub fn write(&self) -> Option<Vec<u8>> {
        if self.url.is_empty() || !self.url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let from = if self.opcode == IcpOpcode::Query { QUERY_HEAD_BYTES } else { HEAD_BYTES };
        let length = from + self.url.len() + 1;
        if length > ICP_BYTES_MAX {
            return None;
        }
        let mut datagram = vec![0; from];
        datagram[0] = self.opcode.code();
        datagram[1] = ICP_VERSION;
        datagram[2..4].copy_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
        datagram[4..8].copy_from_slice(&self.number.to_be_bytes());
        datagram.extend(self.url.as_bytes());
        datagram.push(0);
        debug_assert_eq!(datagram.len(), length);
        Some(datagram)
    }

    /// Returns the answer to this question.
    pub fn answer(&self, opcode: IcpOpcode) -> Self {
        debug_assert!(
            self.opcode == IcpOpcode::Query && opcode != IcpOpcode::Query,
            "one question, one answer"
        );
        Self { opcode, ..self.clone() }
    }
}

impl fmt::Display for IcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "its length is wrong",
            Self::Version => "its version is not 2",
            Self::Opcode => "its opcode is not used here",
            Self::Url => "its URL cannot be read",
        })
    }
}

impl std::error::Error for IcpError {}

/// Longest message, in bytes (RFC 2186).
pub const ICP_BYTES_MAX: usize = 16_384;
const ICP_VERSION: u8 = 2;
const HEAD_BYTES: usize = 20;
const QUERY_HEAD_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_have_the_bytes_of_squid() {
        let query = IcpMessage { opcode: IcpOpcode::Query, number: 1, url: "http://a/" };
        let bytes = query.write().expect("it can be sent");
        assert_eq!(bytes.len(), 34);
        assert_eq!(&bytes[..8], [1, 2, 0, 0x22, 0, 0, 0, 1]);
        assert_eq!(&bytes[8..24], [0; 16]);
        assert_eq!(&bytes[24..], b"http://a/\0");
        let hit = query.answer(IcpOpcode::Hit).write().expect("it can be sent");
        assert_eq!(hit.len(), 30);
        assert_eq!(&hit[..8], [2, 2, 0, 0x1e, 0, 0, 0, 1]);
        assert_eq!(IcpMessage::read(&hit), Ok(query.answer(IcpOpcode::Hit)));
    }

    #[test]
    fn bad_datagrams_are_refused() {
        let good =
            IcpMessage { opcode: IcpOpcode::Query, number: 7, url: "http://a/" }.write().expect("good");
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for (bytes, expected) in [
            (with(1, 3), IcpError::Version),
            (with(0, 23), IcpError::Opcode),
            (with(0, 10), IcpError::Opcode),
            (with(3, 0x21), IcpError::Length),
            (with(26, 0), IcpError::Url),
            (with(26, b' '), IcpError::Url),
            (with(26, 0xff), IcpError::Url),
            (with(33, b'a'), IcpError::Url),
            (good[..19].to_vec(), IcpError::Length),
            (Vec::new(), IcpError::Length),
            (vec![0; 70_000], IcpError::Length),
        ] {
            assert_eq!(IcpMessage::read(&bytes), Err(expected), "{bytes:02x?}");
        }
    }

    #[test]
    fn urls_that_cannot_be_sent_are_not() {
        for url in ["", "http://a/ b", "http://ä/", "a\0", &"a".repeat(ICP_BYTES_MAX)] {
            assert_eq!(IcpMessage { opcode: IcpOpcode::Query, number: 0, url }.write(), None);
        }
    }

    proptest! {
        #[test]
        fn messages_are_read_as_written(number: u32, url in "[!-~]{1,300}", at in 0usize..6) {
            let opcode = [IcpOpcode::Query, IcpOpcode::Hit, IcpOpcode::Miss, IcpOpcode::Error,
                IcpOpcode::MissNoFetch, IcpOpcode::Denied][at];
            let message = IcpMessage { opcode, number, url: &url };
            let bytes = message.write().expect("it can be sent");
            prop_assert_eq!(IcpMessage::read(&bytes), Ok(message));
        }

        #[test]
        fn an_answer_is_shorter_than_its_question(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = IcpMessage::read(&bytes) && message.opcode == IcpOpcode::Query {
                let answer = message.answer(IcpOpcode::Hit).write().expect("it was read");
                prop_assert!(answer.len() < bytes.len());
            }
        }
    }
}

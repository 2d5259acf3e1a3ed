//! Hyper Text Caching Protocol (RFC 2756): questions about URLs with method and fields, by UDP.
//!
//! ```text
//! HEADER 0..2 length of all | 2 major = 0 | 3 minor
//! DATA   0..2 length of DATA | 2 opcode×16 + response | 3 F1×2 + RR | 4..8 transaction | op-data
//! AUTH   0..2 length of AUTH, 2 without a signature | see `auth`
//! ```
//!
//! A COUNTSTR is a length of two bytes and the bytes. TST asks with a SPECIFIER (method, URI,
//! version, fields: four COUNTSTR). The answer holds three COUNTSTR, empty here: Squid drops a miss
//! with one, as the RFC has it. CLR asks with two bytes, the reason in the low four bits, and a
//! SPECIFIER. Minor 1 is written. Minor 0 is read in both layouts: old Squids swap the bits of the
//! third and fourth byte of DATA.

mod auth;
#[cfg(test)]
mod tests;

pub use auth::{HtcpKey, HtcpKeyError, SIGNATURE_SECONDS, SignatureError, SocketPair};

use crate::reader::Reader;
use std::fmt;

/// Purpose of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HtcpOpcode {
    /// Is the neighbour there?
    Nop,
    /// Is the URL held?
    Test,
    /// Report changes of the cache. Not built.
    Monitor,
    /// Change the fields of a stored response. Not built.
    Set,
    /// Remove the URL.
    Clear,
}

/// A message without its signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HtcpMessage<'a> {
    /// Number chosen by the asker and repeated in the answer.
    pub transaction: u32,
    /// Content of the message.
    pub content: HtcpContent<'a>,
}

/// Content of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HtcpContent<'a> {
    /// A question or an order.
    Ask {
        /// Purpose of the message.
        opcode: HtcpOpcode,
        /// `true` if the asker waits for an answer.
        wants_answer: bool,
        /// Resource of TST and CLR.
        specifier: Option<HtcpSpecifier<'a>>,
    },
    /// An answer.
    Answer {
        /// Purpose of the question.
        opcode: HtcpOpcode,
        /// Response code.
        response: u8,
        /// `true` if the code is about the message, and not about the resource.
        is_about_message: bool,
    },
}

/// Resource of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HtcpSpecifier<'a> {
    /// Method.
    pub method: &'a str,
    /// URI.
    pub uri: &'a str,
    /// HTTP version, such as `1/1` or `HTTP/1.1`.
    pub version: &'a str,
    /// Lines of the request's fields.
    pub fields: &'a [u8],
}

/// A datagram, taken apart.
#[derive(Clone, Debug)]
pub struct HtcpDatagram<'a> {
    /// The message.
    pub message: HtcpMessage<'a>,
    /// `true` if the datagram has a signature, which [`HtcpKey::verify`] judges.
    pub is_signed: bool,
    minor: u8,
    data: &'a [u8],
    auth: &'a [u8],
}

/// Reason for dropping a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HtcpError {
    /// Lengths contradict each other or the datagram.
    Length,
    /// Another major version than 0, or a minor one above 1.
    Version,
    /// An unknown opcode.
    Opcode,
    /// Method, URI or version cannot be read.
    Specifier,
}

impl HtcpOpcode {
    fn code(self) -> u8 {
        match self {
            Self::Nop => 0,
            Self::Test => 1,
            Self::Monitor => 2,
            Self::Set => 3,
            Self::Clear => 4,
        }
    }

    fn of(code: u8) -> Option<Self> {
        let all = [Self::Nop, Self::Test, Self::Monitor, Self::Set, Self::Clear];
        all.into_iter().find(|opcode| opcode.code() == code)
    }
}

impl<'a> HtcpDatagram<'a> {
    /// Takes a datagram apart.
    ///
    /// # Errors
    /// Names the part that is wrong.
    pub fn read(datagram: &'a [u8]) -> Result<Self, HtcpError> {
        let mut reader = Reader::new(datagram);
        let length = reader.u16().ok_or(HtcpError::Length)?;
        if usize::from(length) != datagram.len() {
            return Err(HtcpError::Length);
        }
        let (major, minor) = (reader.u8().ok_or(HtcpError::Length)?, reader.u8().ok_or(HtcpError::Length)?);
        if major != 0 || minor > MINOR {
            return Err(HtcpError::Version);
        }
        let data = sized(&mut reader, DATA_HEAD_BYTES)?;
        let auth = sized(&mut reader, AUTH_BYTES_MIN)?;
        if !reader.is_empty() {
            return Err(HtcpError::Length);
        }
        let message = HtcpMessage::read(data, minor)?;
        Ok(Self { message, is_signed: auth.len() > AUTH_BYTES_MIN, minor, data, auth })
    }
}

impl<'a> HtcpMessage<'a> {
    /// Returns the question for a URL, with the lines of its fields.
    pub fn test(transaction: u32, uri: &'a str, fields: &'a [u8]) -> Self {
        let specifier = HtcpSpecifier { method: "GET", uri, version: "1/1", fields };
        Self::ask(transaction, HtcpOpcode::Test, Some(specifier))
    }

    /// Returns the order to remove a URL.
    pub fn clear(transaction: u32, uri: &'a str) -> Self {
        let specifier = HtcpSpecifier { method: "GET", uri, version: "1/1", fields: b"" };
        Self::ask(transaction, HtcpOpcode::Clear, Some(specifier))
    }

    /// Returns the question for life.
    pub fn nop(transaction: u32) -> Self {
        Self::ask(transaction, HtcpOpcode::Nop, None)
    }

    fn ask(transaction: u32, opcode: HtcpOpcode, specifier: Option<HtcpSpecifier<'a>>) -> Self {
        Self { transaction, content: HtcpContent::Ask { opcode, wants_answer: true, specifier } }
    }

    /// Returns the answer about the resource of a question.
    pub fn answer(transaction: u32, opcode: HtcpOpcode, response: u8) -> Self {
        let content = HtcpContent::Answer { opcode, response, is_about_message: false };
        Self { transaction, content }
    }

    /// Returns the answer about a question that is not served as such.
    pub fn refusal(transaction: u32, opcode: HtcpOpcode, response: u8) -> Self {
        Self { transaction, content: HtcpContent::Answer { opcode, response, is_about_message: true } }
    }

    /// Writes the datagram, with a signature if there is a key. Returns `None` if the message is
    /// too long.
    pub fn write(&self, signed: Option<(&HtcpKey, SocketPair, u32)>) -> Option<Vec<u8>> {
        let data = self.write_data()?;
        let auth = match signed {
            Some((key, ends, now)) => key.sign(&data, MINOR, ends, now)?,
            None => (AUTH_BYTES_MIN as u16).to_be_bytes().to_vec(),
        };
        let length = HEAD_BYTES + data.len() + auth.len();
        if length > HTCP_BYTES_MAX {
            return None;
        }
        let mut datagram = u16::try_from(length).ok()?.to_be_bytes().to_vec();
        datagram.extend([0, MINOR]);
        datagram.extend(data);
        datagram.extend(auth);
        debug_assert_eq!(datagram.len(), length);
        Some(datagram)
    }

    fn write_data(&self) -> Option<Vec<u8>> {
        let mut data = vec![0, 0];
        match &self.content {
            HtcpContent::Ask { opcode, wants_answer, specifier } => {
                data.extend([opcode.code() << 4, u8::from(*wants_answer) << 1]);
                data.extend(self.transaction.to_be_bytes());
                if *opcode == HtcpOpcode::Clear {
                    data.extend([0, 0]);
                }
                debug_assert_eq!(specifier.is_some(), has_specifier(*opcode));
                for text in specifier.iter().flat_map(HtcpSpecifier::parts) {
                    push_counted(&mut data, text)?;
                }
            }
            HtcpContent::Answer { opcode, response, is_about_message } => {
                data.extend([opcode.code() << 4 | response & 0xf, u8::from(*is_about_message) << 1 | 1]);
                data.extend(self.transaction.to_be_bytes());
                if *opcode == HtcpOpcode::Test && !is_about_message {
                    data.extend([0; 6]);
                }
            }
        }
        let length = u16::try_from(data.len()).ok()?;
        data[..2].copy_from_slice(&length.to_be_bytes());
        Some(data)
    }

    /// Reads DATA.
    fn read(data: &'a [u8], minor: u8) -> Result<Self, HtcpError> {
        let mut reader = Reader::new(&data[2..]);
        let (first, second) = (reader.u8().ok_or(HtcpError::Length)?, reader.u8().ok_or(HtcpError::Length)?);
        let (code, response, is_answer, flag) = head_bits(first, second, minor);
        let opcode = HtcpOpcode::of(code).ok_or(HtcpError::Opcode)?;
        let transaction = reader.u32().ok_or(HtcpError::Length)?;
        if is_answer {
            let content = HtcpContent::Answer { opcode, response, is_about_message: flag };
            return Ok(Self { transaction, content });
        }
        if opcode == HtcpOpcode::Clear {
            reader.u16().ok_or(HtcpError::Length)?;
        }
        let specifier = match has_specifier(opcode) {
            true => Some(HtcpSpecifier::read(&mut reader)?),
            false => None,
        };
        Ok(Self { transaction, content: HtcpContent::Ask { opcode, wants_answer: flag, specifier } })
    }
}

impl<'a> HtcpSpecifier<'a> {
    fn parts(&self) -> [&[u8]; 4] {
        [self.method.as_bytes(), self.uri.as_bytes(), self.version.as_bytes(), self.fields]
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, HtcpError> {
        let mut text = || {
            let bytes = reader.counted().ok_or(HtcpError::Length)?;
            let is_plain = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic);
            let text = std::str::from_utf8(bytes).map_err(|_| HtcpError::Specifier)?;
            Some(text).filter(|_| is_plain).ok_or(HtcpError::Specifier)
        };
        let (method, uri, version) = (text()?, text()?, text()?);
        let fields = reader.counted().ok_or(HtcpError::Length)?;
        Ok(Self { method, uri, version, fields })
    }
}

impl fmt::Display for HtcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "its lengths are wrong",
            Self::Version => "its version is neither 0.0 nor 0.1",
            Self::Opcode => "its opcode is unknown",
            Self::Specifier => "its method, URI or version cannot be read",
        })
    }
}

impl std::error::Error for HtcpError {}

/// Takes a section that begins with its own length.
fn sized<'a>(reader: &mut Reader<'a>, least: usize) -> Result<&'a [u8], HtcpError> {
    let length = usize::from(reader.clone().u16().ok_or(HtcpError::Length)?);
    let section = reader.take(length).ok_or(HtcpError::Length)?;
    Some(section).filter(|_| length >= least).ok_or(HtcpError::Length)
}

/// Returns opcode, response, RR and F1 of the third and fourth byte of DATA. Old Squids write minor
/// 0 with the halves swapped and the flags in the highest bits.
fn head_bits(first: u8, second: u8, minor: u8) -> (u8, u8, bool, bool) {
    let flags_are_high = second & 0x03 == 0 && second & 0xc0 != 0;
    let halves_are_swapped = second == 0 && first & 0xf0 == 0;
    match minor == 0 && (flags_are_high || halves_are_swapped) {
        true => (first & 0xf, first >> 4, second & 0x80 != 0, second & 0x40 != 0),
        false => (first >> 4, first & 0xf, second & 1 != 0, second & 2 != 0),
    }
}

fn has_specifier(opcode: HtcpOpcode) -> bool {
    matches!(opcode, HtcpOpcode::Test | HtcpOpcode::Clear)
}

fn push_counted(out: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    out.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
    out.extend(text);
    Some(())
}

/// Responses of TST.
pub const TEST_HELD: u8 = 0;
/// The URL is not held.
pub const TEST_NOT_HELD: u8 = 1;
/// Responses of CLR.
pub const CLEAR_GONE: u8 = 0;
/// The URL is held and stays.
pub const CLEAR_KEPT: u8 = 1;
/// The URL was not held.
pub const CLEAR_NOT_HELD: u8 = 2;
/// Responses about the message.
pub const AUTHENTICATION_NEEDED: u8 = 0;
/// The signature is wrong.
pub const AUTHENTICATION_FAILED: u8 = 1;
/// The opcode is not built.
pub const OPCODE_NOT_BUILT: u8 = 2;

/// Longest message, in bytes.
pub const HTCP_BYTES_MAX: usize = 16_384;
const MINOR: u8 = 1;
const HEAD_BYTES: usize = 4;
const DATA_HEAD_BYTES: usize = 8;
const AUTH_BYTES_MIN: usize = 2;

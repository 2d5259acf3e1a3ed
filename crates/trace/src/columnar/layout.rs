//! Reads a trace in columns in place.

use super::{HEADER_BYTES, Header, MAGIC, Section, TAIL_BYTES, VERSION, absent};
use crate::outcome::Outcome;
use crate::record::Record;
use crate::scan::Reason;
use shoal_core::Key;
use std::fmt;

/// Places of all sections in a trace's bytes. The caller keeps the bytes, read or mapped.
#[derive(Clone, Debug)]
pub struct Layout {
    header: Header,
    starts: [usize; Section::ALL.len()],
}

/// Reasons why bytes are not a trace in columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Damage {
    /// The bytes begin with something else.
    NotATrace,
    /// The trace has another version.
    Version(u32),
    /// The header's checksum does not match the header, or its numbers make no sense.
    Header,
    /// The file is shorter or longer than its header says.
    Length {
        /// Length by the header, in bytes.
        expected: u64,
        /// Actual length, in bytes.
        found: u64,
    },
    /// The checksum at the end does not match the columns.
    Checksum,
}

impl Layout {
    /// Checks a whole trace: its header, its length and its checksum.
    ///
    /// # Errors
    /// Returns the damage found.
    pub fn of(bytes: &[u8]) -> Result<Self, Damage> {
        let layout = Self::of_header(bytes)?;
        let body = bytes.len() - TAIL_BYTES;
        let sum = word(bytes, body, 8).ok_or(Damage::Checksum)?;
        if sum != checksum(&bytes[HEADER_BYTES..body]) {
            return Err(Damage::Checksum);
        }
        Ok(layout)
    }

    /// Returns the length of the whole trace by its header, or `None` when the bytes do not begin
    /// with a header.
    pub(crate) fn length(bytes: &[u8]) -> Option<u64> {
        match Self::of_header(bytes) {
            Ok(_) => Some(bytes.len() as u64),
            Err(Damage::Length { expected, .. }) => Some(expected),
            Err(_) => None,
        }
    }

    /// Checks only the header and the length. This costs nothing for a mapped file.
    ///
    /// # Errors
    /// Returns the damage found.
    pub fn of_header(bytes: &[u8]) -> Result<Self, Damage> {
        if !bytes.starts_with(MAGIC) {
            return Err(Damage::NotATrace);
        }
        let head = bytes.get(..HEADER_BYTES).ok_or(Damage::Header)?;
        let version = word(head, 8, 4).ok_or(Damage::Header)? as u32;
        if version != VERSION {
            return Err(Damage::Version(version));
        }
        if word(head, HEADER_BYTES - 8, 8) != Some(checksum(&head[..HEADER_BYTES - 8])) {
            return Err(Damage::Header);
        }
        let header = header(head).ok_or(Damage::Header)?;
        let (starts, end) = places(&header).ok_or(Damage::Header)?;
        if end + TAIL_BYTES as u64 != bytes.len() as u64 {
            return Err(Damage::Length { expected: end + TAIL_BYTES as u64, found: bytes.len() as u64 });
        }
        Ok(Self { header, starts })
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.header.requests
    }

    /// Returns request `number`, counted from 0. `bytes` must be the bytes that this layout was
    /// made from.
    ///
    /// # Errors
    /// Fails when a number in the request leads nowhere.
    pub fn record<'a>(&self, bytes: &'a [u8], number: u64) -> Result<Record<'a>, Reason> {
        let header = &self.header;
        let cell = |section| self.cell(bytes, section, number).ok_or("there is no such request");
        let given = |value: u64, width: u8| (value != absent(width)).then_some(value);
        let client = match given(cell(Section::Client)?, header.client_width) {
            Some(client) => Some(
                self.name(bytes, Section::ClientEnds, Section::ClientText, client)
                    .ok_or("the client is none of those listed")?
                    .into(),
            ),
            None => None,
        };
        let marks = cell(Section::Marks)?;
        let method = match marks & 0x3F {
            0 | 0x3F => None,
            method => Some(
                self.name(bytes, Section::MethodEnds, Section::MethodText, method - 1)
                    .ok_or("the method is none of those listed")?
                    .into(),
            ),
        };
        Ok(Record {
            time_ms: given(cell(Section::Time)?, header.time_width)
                .map(|offset| header.base_ms.saturating_add(offset)),
            client,
            method,
            status: Some(cell(Section::Status)? as u16).filter(|status| *status != 0),
            url: self.url(bytes, cell(Section::Object)?).ok_or("the object is none of those listed")?.into(),
            bytes: given(cell(Section::Bytes)?, header.bytes_width),
            outcome: match marks >> 6 {
                1 => Some(Outcome::Hit),
                2 => Some(Outcome::Miss),
                3 => Some(Outcome::Bypass),
                _ => None,
            },
            ttl_seconds: None,
        })
    }

    fn url(&self, bytes: &[u8], object: u64) -> Option<String> {
        let host = self.cell(bytes, Section::HostOf, object)?;
        let split = self.cell(bytes, Section::Split, object)? as usize;
        let text = self.name(bytes, Section::ObjectEnds, Section::ObjectText, object)?;
        let host = self.name(bytes, Section::HostEnds, Section::HostText, host)?;
        let (before, after) = text.split_at_checked(split)?;
        let mut url = String::with_capacity(text.len() + host.len());
        [before, host, after].into_iter().for_each(|part| url.push_str(part));
        Some(url)
    }

    fn name<'a>(&self, bytes: &'a [u8], ends: Section, text: Section, number: u64) -> Option<&'a str> {
        let end = self.cell(bytes, ends, number)?;
        let start = match number.checked_sub(1) {
            Some(before) => self.cell(bytes, ends, before)?,
            None => 0,
        };
        if start > end || end > self.header.shape(text).0 {
            return None;
        }
        let place = self.starts[text as usize];
        std::str::from_utf8(bytes.get(place + start as usize..place + end as usize)?).ok()
    }

    #[inline]
    fn cell(&self, bytes: &[u8], section: Section, number: u64) -> Option<u64> {
        let (cells, width) = self.header.shape(section);
        if number >= cells {
            return None;
        }
        word(bytes, self.starts[section as usize] + (number * width) as usize, width as usize)
    }
}

/// Returns the start of each section and the end of the last one, or `None` when the sum overflows.
pub(super) fn places(header: &Header) -> Option<([usize; Section::ALL.len()], u64)> {
    let mut starts = [0; Section::ALL.len()];
    let mut at = HEADER_BYTES as u64;
    for section in Section::ALL {
        starts[section as usize] = usize::try_from(at).ok()?;
        let (cells, width) = header.shape(section);
        at = at.checked_add(cells.checked_mul(width)?)?.checked_next_multiple_of(8)?;
    }
    at.checked_add(TAIL_BYTES as u64)?;
    debug_assert!(starts.is_sorted(), "sections follow each other");
    debug_assert!(starts.iter().all(|start| start.is_multiple_of(8)), "sections begin at words");
    Some((starts, at))
}

/// Returns the XXH3-64 of `bytes`: the low half of XXH3-128, the one hash of this project. The low
/// half is as good for these few kinds of input.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    Key::unkeyed(bytes).low()
}

fn header(head: &[u8]) -> Option<Header> {
    let number = |index: usize| word(head, 16 + 8 * index, 8);
    let width = |at: usize, allowed: &[u8]| head.get(at).copied().filter(|width| allowed.contains(width));
    Some(Header {
        requests: number(0)?,
        objects: number(1)?,
        hosts: number(2)?,
        clients: number(3)?,
        methods: number(4)?,
        object_text: number(5)?,
        host_text: number(6)?,
        client_text: number(7)?,
        method_text: number(8)?,
        base_ms: number(9)?,
        time_width: width(96, &[4, 8])?,
        bytes_width: width(97, &[4, 8])?,
        client_width: width(98, &[1, 2, 4])?,
    })
}

/// Reads a little-endian number of at most 8 bytes.
#[inline]
fn word(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    debug_assert!(width <= 8, "a number has at most 8 bytes");
    let cell = bytes.get(at..at.checked_add(width)?)?;
    Some(cell.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATrace => write!(f, "this is no trace in columns"),
            Self::Version(version) => write!(f, "version {version} of the format is not known"),
            Self::Header => write!(f, "the header is damaged"),
            Self::Length { expected, found } => {
                write!(f, "the trace has {found} bytes where its header says {expected}")
            }
            Self::Checksum => write!(f, "the checksum is not that of the columns"),
        }
    }
}

impl std::error::Error for Damage {}

//! Call `memory/ask`: messages of shared memory, and their answers.
//!
//! ```text
//!  ask      1, kind (1), node (8), life (8), purges (8), report (25), then by kind:
//!           1 state  newest version (1), count (2), pages that the sender has forgotten (16 each)
//!           2 put    count (2), then for each page: page (16), age in ms (8), sum (8),
//!                    length (4), bytes
//!           3 get    page (16)
//!           4 gets   count (2), pages (16 each); since version 2
//!  answer   1, kind (1), result (1), report (25), count (1), pages of the asker that the node has
//!           given up (16 each), then by kind, if the result is 0:
//!           1 state  version (1)
//!           2 put    count (2), a byte for each page: 0 kept, 1 declined, 2 wrong sum
//!           3 get    0, or 1, length (4), bytes
//!           4 gets   count (2), then for each page 0, or 1, length (4), bytes
//!  report   role (1), age in ms (8), spare bytes (8), U* and U_e in thousandths (2 each),
//!           service time in µs (4)
//! ```
//!
//! Numbers are little-endian. A node sends pages only to one that has answered its state with a
//! version that both know. A message that deviates anywhere is refused whole; reports that cannot
//! be true are clamped by their receiver. Pages are read in place: a message with many of them
//! takes no memory of its own.

mod parts;

pub use parts::{PageAnswers, PagePuts, PutResults};

use parts::MessageBytes;
use shoal_cooperation::NodeId;
use shoal_cooperation::global_memory::{Role, ServerReport};
use std::time::Duration;

/// Ask of a node.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryAsk<'a> {
    /// Node that asks.
    pub from: NodeId,
    /// Number of its process, greater after each start.
    pub life: u64,
    /// Hash of its purge vector.
    pub purges: u64,
    /// Report of the asker about itself.
    pub report: ServerReport,
    /// Matter of the ask.
    pub matter: MemoryMatter<'a>,
}

/// Matter of an ask.
#[derive(Clone, PartialEq, Debug)]
pub enum MemoryMatter<'a> {
    /// Exchange of reports, with the newest version that the asker knows.
    State {
        /// Newest version.
        newest: u8,
        /// Pages that the asker has forgotten.
        dropped: Vec<u128>,
    },
    /// Pages to keep.
    Put(PagePuts<'a>),
    /// Page to return.
    Get(u128),
    /// Pages to return, by their numbers in little-endian order of bytes.
    Gets(&'a [PageNumber]),
}

/// Number of a page, in little-endian order of bytes.
pub type PageNumber = [u8; 16];

/// A page to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagePut<'a> {
    /// Number of the page, which its owner alone knows.
    pub page: u128,
    /// Time since its last use.
    pub age: Duration,
    /// Hash of the bytes.
    pub sum: u64,
    /// Bytes of the page.
    pub bytes: &'a [u8],
}

/// Answer of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryAnswer<'a> {
    /// Matter of the answer, or the reason for none.
    pub told: Result<MemoryReply<'a>, MemoryRefusal>,
    /// Pages of the asker that the node has given up since its last answer.
    pub gone: Vec<u128>,
    kind: u8,
    report: [u8; REPORT_BYTES],
}

/// Matter of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemoryReply<'a> {
    /// Version to use.
    State(u8),
    /// Result for each page.
    Put(PutResults<'a>),
    /// The page; `None` if the node has it no more.
    Get(Option<&'a [u8]>),
    /// Each page, likewise.
    Gets(PageAnswers<'a>),
}

/// Reason why a node does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryRefusal {
    /// Shared memory is off at the node.
    Off,
    /// The node has too much to do.
    Busy,
    /// The node knows purges that the asker lacks.
    Behind,
    /// The ask is of an earlier life of the asker, or one owner too many.
    Unwanted,
}

/// Result for one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutResult {
    /// The node keeps the page.
    Kept,
    /// The memory of the node is worth more.
    Declined,
    /// The bytes do not match their sum.
    Wrong,
}

impl<'a> MemoryAsk<'a> {
    /// Writes the message. Parts beyond the bounds are left out: the caller keeps within them.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let kind = self.matter.kind();
        out.extend([VERSION, kind]);
        for number in [self.from.0, self.life, self.purges] {
            out.extend(number.to_le_bytes());
        }
        out.extend(report_bytes(&self.report));
        match &self.matter {
            MemoryMatter::State { newest, dropped } => {
                out.push(*newest);
                let dropped = &dropped[..dropped.len().min(DROPPED_MAX)];
                out.extend((dropped.len() as u16).to_le_bytes());
                dropped.iter().for_each(|page| out.extend(page.to_le_bytes()));
            }
            MemoryMatter::Put(pages) => {
                let count = pages.len().min(PAGES_MAX);
                out.extend((count as u16).to_le_bytes());
                let bytes = pages.iter().take(count).map(|page| PUT_HEAD_BYTES + page.bytes.len()).sum();
                out.reserve_exact(bytes);
                for page in pages.iter().take(count) {
                    debug_assert!(
                        (1..=PAGE_BYTES_MAX).contains(&page.bytes.len()),
                        "a page within its bounds"
                    );
                    out.extend(page.page.to_le_bytes());
                    out.extend(milliseconds(page.age).to_le_bytes());
                    out.extend(page.sum.to_le_bytes());
                    out.extend((page.bytes.len() as u32).to_le_bytes());
                    out.extend(page.bytes);
                }
            }
            MemoryMatter::Get(page) => out.extend(page.to_le_bytes()),
            MemoryMatter::Gets(pages) => {
                let pages = &pages[..pages.len().min(GETS_MAX)];
                out.extend((pages.len() as u16).to_le_bytes());
                out.extend_from_slice(pages.as_flattened());
            }
        }
        debug_assert!(out.len() > REPORT_BYTES);
        out
    }

    /// Reads a message. Returns `None` if a byte deviates.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut input = MessageBytes(bytes);
        (input.u8()? == VERSION).then_some(())?;
        let kind = input.u8()?;
        let (from, life, purges) = (NodeId(input.u64()?), input.u64()?, input.u64()?);
        let report = input.report()?;
        let matter = match kind {
            STATE => {
                let (newest, count) = (input.u8()?, usize::from(input.u16()?));
                if count > DROPPED_MAX || newest == 0 {
                    return None;
                }
                let dropped = (0..count).map(|_| input.u128()).collect::<Option<Vec<_>>>()?;
                MemoryMatter::State { newest, dropped }
            }
            PUT => {
                let count = usize::from(input.u16()?);
                if !(1..=PAGES_MAX).contains(&count) {
                    return None;
                }
                MemoryMatter::Put(PagePuts::read(count, &mut input)?)
            }
            GET => MemoryMatter::Get(input.u128()?),
            GETS => {
                let count = usize::from(input.u16()?);
                if !(1..=GETS_MAX).contains(&count) {
                    return None;
                }
                MemoryMatter::Gets(input.take(count * 16)?.as_chunks().0)
            }
            _ => return None,
        };
        input.0.is_empty().then_some(Self { from, life, purges, report, matter })
    }
}

impl MemoryMatter<'_> {
    /// Returns the kind of answers to this matter.
    pub fn kind(&self) -> u8 {
        match self {
            Self::State { .. } => STATE,
            Self::Put(_) => PUT,
            Self::Get(_) => GET,
            Self::Gets(_) => GETS,
        }
    }
}

impl<'a> MemoryAnswer<'a> {
    /// Makes an answer to an ask of this kind.
    pub fn new(kind: u8, report: &ServerReport, told: Result<MemoryReply<'a>, MemoryRefusal>) -> Self {
        Self { told, gone: Vec::new(), kind, report: report_bytes(report) }
    }

    /// Adds pages that the node has given up, at most [`GONE_MAX`].
    pub fn with_gone(self, mut gone: Vec<u128>) -> Self {
        gone.truncate(GONE_MAX);
        Self { gone, ..self }
    }

    /// Returns the report of the node about itself.
    pub fn report(&self) -> ServerReport {
        MessageBytes(&self.report).report().expect("it was written or read as a report")
    }

    /// Writes the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Adds the message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let length = match &self.told {
            Ok(MemoryReply::Get(Some(page))) => page.len(),
            Ok(MemoryReply::Gets(pages)) => pages.bytes(),
            _ => 0,
        };
        out.reserve(64 + 16 * self.gone.len() + length);
        let result = match self.told {
            Ok(_) => 0,
            Err(refusal) => REFUSALS.iter().position(|it| *it == refusal).map_or(0, |at| at as u8 + 1),
        };
        out.extend([VERSION, self.kind, result]);
        out.extend(self.report);
        debug_assert!(self.gone.len() <= GONE_MAX);
        out.push(self.gone.len() as u8);
        self.gone.iter().for_each(|page| out.extend(page.to_le_bytes()));
        match &self.told {
            Ok(MemoryReply::State(version)) => out.push(*version),
            Ok(MemoryReply::Put(results)) => {
                out.extend((results.codes().len() as u16).to_le_bytes());
                out.extend_from_slice(results.codes());
            }
            Ok(MemoryReply::Get(page)) => parts::push_page(out, *page),
            Ok(MemoryReply::Gets(pages)) => {
                out.extend((pages.len() as u16).to_le_bytes());
                pages.iter().for_each(|page| parts::push_page(out, page));
            }
            Err(_) => {}
        }
    }

    /// Reads the answer to an ask of this kind, of `count` pages. Returns `None` if a byte
    /// deviates.
    pub fn decode(bytes: &'a [u8], kind: u8, count: usize) -> Option<Self> {
        let mut input = MessageBytes(bytes);
        (input.u8()? == VERSION && input.u8()? == kind).then_some(())?;
        let result = input.u8()?;
        let report: [u8; REPORT_BYTES] = input.take(REPORT_BYTES)?.try_into().ok()?;
        MessageBytes(&report).report()?;
        let gone = usize::from(input.u8()?);
        if gone > GONE_MAX {
            return None;
        }
        let gone = (0..gone).map(|_| input.u128()).collect::<Option<Vec<_>>>()?;
        let told = match result.checked_sub(1) {
            Some(refusal) => Err(*REFUSALS.get(usize::from(refusal))?),
            None => Ok(match kind {
                STATE => MemoryReply::State(input.u8().filter(|version| *version > 0)?),
                PUT => {
                    let told = usize::from(input.u16()?);
                    MemoryReply::Put(PutResults::read(input.take(told).filter(|_| told == count)?)?)
                }
                GET => MemoryReply::Get(input.page_answer()?),
                GETS => {
                    let told = usize::from(input.u16()?);
                    MemoryReply::Gets((told == count).then(|| PageAnswers::read(count, &mut input))??)
                }
                _ => return None,
            }),
        };
        input.0.is_empty().then_some(Self { told, gone, kind, report })
    }
}

fn report_bytes(report: &ServerReport) -> [u8; REPORT_BYTES] {
    let role = ROLES.iter().position(|role| *role == report.role).unwrap_or(1) as u8;
    let mut out = [role; REPORT_BYTES];
    out[1..9].copy_from_slice(&milliseconds(report.age).to_le_bytes());
    out[9..17].copy_from_slice(&report.spare_bytes.to_le_bytes());
    out[17..19].copy_from_slice(&report.most_permille.to_le_bytes());
    out[19..21].copy_from_slice(&report.unused_permille.to_le_bytes());
    out[21..].copy_from_slice(&report.service_us.to_le_bytes());
    out
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Newest version of these messages.
pub const MEMORY_VERSION: u8 = 2;

/// First version of nodes that answer several gets in one message.
pub const GETS_VERSION: u8 = 2;

/// Name of the call.
pub const MEMORY_CALL: &str = "memory/ask";

/// Most bytes of a page.
pub const PAGE_BYTES_MAX: usize = 512 << 10;

/// Most pages of a put.
pub const PAGES_MAX: usize = 64;

/// Most pages of a message of gets.
pub const GETS_MAX: usize = 16;

/// Bytes of pages after which an answer to gets returns no further page.
pub const GETS_BYTES_MAX: usize = 256 << 10;

/// Most pages that an answer names as given up.
pub const GONE_MAX: usize = 64;

/// Most pages that a node names at once as forgotten.
pub const DROPPED_MAX: usize = 4096;

const VERSION: u8 = 1;
const STATE: u8 = 1;
const PUT: u8 = 2;
const GET: u8 = 3;
const GETS: u8 = 4;
const REPORT_BYTES: usize = 25;
/// Bytes of a put page before its own.
const PUT_HEAD_BYTES: usize = 36;
const ROLES: [Role; 3] = [Role::Idle, Role::Local, Role::Global];
const REFUSALS: [MemoryRefusal; 4] =
    [MemoryRefusal::Off, MemoryRefusal::Busy, MemoryRefusal::Behind, MemoryRefusal::Unwanted];

const _: () = {
    assert!(GONE_MAX <= u8::MAX as usize);
    assert!(DROPPED_MAX * 16 < crate::CALL_BYTES_MAX);
    assert!(PAGE_BYTES_MAX * 2 <= crate::CALL_BYTES_MAX);
    assert!(GETS_BYTES_MAX + PAGE_BYTES_MAX + 16 * (GONE_MAX + GETS_MAX) < crate::CALL_BYTES_MAX);
    assert!(PAGES_MAX <= u16::MAX as usize && GETS_MAX <= PAGES_MAX);
};

#[cfg(test)]
mod tests;

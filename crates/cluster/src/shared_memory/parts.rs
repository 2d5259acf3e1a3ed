//! Parts of messages about shared memory, read in place: pages to keep, results, pages that return.
//!
//! A list is either given by its writer, or is the bytes of a message that were checked when it was
//! read. Both forms have the same contents, and neither allocates.

use super::{PAGE_BYTES_MAX, PageNumber, PagePut, PutResult, ROLES};
use shoal_cooperation::global_memory::ServerReport;
use std::time::Duration;

/// Pages to keep.
#[derive(Clone, Copy, Debug)]
pub enum PagePuts<'a> {
    /// Pages of the writer.
    Listed(&'a [PagePut<'a>]),
    /// Pages of a message.
    Read(PageList<'a>),
}

/// Pages that return; `None` for one that the node has no more.
#[derive(Clone, Copy, Debug)]
pub enum PageAnswers<'a> {
    /// Pages of the writer.
    Listed(&'a [Option<&'a [u8]>]),
    /// Pages of a message.
    Read(PageList<'a>),
}

/// Bytes of a message with this many pages, which were checked.
#[derive(Clone, Copy, Debug)]
pub struct PageList<'a> {
    count: usize,
    bytes: &'a [u8],
}

/// Results for the pages of a put, one byte each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PutResults<'a>(&'a [u8]);

impl<'a> PagePuts<'a> {
    /// Checks the pages of a message. Returns `None` if a byte deviates.
    pub(super) fn read(count: usize, input: &mut MessageBytes<'a>) -> Option<Self> {
        input.pages(count, |input| input.page().map(drop)).map(Self::Read)
    }

    /// Returns the number of pages.
    pub fn len(&self) -> usize {
        match self {
            Self::Listed(pages) => pages.len(),
            Self::Read(pages) => pages.count,
        }
    }

    /// Returns `true` if there is no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pages in their order.
    pub fn iter(&self) -> impl Iterator<Item = PagePut<'a>> + use<'a> {
        let (listed, read) = match *self {
            Self::Listed(pages) => (pages, &[][..]),
            Self::Read(pages) => (&[][..], pages.bytes),
        };
        let mut input = MessageBytes(read);
        listed.iter().copied().chain(std::iter::from_fn(move || input.page()))
    }
}

impl PartialEq for PagePuts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> PageAnswers<'a> {
    /// Checks the pages of a message. Returns `None` if a byte deviates.
    pub(super) fn read(count: usize, input: &mut MessageBytes<'a>) -> Option<Self> {
        input.pages(count, |input| input.page_answer().map(drop)).map(Self::Read)
    }

    /// Returns the number of answers.
    pub fn len(&self) -> usize {
        match self {
            Self::Listed(pages) => pages.len(),
            Self::Read(pages) => pages.count,
        }
    }

    /// Returns `true` if there is no answer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of all pages.
    pub fn bytes(&self) -> usize {
        self.iter().map(|page| 5 + page.map_or(0, <[u8]>::len)).sum()
    }

    /// Returns the answers in their order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let (listed, read) = match *self {
            Self::Listed(pages) => (pages, &[][..]),
            Self::Read(pages) => (&[][..], pages.bytes),
        };
        let mut input = MessageBytes(read);
        listed.iter().copied().chain(std::iter::from_fn(move || input.page_answer()))
    }
}

impl PartialEq for PageAnswers<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for PageAnswers<'_> {}

impl<'a> PutResults<'a> {
    /// Takes results as [`PutResult::code`] gives them, one byte each. Returns `None` if a byte is
    /// no result.
    pub fn read(codes: &'a [u8]) -> Option<Self> {
        codes.iter().all(|code| usize::from(*code) < RESULTS.len()).then_some(Self(codes))
    }

    /// Returns the bytes.
    pub fn codes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns the results in their order.
    pub fn iter(&self) -> impl Iterator<Item = PutResult> + use<'a> {
        self.0.iter().map(|code| RESULTS[usize::from(*code)])
    }
}

impl PutResult {
    /// Returns the result as a byte of a message.
    pub fn code(self) -> u8 {
        RESULTS.iter().position(|result| *result == self).unwrap_or(1) as u8
    }
}

/// Adds a page that returns, or the word that there is none.
pub(super) fn push_page(out: &mut Vec<u8>, page: Option<&[u8]>) {
    let Some(page) = page else { return out.push(0) };
    debug_assert!((1..=PAGE_BYTES_MAX).contains(&page.len()), "a page within its bounds");
    out.push(1);
    out.extend((page.len() as u32).to_le_bytes());
    out.extend_from_slice(page);
}

/// Bytes that are still to be read.
#[derive(Clone, Copy)]
pub(super) struct MessageBytes<'a>(pub &'a [u8]);

impl<'a> MessageBytes<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Option<u128> {
        self.array::<16>().map(|number: PageNumber| u128::from_le_bytes(number))
    }

    pub fn report(&mut self) -> Option<ServerReport> {
        Some(ServerReport {
            role: *ROLES.get(usize::from(self.u8()?))?,
            age: Duration::from_millis(self.u64()?),
            spare_bytes: self.u64()?,
            most_permille: self.u16()?,
            unused_permille: self.u16()?,
            service_us: self.u32()?,
        })
    }

    fn page(&mut self) -> Option<PagePut<'a>> {
        let (page, age, sum) = (self.u128()?, Duration::from_millis(self.u64()?), self.u64()?);
        Some(PagePut { page, age, sum, bytes: self.page_bytes()? })
    }

    pub fn page_answer(&mut self) -> Option<Option<&'a [u8]>> {
        match self.u8()? {
            0 => Some(None),
            1 => self.page_bytes().map(Some),
            _ => None,
        }
    }

    fn page_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length).filter(|_| (1..=PAGE_BYTES_MAX).contains(&length))
    }

    /// Takes `count` pages, each of which `skip` reads over. Returns `None` if one deviates.
    fn pages(&mut self, count: usize, skip: impl Fn(&mut Self) -> Option<()>) -> Option<PageList<'a>> {
        let before = self.0;
        (0..count).try_for_each(|_| skip(self))?;
        Some(PageList { count, bytes: &before[..before.len() - self.0.len()] })
    }
}

const RESULTS: [PutResult; 3] = [PutResult::Kept, PutResult::Declined, PutResult::Wrong];

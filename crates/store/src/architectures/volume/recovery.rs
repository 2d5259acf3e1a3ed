//! Recovery: finds the end of the log, and enters the records that the index on disk lacks.
//!
//! The index says up to which chunk it is complete. From there recovery visits the stripes in
//! cursor order. A stripe with a first chunk newer than all before was written since, and its
//! contents are entered. The end is found after more stripes without a newer chunk than the cursor
//! may silently pass over. Without an index all stripes are entered in the order in which they were
//! written. This is repeated at each opening until an index has been written.
//!
//! Recovery then counts the index's entries. An entry that leads into a rewritten stripe, but to
//! none of its records, is removed here, since no later step would remove it.
//!
//! All of this runs in the background, some stripes at a time. Both ends of several stripes are
//! read at once, by several threads where possible: a disk answers many reads in the time of one.
//! The buckets of several items are touched before the first is entered, because memory behaves
//! like the disk.

use super::Volume;
use super::directory::Directory;
use super::format::{
    Chunk, ChunkEnd, ContentsItem, END_BYTES, ITEM_BYTES, RecordKind, UNIT_BYTES, decode_contents,
};
use super::index::VolumeEntry;
use super::pages::AlignedPages;
use super::reader::Reader;
use super::writer::SKIPPED_MAX;
use crate::fs::PAGE_BYTES;
use crate::together::run_parallel;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use tracing::{info, warn};

/// State of the recovery.
pub(super) enum Recovery {
    /// Clean start: the log ends where the index says.
    Clean,
    /// Follows the log from the index's place.
    Following(LogScan),
    /// Counts the index's entries, and removes those of records that have been overwritten since
    /// the index was written.
    Counting(RewrittenStripes),
    /// Reads the sequence number of each stripe.
    Dating { next: u32, dated: Vec<(u64, u32)> },
    /// Enters the stripes in that order; the oldest is last in `left`.
    Entering { left: Vec<(u64, u32)> },
}

/// Position of the log scan.
#[derive(Default)]
pub(super) struct LogScan {
    next: u32,
    /// Sequence number of the last chunk that the index covers.
    known: u64,
    /// Consecutive stripes that were not newer.
    not_newer: u32,
    has_begun: bool,
    rewritten: RewrittenStripes,
}

/// Result of one step along the log.
enum LogStep {
    /// The log may continue.
    On,
    End,
    /// The log has gone round since the index was written.
    TooFar,
}

/// Stripes written since the index, each with the entries that may lead into it, by position.
type RewrittenStripes = HashMap<u32, Box<[VolumeEntry]>>;

/// Contents of a stripe that is not full, or that has a damaged end.
pub(super) struct StripeScan {
    pub(super) items: Vec<ContentsItem>,
    /// Sequence number of the first chunk.
    first: u64,
    /// Sequence number of the last chunk.
    pub(super) last: u64,
    /// Offset in the stripe at which the next chunk would begin.
    pub(super) offset: u64,
}

/// Chunks at the two ends of a stripe.
struct Ends {
    first: Option<Chunk>,
    /// Chunk that ends the stripe, with its contents, if the stripe is newer than requested.
    last: Option<(Chunk, Vec<ContentsItem>)>,
}

impl Ends {
    /// Returns the chunk that begins the stripe, or else the one that ends it.
    fn any(&self) -> Option<&Chunk> {
        self.first.as_ref().or_else(|| self.last.as_ref().map(|(chunk, _)| chunk))
    }
}

impl LogScan {
    /// Starts a scan at the stripe `next`, for an index that covers the log up to the chunk
    /// `known`.
    pub(super) fn from(next: u32, known: u64) -> Self {
        Self { next, known, ..Self::default() }
    }
}

impl ContentsItem {
    /// Returns the index entry of an object in the stripe at `stripe_at`; `None` for other items.
    fn entry(&self, stripe_at: u64) -> Option<VolumeEntry> {
        let is_object = matches!(self.kind, RecordKind::Whole | RecordKind::Large);
        is_object
            .then(|| VolumeEntry::new(self.key, stripe_at + u64::from(self.at) * UNIT_BYTES, self.class, 0))
    }
}

impl Recovery {
    /// Returns at most `most` stripes to visit next, and the chunk from which on their contents are
    /// needed.
    fn ahead(&self, most: usize, stripes: u32, newest: u64) -> (Vec<u32>, u64) {
        match self {
            Self::Clean | Self::Counting(_) => (Vec::new(), u64::MAX),
            Self::Following(LogScan { next, .. }) => {
                let count = most.min(stripes as usize) as u32;
                ((0..count).map(|step| (next + step) % stripes).collect(), newest)
            }
            Self::Dating { next, .. } => ((*next..stripes).take(most).collect(), u64::MAX),
            Self::Entering { left } => (left.iter().rev().take(most).map(|(_, stripe)| *stripe).collect(), 0),
        }
    }
}

impl Volume {
    /// Finds the end of the log.
    pub(super) fn recover(&self) {
        while !self.directory.is_recovered.load(Relaxed) {
            self.recover_step(RECOVERED_AT_ONCE);
        }
    }

    /// Returns `true` if the whole log has been entered. With a usable index the log's end is near,
    /// and this call follows the log there. A rebuild of the index from all stripes is not waited
    /// for.
    pub(super) fn is_followed(&self) -> bool {
        while !self.directory.is_followed.load(Acquire) {
            if !matches!(*self.recovery.lock(), Recovery::Clean | Recovery::Following(_)) {
                break;
            }
            self.recover_step(RECOVERED_AT_ONCE);
        }
        self.directory.is_followed.load(Acquire)
    }

    /// Visits some stripes. Returns their number.
    pub(super) fn recover_step(&self, most: usize) -> usize {
        let mut recovery = self.recovery.lock();
        if self.directory.is_recovered.load(Relaxed) {
            return 0;
        }
        let most = most.min((AHEAD_BYTES / self.geometry.stripe_bytes) as usize).max(1);
        let newest = self.writer.lock().sequence;
        let (stripes, newer_than) = recovery.ahead(most, self.geometry.stripes, newest);
        assert!(stripes.len() <= most);
        assert!(stripes.iter().all(|stripe| *stripe < self.geometry.stripes));
        let mut ends = self.read_ends(&stripes, newer_than).into_iter();
        let phase = std::mem::discriminant(&*recovery);
        for looked_at in 0..stripes.len().max(1) {
            if self.scan_next(&mut recovery, ends.next()) {
                self.finish_recovery(&recovery);
                return looked_at + 1;
            }
            // The other ends were read for the previous phase.
            if std::mem::discriminant(&*recovery) != phase {
                return looked_at + 1;
            }
        }
        stripes.len().max(1)
    }

    /// Handles the ends of the next stripe; `None` when none is left. Returns `true` when the
    /// recovery is complete.
    fn scan_next(&self, recovery: &mut Recovery, ends: Option<Ends>) -> bool {
        match (&mut *recovery, ends) {
            (Recovery::Clean, _) => {
                self.resume();
                true
            }
            (Recovery::Following(following), Some(ends)) => {
                match self.follow(ends, following) {
                    LogStep::On => {}
                    LogStep::End => {
                        *recovery = Recovery::Counting(std::mem::take(&mut following.rewritten));
                        self.directory.is_followed.store(true, Release);
                    }
                    LogStep::TooFar => *recovery = self.begin_anew(),
                }
                false
            }
            (Recovery::Counting(rewritten), _) => !self.directory.count_some(rewritten),
            (Recovery::Dating { next, dated }, Some(ends)) => {
                let is_known = |chunk: &Chunk| chunk.sequence >= self.geometry.oldest;
                dated.extend(ends.first.filter(is_known).map(|chunk| (chunk.sequence, *next)));
                *next += 1;
                false
            }
            (Recovery::Dating { dated, .. }, None) => {
                dated.sort_unstable_by(|a, b| b.cmp(a));
                *recovery = Recovery::Entering { left: std::mem::take(dated) };
                false
            }
            (Recovery::Entering { left }, Some(ends)) => {
                if let Some((_, stripe)) = left.pop() {
                    self.enter_stripe(stripe, ends);
                }
                false
            }
            (Recovery::Following(_), None) => true,
            (Recovery::Entering { .. }, None) => {
                self.directory.is_followed.store(true, Release);
                !self.directory.count_some(&RewrittenStripes::new())
            }
        }
    }

    /// Reads the ends of many stripes at once, and the contents of stripes with a newer first
    /// chunk.
    fn read_ends(&self, stripes: &[u32], newer_than: u64) -> Vec<Ends> {
        let read = |stripe: &u32| {
            let first = self.reader.first_chunk(*stripe);
            // If the beginning is damaged, the end may have the sequence number.
            let may_be_newer = first.is_none_or(|chunk| chunk.sequence > newer_than);
            let last = if may_be_newer { self.reader.last_chunk(*stripe) } else { None };
            Ends { first, last: last.filter(|(chunk, _)| first.is_some() || chunk.sequence > newer_than) }
        };
        if stripes.len() <= READ_BY_ONE {
            return stripes.iter().map(read).collect();
        }
        let parts: Vec<&[u32]> = stripes.chunks(READ_BY_ONE).collect();
        let done = run_parallel(&parts, |part| part.iter().map(read).collect::<Vec<_>>());
        let ends: Vec<Ends> =
            done.into_iter().flat_map(|ends| ends.expect("reading does not panic")).collect();
        assert_eq!(ends.len(), stripes.len(), "ends of each stripe");
        ends
    }

    fn finish_recovery(&self, recovery: &Recovery) {
        assert!(!self.directory.is_recovered.load(Relaxed), "an end that is found twice");
        let mut writer = self.writer.lock();
        if !matches!(recovery, Recovery::Clean) {
            // Chunks that a power loss left behind the log's new end must not pass for later ones.
            writer.sequence += SEQUENCE_STEP;
            let after = (1..=self.geometry.stripes.min(SKIPPED_MAX))
                .map(|step| (writer.stripe + step) % self.geometry.stripes);
            let mut doubts = self.reader.doubts.lock();
            doubts.stripes.extend(after);
            (doubts.until, doubts.end) = (writer.sequence, writer.stripe);
            info!(objects = self.directory.table.objects(), "the end of the log has been found");
        }
        if self.file.sealed_from.load(Relaxed) == u64::MAX {
            // An earlier version wrote all of this. New records go into other stripes.
            self.file.sealed_from.store(writer.sequence + 1, Relaxed);
            writer.offset = self.geometry.stripe_bytes;
        }
        writer.invariants(&self.geometry);
        let mut removed_early = self.removed_early.lock();
        self.directory.is_followed.store(true, Release);
        self.directory.is_recovered.store(true, Relaxed);
        *removed_early = HashSet::new();
        self.sync_bell.ring();
    }

    /// Begins a rebuild of the index from the stripes: the index is older than a lap of the log.
    /// Records that no scan would visit may have replaced its objects.
    fn begin_anew(&self) -> Recovery {
        warn!(
            "the volume's index is much older than the volume: it is made anew from its contents while it serves"
        );
        let mut writer = self.writer.lock();
        (writer.stripe, writer.offset, writer.sequence) = (0, 0, 0);
        writer.items.clear();
        // Objects entered first may be older than records that follow.
        self.directory.changed.forget();
        self.directory.table.clear();
        self.directory.is_index_known.store(false, Relaxed);
        Recovery::Dating { next: 0, dated: Vec::new() }
    }

    /// Takes one step along the log.
    fn follow(&self, ends: Ends, following: &mut LogScan) -> LogStep {
        assert!(following.next < self.geometry.stripes);
        assert!(following.not_newer <= self.geometry.stripes.min(SKIPPED_MAX), "a scan behind its end");
        if !following.has_begun {
            self.resume();
        }
        let newest = self.writer.lock().sequence;
        let stripe = following.next;
        // The stripe that the index names may have got chunks since.
        let is_newer = !following.has_begun || ends.any().is_some_and(|chunk| chunk.sequence > newest);
        following.has_begun = true;
        // A chunk written after the index, and yet behind the log's position, was passed a lap ago.
        let is_between = |chunk: &Chunk| chunk.sequence > following.known && chunk.sequence <= newest;
        if ends.any().is_some_and(is_between) && !following.rewritten.contains_key(&stripe) {
            return LogStep::TooFar;
        }
        if is_newer && self.enter_stripe(stripe, ends) {
            following.not_newer = 0;
            let stripe_at = self.geometry.stripe_at(stripe);
            let entry = |item: &ContentsItem| item.entry(stripe_at);
            let entries = self.writer.lock().items.iter().filter_map(entry).collect();
            following.rewritten.insert(stripe, entries);
        } else {
            following.not_newer += 1;
            // Passed over, or partly written at a power loss.
            self.reader.doubts.lock().stripes.insert(stripe);
        }
        following.next = (stripe + 1) % self.geometry.stripes;
        // The stripe written last is among the newer ones.
        match following.not_newer > self.geometry.stripes.min(SKIPPED_MAX) {
            true => LogStep::End,
            false => LogStep::On,
        }
    }

    /// Reads the contents of the stripe in which the log ends: the chunk that ends this stripe will
    /// list them too.
    fn resume(&self) {
        let mut writer = self.writer.lock();
        if writer.offset == 0 || writer.offset >= self.geometry.stripe_bytes {
            return;
        }
        match self.reader.walk(writer.stripe) {
            Some(walked) if walked.last >= writer.sequence => {
                // Later chunks are entered, and listed, when they are followed.
                let end = (writer.offset / UNIT_BYTES) as u32;
                writer.items = walked.items.into_iter().filter(|item| item.at < end).collect();
                writer.invariants(&self.geometry);
            }
            // The stripe is unreadable: the next chunk begins another stripe, and this one keeps
            // its contents.
            _ => writer.offset = self.geometry.stripe_bytes,
        }
    }

    /// Enters the contents of a stripe that is newer than all before, and moves the log's end
    /// behind it.
    fn enter_stripe(&self, stripe: u32, ends: Ends) -> bool {
        let mut writer = self.writer.lock();
        // A stripe with an unknown first chunk came after all before.
        let first = ends.first.map_or(writer.sequence + 1, |first| first.sequence);
        let walked = match ends.last {
            Some((last, items)) if first <= last.sequence => {
                let offset = self.geometry.stripe_bytes;
                Some(StripeScan { items, first, last: last.sequence, offset })
            }
            _ => self.reader.walk(stripe),
        };
        let Some(walked) = walked.filter(|walked| walked.last > writer.sequence) else { return false };
        self.directory.table.set_stripe_sequence(stripe, walked.first);
        let stripe_at = self.geometry.stripe_at(stripe);
        let removed_early = self.removed_early.lock();
        for items in walked.items.chunks(ENTERED_TOGETHER) {
            items.iter().for_each(|item| self.directory.table.touch(item.key));
            let wanted = items.iter().filter(|item| !removed_early.contains(&item.key));
            wanted.for_each(|item| self.directory.enter_item(stripe_at, item));
        }
        let ids = walked.items.iter().map(|item| item.id.min(!item.id));
        self.directory.next_id.fetch_max(ids.max().map_or(0, |id| id + 1), Relaxed);
        self.directory.written_stripes.fetch_max(stripe + 1, Relaxed);
        assert!(walked.first <= walked.last, "chunks of a stripe rise");
        (writer.stripe, writer.offset, writer.sequence) = (stripe, walked.offset, walked.last);
        writer.items = walked.items;
        writer.invariants(&self.geometry);
        true
    }
}

impl Directory {
    /// Counts entries, and removes those of overwritten records. Returns `false` when all have been
    /// counted.
    fn count_some(&self, rewritten: &RewrittenStripes) -> bool {
        let is_dead = |entry: VolumeEntry| {
            let Some(stripe) = self.geometry.stripe_of(entry.position()) else { return true };
            let Some(entries) = rewritten.get(&stripe) else { return false };
            let found = entries.binary_search_by_key(&entry.position(), |entry| entry.position());
            !found.is_ok_and(|at| entries[at].is_same(entry))
        };
        // Some at a time: a removal waits for this.
        (0..COUNTED_AT_ONCE).all(|_| self.table.count_next(COUNTED_TOGETHER, is_dead))
    }

    fn enter_item(&self, stripe_at: u64, item: &ContentsItem) {
        match item.kind {
            RecordKind::Whole | RecordKind::Large => {
                let position = stripe_at + u64::from(item.at) * UNIT_BYTES;
                self.table.put(item.key, position, item.class, 0);
            }
            RecordKind::Removed => {
                for entry in self.table.candidates(item.key).collect::<Vec<_>>() {
                    self.table.remove(item.key, entry);
                }
            }
            RecordKind::Piece | RecordKind::TablePiece => {}
        }
    }
}

impl Reader {
    /// Returns the chunk that a stripe begins with.
    pub(super) fn first_chunk(&self, stripe: u32) -> Option<Chunk> {
        let position = self.geometry.stripe_at(stripe);
        let mut page = AlignedPages::zeroed(PAGE_BYTES);
        self.read_pages_or_count(&mut page, position)?;
        Chunk::decode(ChunkEnd::Head, page.as_ref(), self.geometry.id)
            .filter(|chunk| chunk.position == position)
    }

    /// Reads a stripe and follows its chunks while their sequence numbers rise.
    pub(super) fn walk(&self, stripe: u32) -> Option<StripeScan> {
        let mut pages = AlignedPages::zeroed(self.geometry.stripe_bytes as usize);
        self.read_pages_or_count(&mut pages, self.geometry.stripe_at(stripe))?;
        self.walk_through(pages.as_ref(), stripe)
    }

    /// Follows the chunks in the bytes of a stripe.
    pub(super) fn walk_through(&self, bytes: &[u8], stripe: u32) -> Option<StripeScan> {
        assert_eq!(bytes.len() as u64, self.geometry.stripe_bytes);
        let stripe_at = self.geometry.stripe_at(stripe);
        let mut walked: Option<StripeScan> = None;
        let mut at = 0;
        while let Some((chunk, items)) = whole_chunk(bytes, at, stripe_at, self.geometry.id) {
            let follows = walked.as_ref().is_none_or(|before| chunk.sequence > before.last);
            if !follows {
                break;
            }
            let first = walked.as_ref().map_or(chunk.sequence, |walked| walked.first);
            let is_end = at + chunk.bytes as usize >= bytes.len();
            // A chunk that ends the stripe lists all earlier records too.
            let mut listed = walked.map_or_else(Vec::new, |walked| walked.items);
            if is_end {
                listed.clear();
            }
            listed.extend(items);
            at += chunk.bytes as usize;
            assert!(at <= bytes.len(), "a chunk that was not checked");
            walked = Some(StripeScan { items: listed, first, last: chunk.sequence, offset: at as u64 });
            if is_end {
                break;
            }
        }
        walked
    }
}

/// Returns the chunk at `at` in a stripe's bytes, if both ends and the contents pass their checks.
pub(super) fn whole_chunk(
    stripe: &[u8],
    at: usize,
    stripe_at: u64,
    id: u64,
) -> Option<(Chunk, Vec<ContentsItem>)> {
    let head = Chunk::decode(ChunkEnd::Head, stripe.get(at..)?, id)?;
    let end = at.checked_add(head.bytes as usize).filter(|end| *end <= stripe.len())?;
    let contents_end = end.checked_sub(END_BYTES)?;
    let tail = Chunk::decode(ChunkEnd::Tail, &stripe[contents_end..end], id)?;
    let contents_at =
        contents_end.checked_sub(head.entries as usize * ITEM_BYTES).filter(|start| *start > at)?;
    let is_here = head == tail
        && head.position == stripe_at + at as u64
        && (head.bytes as usize).is_multiple_of(PAGE_BYTES);
    let items = decode_contents(&stripe[contents_at..contents_end], &head, stripe.len() as u64)
        .filter(|_| is_here)?;
    assert_eq!(head.position, stripe_at + at as u64);
    assert!(items.len() <= head.entries as usize);
    Some((head, items))
}

/// Bytes of stripes with contents read ahead. With objects of a hundred bytes, the contents take a
/// twentieth of this in memory.
const AHEAD_BYTES: u64 = 64 << 20;
/// Stripes read by one thread.
const READ_BY_ONE: usize = 16;
/// Items touched before the first of them is entered.
const ENTERED_TOGETHER: usize = 16;
/// Entries counted while the table is locked.
const COUNTED_TOGETHER: usize = 8192;
/// Locked counts in one step.
const COUNTED_AT_ONCE: usize = 64;
/// Stripes visited in one step of the background work.
pub(super) const RECOVERED_AT_ONCE: usize = 64;
/// More chunks than can be written and unsynced at a power loss.
const SEQUENCE_STEP: u64 = 1 << 20;

const _: () = {
    assert!(READ_BY_ONE > 0);
    // A scan sees all stripes that the cursor may have passed over.
    assert!(RECOVERED_AT_ONCE >= SKIPPED_MAX as usize);
};

//! Reclaiming of a stripe when the cursor comes round: popular objects are carried over, the others
//! evicted.

use super::Volume;
use super::directory::Directory;
use super::format::{
    Chunk, ChunkEnd, ContentsItem, END_BYTES, ITEM_BYTES, RecordHead, RecordKind, class_bytes,
    decode_contents,
};
use super::index::VolumeEntry;
use super::pages::AlignedPages;
use super::pending::{PendingBody, PendingObject, QueuedRecord};
use super::reader::Reader;
use super::volume_file::VolumeFile;
use crate::fs::{PAGE_BYTES, read_full};
use bytes::Bytes;
use shoal_core::{Key, ObjectKey};
use shoal_policy::PinLedger;
use shoal_policy::reinsertion::{ReinsertionDecision, decide};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Object in the stripe that lookups can find.
pub(super) struct LiveObject {
    pub(super) item: ContentsItem,
    pub(super) entry: VolumeEntry,
    verdict: ReinsertionDecision,
}

impl Volume {
    /// Takes all objects out of a stripe without readers. Popular objects are queued to be written
    /// again. Returns `false` when the stripe is worth keeping as it is.
    pub(super) fn reclaim(&self, stripe: u32, pinned: &mut PinLedger) -> bool {
        assert!(stripe < self.geometry.stripes);
        if stripe >= self.directory.written_stripes.load(Relaxed) {
            return true;
        }
        pinned.release(stripe);
        let Some(items) = self.reader.contents(stripe) else { return true };
        let mut live = self.directory.live(stripe, &items);
        if self.spare_pinned((stripe, &items), &mut live, pinned) {
            return false;
        }
        let is_carried = |live: &&LiveObject| matches!(live.verdict, ReinsertionDecision::Reinsert(_));
        let carried: u64 = live.iter().filter(is_carried).map(|live| live.entry.bytes()).sum();
        if carried > self.geometry.stripe_bytes * KEPT_PERCENT / 100 {
            for live in live {
                let hits = if let ReinsertionDecision::Reinsert(hits) = live.verdict { hits } else { 0 };
                self.directory.table.set_hits(live.item.key, live.entry, hits);
            }
            return false;
        }
        let wanted: Vec<&LiveObject> = live.iter().filter(is_carried).collect();
        let carried = self.reader.read_live(stripe, &wanted);
        let given_up = self.requeue_reinserted(&live, carried);
        given_up.into_iter().for_each(|key| self.directory.count_evicted(key));
        self.reader.evict_broken(&items);
        true
    }

    /// Spares the pinned objects of a stripe, as far as the budget goes. Returns `true` if the
    /// stripe stays as it is: it has a piece of a large object, which cannot move alone. Small
    /// objects are carried over.
    fn spare_pinned(
        &self,
        (stripe, items): (u32, &[ContentsItem]),
        live: &mut [LiveObject],
        pinned: &mut PinLedger,
    ) -> bool {
        if !items.iter().any(|item| item.is_pinned) {
            return false;
        }
        let is_large = |live: &&LiveObject| live.item.is_pinned && live.item.kind == RecordKind::Large;
        // A validation changes a large object's metadata in its place, and the contents stay.
        let is_pinned = |entry: VolumeEntry| {
            let head = self.reader.read_head_and(entry, |_, metadata| self.pins.holds(metadata));
            head.unwrap_or(false)
        };
        let has_large = live.iter().filter(is_large).any(|live| is_pinned(live.entry))
            || self.reader.pinned_owners(items).into_iter().any(is_pinned);
        if has_large && pinned.charge(stripe, self.geometry.stripe_bytes) {
            return true;
        }
        for live in live.iter_mut().filter(|live| live.item.is_pinned && live.item.kind == RecordKind::Whole)
        {
            if live.verdict == ReinsertionDecision::Evict && pinned.charge(stripe, live.entry.bytes()) {
                live.verdict = ReinsertionDecision::Reinsert(live.entry.hits() / 2);
            }
        }
        false
    }

    /// Takes objects out of the table and puts the carried ones into the queue. Returns the keys of
    /// the evicted objects. One lock covers all of it: each object is found in one place or the
    /// other, and no removed or replaced object comes back.
    fn requeue_reinserted(
        &self,
        live: &[LiveObject],
        carried: Vec<(VolumeEntry, Arc<PendingObject>)>,
    ) -> Vec<Key> {
        assert!(carried.len() <= live.len());
        let mut queue = self.queue.lock();
        let is_current = |entry: VolumeEntry, object: &PendingObject| {
            let key = object.key.hash();
            // The object may have had a hit since.
            let now = self.directory.table.entry_at(key, entry.position());
            queue.find(key).is_none() && now.is_some_and(|now| now.is_same(entry))
        };
        let current = |(entry, object): &(VolumeEntry, Arc<PendingObject>)| is_current(*entry, object);
        let carried: Vec<_> = carried.into_iter().filter(current).map(|(_, object)| object).collect();
        let kept: HashSet<Key> = carried.iter().map(|object| object.key.hash()).collect();
        self.directory.ring.count_carried(carried.len() as u64);
        queue.push_front(carried.into_iter().map(QueuedRecord::Object).collect());
        let removed = live.iter().filter(|live| self.directory.table.remove(live.item.key, live.entry));
        removed.map(|live| live.item.key).filter(|key| !kept.contains(key)).collect()
    }
}

impl Directory {
    fn count_evicted(&self, key: Key) {
        self.counts.evictions.fetch_add(1, Relaxed);
        self.report_evicted(key);
    }

    /// Reports an evicted object: the holder of another copy may have the only one now.
    pub(super) fn report_evicted(&self, key: Key) {
        if let Some(gave_up) = self.gave_up.get() {
            gave_up(key);
        }
    }

    /// Returns the stripe's objects with their verdicts, in disk order.
    pub(super) fn live(&self, stripe: u32, items: &[ContentsItem]) -> Vec<LiveObject> {
        let stripe_at = self.geometry.stripe_at(stripe);
        let objects = items.iter().filter(|item| matches!(item.kind, RecordKind::Whole | RecordKind::Large));
        let live = objects.filter_map(|item| {
            let position = stripe_at + u64::from(item.at) * super::format::UNIT_BYTES;
            let entry = self.table.entry_at(item.key, position)?;
            let verdict = match item.kind {
                RecordKind::Whole => decide(entry.hits(), entry.bytes()),
                // A large object's pieces are elsewhere, and were written earlier.
                _ => ReinsertionDecision::Evict,
            };
            Some(LiveObject { item: *item, entry, verdict })
        });
        let mut live: Vec<LiveObject> = live.collect();
        // Contents from a disk may list them in any order.
        live.sort_by_key(|live| live.entry.position());
        live
    }
}

impl Reader {
    /// Evicts large objects that lose a piece with this stripe.
    fn evict_broken(&self, items: &[ContentsItem]) {
        let mut seen = HashSet::new();
        let pieces =
            items.iter().filter(|item| matches!(item.kind, RecordKind::Piece | RecordKind::TablePiece));
        for item in pieces.filter(|item| seen.insert(item.id)) {
            for entry in self.owners(item) {
                if self.directory.table.remove(item.key, entry) {
                    self.directory.count_evicted(item.key);
                }
            }
        }
    }

    /// Returns the objects that have pieces among these records, and were pinned when written.
    fn pinned_owners(&self, items: &[ContentsItem]) -> Vec<VolumeEntry> {
        let mut seen = HashSet::new();
        let is_piece = |item: &&ContentsItem| {
            item.is_pinned && matches!(item.kind, RecordKind::Piece | RecordKind::TablePiece)
        };
        let pieces = items.iter().filter(is_piece).filter(|item| seen.insert(item.id));
        pieces.flat_map(|piece| self.owners(piece)).collect()
    }

    /// Returns the entries of the object that a piece belongs to; none if the object is gone.
    fn owners(&self, piece: &ContentsItem) -> Vec<VolumeEntry> {
        // A table's pieces have the complement of their object's id.
        let is_owner = |entry: &VolumeEntry| {
            let is_its = |head: &RecordHead, _: &[u8]| [piece.id, !piece.id].contains(&head.id);
            self.read_head_and(*entry, is_its).unwrap_or(false)
        };
        self.directory.table.candidates(piece.key).filter(is_owner).collect()
    }

    /// Reads the head of an object's record, and has `look` at it and at the metadata. Returns
    /// `None` if the record cannot be read.
    fn read_head_and<T>(&self, entry: VolumeEntry, look: impl FnOnce(&RecordHead, &[u8]) -> T) -> Option<T> {
        let span = self.read_span(entry.position(), entry.bytes(), None).ok()?;
        let head = self.decode_head(&span, entry.position()).ok()?;
        let (_, metadata) = head.key_and_metadata(&span)?;
        Some(look(&head, metadata))
    }

    /// Reads the objects of a stripe that are to be written again; neighbours share a read.
    fn read_live(&self, stripe: u32, wanted: &[&LiveObject]) -> Vec<(VolumeEntry, Arc<PendingObject>)> {
        assert!(wanted.is_sorted_by_key(|live| live.entry.position()));
        let mut carried = Vec::with_capacity(wanted.len());
        let end = self.geometry.stripe_at(stripe + 1);
        let mut rest = wanted;
        while let Some(first) = rest.first() {
            let range = |live: &LiveObject| -> Range<u64> {
                let from = live.entry.position();
                from..(from + class_bytes(live.item.class)).min(end)
            };
            let mut run = range(first);
            let is_near = |live: &&LiveObject, end: u64| range(live).start <= end + GAP_MAX;
            let mut count = 1;
            while let Some(next) = rest.get(count).filter(|next| is_near(next, run.end)) {
                run.end = run.end.max(range(next).end);
                count += 1;
            }
            assert!(run.start < run.end);
            assert_eq!(self.geometry.stripe_of(run.start), Some(stripe));
            if let Ok(bytes) = self.read_span(run.start, run.end - run.start, None) {
                for live in &rest[..count] {
                    let from = (live.entry.position() - run.start) as usize;
                    let head = self.decode_head(&bytes[from..], live.entry.position());
                    carried.extend(head.ok().and_then(|head| carry(&head, live, &bytes[from..])));
                }
            }
            rest = &rest[count..];
        }
        assert!(carried.len() <= wanted.len());
        carried
    }

    /// Returns the contents of a stripe. Returns `None` when nothing known is there: the stripe is
    /// new, or its writer is unknown.
    pub(super) fn contents(&self, stripe: u32) -> Option<Vec<ContentsItem>> {
        // A stripe that was not filled still has the last chunk of the previous lap at its end.
        match self.last_chunk(stripe) {
            Some((chunk, items)) if chunk.sequence >= self.directory.table.stripe_sequence(stripe) => {
                Some(items)
            }
            _ => self.walk(stripe).map(|walked| walked.items),
        }
    }

    /// Returns the chunk that ends a full stripe, with its contents.
    pub(super) fn last_chunk(&self, stripe: u32) -> Option<(Chunk, Vec<ContentsItem>)> {
        let end = self.geometry.stripe_at(stripe + 1);
        let mut tail = AlignedPages::zeroed(PAGE_BYTES);
        self.read_pages_or_count(&mut tail, end - PAGE_BYTES as u64)?;
        let bytes = tail.as_ref();
        let chunk = Chunk::decode(ChunkEnd::Tail, &bytes[PAGE_BYTES - END_BYTES..], self.geometry.id)?;
        let contents = chunk.entries as usize * ITEM_BYTES;
        let is_here = chunk.end() == end && u64::from(chunk.bytes) <= self.geometry.stripe_bytes;
        if !is_here || contents + END_BYTES > chunk.bytes as usize {
            return None;
        }
        if let Some(at) = (PAGE_BYTES - END_BYTES).checked_sub(contents) {
            return decode_contents(&bytes[at..PAGE_BYTES - END_BYTES], &chunk, self.geometry.stripe_bytes)
                .map(|items| (chunk, items));
        }
        let mut more = AlignedPages::zeroed(contents + END_BYTES);
        let length = more.as_ref().len();
        self.read_pages_or_count(&mut more, end - length as u64)?;
        let at = length - END_BYTES - contents;
        decode_contents(&more.as_ref()[at..length - END_BYTES], &chunk, self.geometry.stripe_bytes)
            .map(|items| (chunk, items))
    }

    /// Reads whole pages for a caller that can do without them; counts a failure.
    pub(super) fn read_pages_or_count(&self, pages: &mut AlignedPages, position: u64) -> Option<()> {
        let read = self.file.read_pages(pages, position);
        let read = read.map_err(|source| self.file.failed("read what the volume lists", source));
        match read.is_ok() {
            true => self.file.succeeded(),
            false if !self.directory.is_recovered.load(Relaxed) => {
                self.directory.has_missed.store(true, Relaxed)
            }
            false => {}
        }
        self.file.note_in_background(read)
    }
}

impl VolumeFile {
    /// Fills whole pages from the disk.
    pub(super) fn read_pages(&self, pages: &mut AlignedPages, position: u64) -> std::io::Result<()> {
        let wanted = pages.as_ref().len();
        debug_assert!(position.is_multiple_of(PAGE_BYTES as u64));
        debug_assert!(position + wanted as u64 <= self.geometry.volume_bytes());
        match read_full(&*self.data, pages.as_mut(), position) {
            Ok(read) if read == wanted => Ok(()),
            Ok(_) => Err(std::io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        }
    }
}

/// Returns an object ready to be written again, if its record is whole.
fn carry(head: &RecordHead, live: &LiveObject, record: &[u8]) -> Option<(VolumeEntry, Arc<PendingObject>)> {
    let (full_key, metadata) = head.key_and_metadata(record)?;
    let body = head.payload(record)?;
    let hits = if let ReinsertionDecision::Reinsert(hits) = live.verdict { hits } else { 0 };
    let body = PendingBody::Whole(Bytes::copy_from_slice(body));
    let metadata = Bytes::copy_from_slice(metadata);
    let key = ObjectKey::stored(full_key, head.key);
    Some((live.entry, PendingObject::new(key, head.id, hits, metadata, body)))
}

/// Carried share of a stripe above which the stripe is left as it is.
const KEPT_PERCENT: u64 = 60;
/// Largest gap between objects that are read together.
const GAP_MAX: u64 = 32 << 10;

const _: () = assert!(KEPT_PERCENT < 100);

#[cfg(test)]
mod tests {
    use super::super::tests::{World, key, put};

    #[test]
    fn contents_in_any_order_are_read_in_that_of_the_disk() {
        let world = World::new(16 << 20);
        let store = world.open();
        (0..40).for_each(|number| put(&store, number, 1, 3000).expect("there is room"));
        store.write_all();
        let volume = &store.volume;
        (0..40).for_each(|number| drop(volume.open(&key(number)).expect("the disk is sound")));
        let mut items = volume.reader.contents(0).expect("they were written");
        items.reverse();
        let live = volume.directory.live(0, &items);
        let carried = volume.reader.read_live(0, &live.iter().collect::<Vec<_>>());
        assert_eq!((live.len(), carried.len()), (40, 40));
    }
}

//! Walk over the objects of a volume, stripe by stripe, for a caller that copies them.
//!
//! Cost: one or two reads for the contents of a stripe, and one of the whole stripe, if it has
//! objects.

use super::Volume;
use super::pages::AlignedPages;
use crate::{Error, WalkedObject, WalkedPart};
use shoal_core::ObjectKey;
use std::sync::atomic::Ordering::Relaxed;

impl Volume {
    /// Returns the objects of a stripe; `None` behind the last one.
    pub(super) fn walk(&self, place: u64) -> Result<Option<WalkedPart>, Error> {
        if !self.directory.is_recovered.load(Relaxed) {
            self.recover();
        }
        if place == 0 {
            self.flush(true)?;
        }
        let end = u64::from(self.directory.written_stripes.load(Relaxed));
        let Some(stripe) = u32::try_from(place).ok().filter(|_| place < end) else { return Ok(None) };
        let mut part =
            WalkedPart { next: place + 1, end, is_young: self.is_young(stripe), ..WalkedPart::default() };
        let Some(_pin) = self.reader.stripes.pin([stripe]) else { return Ok(Some(part)) };
        let Some(items) = self.reader.contents(stripe) else { return Ok(Some(part)) };
        let live = self.directory.live(stripe, &items);
        if live.is_empty() {
            return Ok(Some(part));
        }
        let stripe_at = self.geometry.stripe_at(stripe);
        assert!(live.iter().all(|live| self.geometry.stripe_of(live.entry.position()) == Some(stripe)));
        let mut pages = AlignedPages::zeroed(self.geometry.stripe_bytes as usize);
        let read = self.file.read_pages(&mut pages, stripe_at);
        read.map_err(|source| self.file.failed("read the volume's objects", source))?;
        part.bytes_read = self.geometry.stripe_bytes;
        for live in live {
            let at = live.entry.position();
            let record = &pages.as_ref()[(at - stripe_at) as usize..];
            let Ok(head) = self.reader.decode_head(record, at) else { continue };
            let Some((full_key, _)) = head.key_and_metadata(record) else { continue };
            let is_wanted = live.entry.hits() > 0 || live.item.is_pinned;
            let bytes = live.entry.bytes().max(head.body_bytes);
            debug_assert!(bytes > 0, "an object without a record");
            part.objects.push(WalkedObject { key: ObjectKey::new(full_key), bytes, is_wanted });
        }
        Ok(Some(part))
    }

    /// Returns `true` if a stripe was written after the one that the log takes next.
    fn is_young(&self, stripe: u32) -> bool {
        let ring = self.ring_end.load(Relaxed);
        let cursor = self.writer.lock().stripe;
        let next = if cursor + 1 >= ring { 0 } else { cursor + 1 };
        assert!(next < ring && ring <= self.geometry.stripes);
        let sequence = |stripe| self.directory.table.stripe_sequence(stripe);
        next >= self.directory.written_stripes.load(Relaxed) || sequence(stripe) > sequence(next)
    }
}

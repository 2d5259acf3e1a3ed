//! Other metadata for an object that is stored: in the queue, in place on the disk, or by writing the object anew.

use super::Volume;
use super::format::{HEAD_BYTES, Head, Kind, METADATA_MAX};
use super::pages::Pages;
use super::pending::{Change, Pending, PendingBody, Queued};
use super::read::Found;
use crate::Error;
use crate::door::{PAGE_BYTES, write_full};
use bytes::Bytes;
use shoal_core::ObjectKey;
use std::sync::Arc;

impl Volume {
    pub(super) fn update_metadata(
        self: &Arc<Self>,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        if metadata.len() > METADATA_MAX as usize {
            return Ok(false);
        }
        let waiting = self.queue.lock().find(key.hash()).map(Arc::clone);
        if let Some(object) = waiting.filter(|object| object.key == *key) {
            match object.change(metadata, replaces) {
                Change::Done => return Ok(true),
                Change::Refused => return Ok(false),
                // It will be on the disk in a moment.
                Change::TooLate => drop(self.flush(true)?),
            }
        }
        let Some(found) = self.find(key)? else { return Ok(false) };
        let is_wanted = found.head.key_and_metadata(&found.record).is_some_and(|(_, old)| replaces(old));
        if !is_wanted {
            return Ok(false);
        }
        if metadata.len() <= found.head.room as usize {
            return self.replace_in_place(key, &found, metadata).map(|()| true);
        }
        self.write_anew(key, &found, metadata)
    }

    /// Writes the pages that head, key and metadata stand in.
    fn replace_in_place(&self, key: &ObjectKey, found: &Found, metadata: &[u8]) -> Result<(), Error> {
        let _updating = self.updating.lock();
        let position = found.entry.position();
        let length = found.head.payload_at() as u64;
        let page = PAGE_BYTES as u64;
        let from = position / page * page;
        let to = (position + length).next_multiple_of(page);
        let mut pages = Pages::zeroed((to - from) as usize);
        self.read_pages(&mut pages, from)
            .map_err(|source| self.failed("read metadata from the volume", source))?;
        let head = Head { metadata_bytes: metadata.len() as u32, ..found.head };
        let at = (position - from) as usize;
        let out = &mut pages.as_mut()[at..at + length as usize];
        head.encode(key.full(), metadata, out);
        let outcome = write_full(&*self.data, pages.as_ref(), from);
        self.windows.forget(from..to);
        outcome.map_err(|source| self.failed("write metadata to the volume", source))
    }

    /// Queues the object with its new metadata. A large one keeps what it has: it is validated again.
    fn write_anew(self: &Arc<Self>, key: &ObjectKey, found: &Found, metadata: &[u8]) -> Result<bool, Error> {
        if found.head.kind != Kind::Whole
            || metadata.len() + HEAD_BYTES > self.geometry.stripe_bytes as usize / 4
        {
            return Ok(false);
        }
        let Some(body) = found.head.payload(&found.record) else { return Ok(false) };
        let body = PendingBody::Whole(Bytes::copy_from_slice(body));
        let metadata = Bytes::copy_from_slice(metadata);
        let hits = found.entry.hits();
        let object = Pending::new(key.clone(), found.head.id, hits, metadata, body);
        self.append(Queued::Object(object)).map(|()| true)
    }
}

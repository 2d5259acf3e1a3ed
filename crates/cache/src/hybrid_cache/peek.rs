//! A look at an object for people: no hit, no promotion, no change of order.

use super::super::metadata::ObjectMetadata;
use super::HybridCache;
use crate::io_pool::JobKind;
use shoal_core::ObjectKey;
use std::sync::Arc;

/// An object at which somebody looked.
pub struct PeekedObject {
    /// Metadata of the object.
    pub record: ObjectMetadata,
    /// Length of the body.
    pub body_bytes: u64,
    /// `true` if RAM has the object.
    pub in_memory: bool,
    /// `true` if the disk has the object.
    pub on_disk: bool,
}

impl HybridCache {
    /// Looks at the objects in RAM. Returns the first `limit` answers of `look`, and the number of
    /// further ones.
    pub fn look_at_memory<T>(
        &self,
        limit: usize,
        look: impl Fn(&ObjectKey, &ObjectMetadata) -> Option<T>,
    ) -> (Vec<T>, usize) {
        self.memory.look_at_all(limit, |resident| look(&resident.key, &resident.record))
    }

    /// Looks at the object in RAM, or else on disk.
    ///
    /// # Errors
    /// If the disk does not answer, or fails.
    pub async fn peek(&self, key: &ObjectKey) -> Result<Option<PeekedObject>, String> {
        let on_disk = self.on_disk(key) && !self.removals.is_hidden(key);
        if let Some(resident) = self.memory.peek(key.hash()).filter(|resident| resident.key == *key) {
            let (record, body_bytes) = (resident.record.clone(), resident.body.len() as u64);
            debug_assert!(record.is_for_everybody(), "shared responses alone are stored");
            return Ok(Some(PeekedObject { record, body_bytes, in_memory: true, on_disk }));
        }
        let Some(disk) = self.disk.as_ref().filter(|_| on_disk) else { return Ok(None) };
        let (store, wanted) = (Arc::clone(disk), key.clone());
        let read = JobKind::Read { at: disk.position(key) };
        let looked = self.disk_queue_for(key).run(read, move || store.peek(&wanted)).await;
        let found = looked.map_err(|_| "the disk does not answer".to_owned())?;
        let Some(found) = found.map_err(|error| error.to_string())? else { return Ok(None) };
        let record = ObjectMetadata::decode(&found.metadata).filter(ObjectMetadata::is_for_everybody);
        let body_bytes = found.body_bytes;
        Ok(record.map(|record| PeekedObject { record, body_bytes, in_memory: false, on_disk: true }))
    }
}

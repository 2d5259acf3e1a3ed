//! A store that an earlier version made: it may hold objects whose keys were hashed without a secret.
//!
//! Such an object is found under its earlier key when there is none under its own. What is stored anew
//! gets its own key and takes the place of the earlier one. So nothing that a store holds is lost with
//! the secret, and nobody outside can choose what a new object displaces.
//!
//! Cost: a second look at the index for what it does not hold. It touches no device.

use crate::{AtOnce, Error, GaveUp, Insert, Store, Stored, StoredBody, Usage};
use bytes::Bytes;
use shoal_core::{Key, ObjectKey};
use std::sync::Arc;

/// A store with objects of two kinds of key.
pub(super) struct Earlier(pub Arc<dyn Store>);

impl Earlier {
    /// The earlier key, if an object may stand under it.
    fn earlier(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let earlier = key.earlier();
        (self.0.may_contain(&earlier) || !self.0.knows_all()).then_some(earlier)
    }

    /// Removes an older object, which must not come back when the newer one has gone.
    fn supersede(&self, key: &ObjectKey) -> Result<(), Error> {
        self.earlier(key).map_or(Ok(()), |earlier| self.0.remove(&earlier).map(drop))
    }
}

impl Store for Earlier {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn lane(&self, key: Key) -> usize {
        self.0.lane(key)
    }

    fn may_contain(&self, key: &ObjectKey) -> bool {
        self.0.may_contain(key) || self.0.may_contain(&key.earlier())
    }

    fn serves(&self) -> bool {
        self.0.serves()
    }

    fn knows_all(&self) -> bool {
        self.0.knows_all()
    }

    fn position(&self, key: &ObjectKey) -> Option<u64> {
        self.0.position(key).or_else(|| self.0.position(&key.earlier()))
    }

    fn open(&self, key: &ObjectKey) -> Result<Option<Stored>, Error> {
        match self.0.open(key)? {
            Some(stored) => Ok(Some(stored)),
            None => self.earlier(key).map_or(Ok(None), |earlier| self.0.open(&earlier)),
        }
    }

    fn open_at_once(&self, key: &ObjectKey) -> Option<Stored> {
        // An own object that is on the disk is newer than an earlier one at hand.
        let at_hand = self.0.open_at_once(key);
        at_hand.or_else(|| match self.0.may_contain(key) {
            true => None,
            false => self.0.open_at_once(&key.earlier()),
        })
    }

    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        let insert = self.0.insert(key, metadata, body_bytes)?;
        Ok(Box::new(Superseding { insert, key: key.clone(), store: Self(Arc::clone(&self.0)) }))
    }

    fn insert_at_once(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body: &Bytes,
        still: &dyn Fn() -> bool,
    ) -> Result<AtOnce, Error> {
        // To remove the earlier one may take the device.
        match self.earlier(key) {
            Some(_) => Ok(AtOnce::MustWait),
            None => self.0.insert_at_once(key, metadata, body, still),
        }
    }

    fn write_due(&self, key: Key) -> Result<(), Error> {
        self.0.write_due(key)
    }

    fn update_metadata(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        let is_done = self.0.update_metadata(key, metadata, replaces)?;
        match self.earlier(key).filter(|_| !is_done && !self.0.may_contain(key)) {
            Some(earlier) => self.0.update_metadata(&earlier, metadata, replaces),
            None => Ok(is_done),
        }
    }

    fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        // Both are tried, whatever became of the first.
        let (own, earlier) = (self.0.remove(key), self.earlier(key).map(|key| self.0.remove(&key)));
        Ok(own? | earlier.transpose()?.unwrap_or(false))
    }

    fn give_up_disk(&self, lane: usize, key: &ObjectKey) -> bool {
        self.0.give_up_disk(lane, key)
    }

    fn body_within(&self, stored_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
        self.0.body_within(stored_bytes, key_bytes, metadata_bytes)
    }

    fn tell(&self, gave_up: GaveUp) {
        self.0.tell(gave_up);
    }

    fn usage(&self) -> Usage {
        self.0.usage()
    }

    fn close(&self) -> Result<(), Error> {
        self.0.close()
    }
}

/// An insert that removes the earlier object once it is visible.
struct Superseding {
    insert: Box<dyn Insert>,
    key: ObjectKey,
    store: Earlier,
}

impl Insert for Superseding {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.insert.append(bytes)
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        self.insert.body()
    }

    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error> {
        self.insert.commit(metadata)?;
        self.store.supersede(&self.key)
    }

    fn lane(&self) -> usize {
        self.insert.lane()
    }
}

//! Store that hashes its keys with another secret than this process.
//!
//! The store has the secret of another node when its disk was moved, or came into service after
//! other disks. A store of an earlier version may hold objects with keys hashed without a secret.
//! An object under an earlier key is found when no object stands under its own key. A new object
//! gets its own key and takes the place of the earlier object. A change of secret therefore loses
//! no stored object, and no outsider can choose which object a new one displaces.
//!
//! Callbacks for evicted objects get the store's keys. The RAM tier of another process does not
//! know these keys, and keeps no copy for the disk's sake.
//!
//! Cost: one hash, and a second index lookup for keys that the index lacks. No device access.

use super::signature::{Keys, Signature};
use crate::fs::{Access, DeviceFs, FileSystem, OsBlockDevice, OsFs};
use crate::{
    Error, EvictionCallback, Insert, ObjectSummary, OpenObject, Peek, PromptStore, RingView, Store,
    StoreUpkeep, StoreView, StoredBody, TryInsert, Usage, WalkedPart,
};
use bytes::Bytes;
use shoal_core::{Key, KeySecret, ObjectKey};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Store with keys of its own.
pub(super) struct KeyedStore {
    pub store: Arc<dyn Store>,
    pub keys: Keys,
}

impl KeyedStore {
    /// Returns `true` if the store's keys need no translation.
    pub fn is_idle(keys: &Keys) -> bool {
        keys.secret == KeySecret::installed() && !keys.came_later
    }

    /// Returns the key under which the store has the object.
    fn own(&self, key: &ObjectKey) -> ObjectKey {
        match self.keys.secret == KeySecret::installed() {
            true => key.clone(),
            false => key.under(self.keys.secret),
        }
    }

    /// Returns the earlier key, if an object may stand under it.
    fn earlier(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let earlier = self.keys.came_later.then(|| key.earlier())?;
        (self.store.may_contain(&earlier) || !self.store.index_is_complete()).then_some(earlier)
    }

    /// Removes an older object, so that it does not come back when the newer one has gone.
    fn supersede(&self, key: &ObjectKey) -> Result<(), Error> {
        self.earlier(key).map_or(Ok(()), |earlier| self.store.remove(&earlier).map(drop))
    }
}

impl Store for KeyedStore {
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        match self.store.open(&self.own(key))? {
            Some(stored) => Ok(Some(stored)),
            None => self.earlier(key).map_or(Ok(None), |earlier| self.store.open(&earlier)),
        }
    }

    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        let insert = self.store.insert(&self.own(key), metadata, body_bytes)?;
        let store = Self { store: Arc::clone(&self.store), keys: self.keys };
        Ok(Box::new(SupersedingInsert { insert, key: key.clone(), store }))
    }

    fn update_metadata(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        let own = self.own(key);
        let is_done = self.store.update_metadata(&own, metadata, replaces)?;
        match self.earlier(key).filter(|_| !is_done && !self.store.may_contain(&own)) {
            Some(earlier) => self.store.update_metadata(&earlier, metadata, replaces),
            None => Ok(is_done),
        }
    }

    fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        // Both removals are tried, even if the first fails.
        let own = self.store.remove(&self.own(key));
        let earlier = self.earlier(key).map(|earlier| self.store.remove(&earlier));
        Ok(own? | earlier.transpose()?.unwrap_or(false))
    }

    fn close(&self) -> Result<(), Error> {
        self.store.close()
    }
}

impl PromptStore for KeyedStore {
    fn try_open(&self, key: &ObjectKey) -> Option<OpenObject> {
        let own = self.own(key);
        // An object under its own key on disk is newer than an earlier object in memory.
        let earlier = || self.earlier(key).filter(|_| !self.store.may_contain(&own));
        let at_hand = self.store.try_open(&own);
        at_hand.or_else(|| self.store.try_open(&earlier()?))
    }

    fn try_insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body: &Bytes,
        still: &dyn Fn() -> bool,
    ) -> Result<TryInsert, Error> {
        // Removing the earlier object may need the device.
        match self.earlier(key) {
            Some(_) => Ok(TryInsert::WouldBlock),
            None => self.store.try_insert(&self.own(key), metadata, body, still),
        }
    }
}

impl StoreView for KeyedStore {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn disk_index(&self, key: Key) -> usize {
        self.store.disk_index(key)
    }

    fn may_contain(&self, key: &ObjectKey) -> bool {
        self.store.may_contain(&self.own(key)) || self.earlier(key).is_some()
    }

    fn is_in_service(&self) -> bool {
        self.store.is_in_service()
    }

    fn object_max_bytes(&self) -> u64 {
        self.store.object_max_bytes()
    }

    fn index_is_complete(&self) -> bool {
        self.store.index_is_complete()
    }

    fn position(&self, key: &ObjectKey) -> Option<u64> {
        let earlier = || self.earlier(key).and_then(|earlier| self.store.position(&earlier));
        self.store.position(&self.own(key)).or_else(earlier)
    }

    fn largest_body_within(&self, stored_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
        self.store.largest_body_within(stored_bytes, key_bytes, metadata_bytes)
    }

    fn usage(&self) -> Usage {
        self.store.usage()
    }

    fn ring(&self) -> Option<RingView> {
        self.store.ring()
    }
}

impl StoreUpkeep for KeyedStore {
    fn flush_due(&self, key: Key) -> Result<(), Error> {
        self.store.flush_due(key)
    }

    fn fail_disk(&self, lane: usize, key: &ObjectKey) -> bool {
        self.store.fail_disk(lane, &self.own(key))
    }

    fn release(&self) -> Result<(), Error> {
        self.store.release()
    }

    fn walk(&self, place: u64) -> Result<Option<WalkedPart>, Error> {
        // The keys are hashed anew from their bytes.
        self.store.walk(place)
    }

    fn confine(&self, bytes: u64) -> Result<Option<u64>, Error> {
        self.store.confine(bytes)
    }

    fn trim(&self) -> Result<(), Error> {
        self.store.trim()
    }

    fn on_evicted(&self, gave_up: EvictionCallback) {
        self.store.on_evicted(gave_up);
    }
}

impl Peek for KeyedStore {
    fn peek(&self, key: &ObjectKey) -> Result<Option<ObjectSummary>, Error> {
        match self.store.peek(&self.own(key))? {
            Some(found) => Ok(Some(found)),
            None => self.earlier(key).map_or(Ok(None), |earlier| self.store.peek(&earlier)),
        }
    }
}

/// Insert that removes the earlier object once the new one is visible.
struct SupersedingInsert {
    insert: Box<dyn Insert>,
    key: ObjectKey,
    store: KeyedStore,
}

impl Insert for SupersedingInsert {
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

    fn disk_index(&self) -> usize {
        self.insert.disk_index()
    }
}

/// Refuses to serve a store that a replay made: the hashing of its keys is public.
pub(super) fn check_secret(files: &dyn FileSystem) -> Result<(), Error> {
    let keys = read(files)?.and_then(|signature| signature.keys);
    let is_open = keys.is_some_and(|keys| keys.secret == KeySecret::NONE);
    if is_open && KeySecret::installed() != KeySecret::NONE {
        return Err(Error::Unusable(
            "a replay made the store, whose keys have no secret; give the node another folder".into(),
        ));
    }
    Ok(())
}

/// Returns how the store's keys are hashed. A store of an earlier version gets the secret of this
/// process.
pub(super) fn take_keys(name: &str, parameters: [u32; 4], files: &dyn FileSystem) -> Result<Keys, Error> {
    let failed = |error: io::Error| Error::Unusable(format!("could not sign the store: {error}"));
    let keys = Keys { secret: KeySecret::installed(), came_later: true };
    match read(files)? {
        Some(Signature { keys: Some(stored), .. }) => Ok(stored),
        Some(mut signature) => signature.add_keys(keys, files).map_err(failed).map(|()| keys),
        // A store older than signatures.
        None => {
            let architecture = name.to_owned();
            let signature = Signature { architecture, parameters, keys: Some(keys) };
            signature.write(files).map_err(failed).map(|()| keys)
        }
    }
}

/// Returns the secret that hashes the keys of the store in a folder or on a block device. Returns
/// `None` when there is no store, when the store cannot be read, and for stores without a secret:
/// those of an earlier version or made by a replay.
pub fn secret_of(directory: &Path) -> Option<KeySecret> {
    let files: Arc<dyn FileSystem> = match OsBlockDevice::is_one(directory) {
        true => Arc::new(
            DeviceFs::open(Box::new(OsBlockDevice::open(directory, Access::Read).ok()?), Access::Read)
                .ok()?,
        ),
        false => Arc::new(OsFs::open(directory).ok()?),
    };
    let keys = Signature::read(&*files).ok()??.keys;
    keys.map(|keys| keys.secret).filter(|secret| *secret != KeySecret::NONE)
}

fn read(files: &dyn FileSystem) -> Result<Option<Signature>, Error> {
    let failed = |error| Error::Unusable(format!("could not read how the store's keys are hashed: {error}"));
    Signature::read(files).map_err(failed)
}

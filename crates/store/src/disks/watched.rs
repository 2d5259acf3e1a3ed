//! Bodies and inserts of one of several disks: they name their disk, and count its failures.

use super::DisksState;
use super::serving::OpenStore;
use crate::{Error, Insert, StoredBody};
use bytes::Bytes;
use shoal_core::ObjectKey;
use std::sync::Arc;

/// A body on one of the disks.
pub(super) struct MeteredBody {
    body: Arc<dyn StoredBody>,
    at: usize,
    shared: Arc<DisksState>,
    /// Store of the body; the body keeps it open.
    store: Arc<OpenStore>,
}

impl MeteredBody {
    pub(super) fn new(
        body: Arc<dyn StoredBody>,
        at: usize,
        shared: &Arc<DisksState>,
        store: Arc<OpenStore>,
    ) -> Self {
        assert!(at < shared.disks.len());
        Self { body, at, shared: Arc::clone(shared), store }
    }
}

impl StoredBody for MeteredBody {
    fn length(&self) -> u64 {
        self.body.length()
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        self.shared.record_result((self.at, &self.store), self.body.read(offset, limit))
    }

    fn read_at_once(&self, offset: u64, limit: usize) -> Option<Bytes> {
        self.body.read_at_once(offset, limit)
    }

    fn read_near(&self, offset: u64, limit: usize) -> Option<Bytes> {
        self.body.read_near(offset, limit)
    }

    fn detached(&self) -> Option<Arc<dyn StoredBody>> {
        Some(Arc::new(Self::new(self.body.detached()?, self.at, &self.shared, Arc::clone(&self.store))))
    }

    fn position(&self, offset: u64) -> Option<u64> {
        self.body.position(offset)
    }

    fn disk_index(&self) -> usize {
        self.at
    }
}

/// An object that is being written to one of the disks.
pub(super) struct MeteredInsert {
    insert: Box<dyn Insert>,
    key: ObjectKey,
    at: usize,
    shared: Arc<DisksState>,
    /// Store written to; the insert keeps it open.
    store: Arc<OpenStore>,
    begun: BegunInsert,
}

/// Count of an insert that has begun and not ended.
pub(super) struct BegunInsert {
    at: usize,
    shared: Arc<DisksState>,
}

impl MeteredInsert {
    /// Wraps an insert of this key that has begun.
    pub(super) fn new(
        insert: Box<dyn Insert>,
        (key, begun): (ObjectKey, BegunInsert),
        shared: &Arc<DisksState>,
        store: Arc<OpenStore>,
    ) -> Self {
        Self { insert, key, at: begun.at, shared: Arc::clone(shared), store, begun }
    }
}

impl BegunInsert {
    /// Counts an insert on this disk, until the value is dropped.
    pub(super) fn new(at: usize, shared: &Arc<DisksState>) -> Self {
        assert!(at < shared.disks.len());
        shared.disks[at].count_insert(true);
        Self { at, shared: Arc::clone(shared) }
    }
}

impl Drop for BegunInsert {
    fn drop(&mut self) {
        self.shared.disks[self.at].count_insert(false);
    }
}

impl Insert for MeteredInsert {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.shared.record_result((self.at, &self.store), self.insert.append(bytes))
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        Arc::new(MeteredBody::new(self.insert.body(), self.at, &self.shared, Arc::clone(&self.store)))
    }

    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error> {
        let Self { insert, key, at, shared, store, begun: _begun } = *self;
        let turn = shared.carrying.now();
        shared.record_result((at, &store), insert.commit(metadata))?;
        shared.supersede(&key, (at, &store), turn);
        Ok(())
    }

    fn disk_index(&self) -> usize {
        self.at
    }
}

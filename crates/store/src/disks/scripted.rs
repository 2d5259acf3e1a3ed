//! Store in RAM with calls that a test interrupts at chosen places.

use super::{DiskOpener, DiskSpec};
use crate::{
    Error, Insert, InsertRefusal, ObjectSummary, OpenObject, Peek, PromptStore, Store, StoreUpkeep,
    StoreView, StoredBody, Usage, WalkedObject, WalkedPart,
};
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use std::collections::HashMap;
use std::sync::Arc;

/// Call that a test can interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptedCall {
    Open,
    /// Call to `may_contain`.
    Look,
    BeginInsert,
    Remove,
}

type Objects = HashMap<ObjectKey, (Bytes, Bytes)>;
type Interruption = Box<dyn FnOnce() + Send>;

/// Disk with objects that outlive its store.
#[derive(Default)]
pub(super) struct Medium {
    objects: Mutex<Objects>,
    next: Mutex<Option<(ScriptedCall, Interruption)>>,
    /// The store has not read its index yet, and finds nothing.
    is_recovering: Mutex<bool>,
}

/// Store over a medium.
struct ScriptedStore {
    medium: Arc<Medium>,
    /// Objects that this store sees after it was closed or released. Its changes are lost then.
    late: Mutex<Option<Objects>>,
    is_released: Mutex<bool>,
}

struct ScriptedInsert {
    store: Arc<ScriptedStore>,
    key: ObjectKey,
    metadata: Bytes,
    body: Vec<u8>,
}

struct ScriptedBody(Bytes);

impl Medium {
    /// Calls `work` once, at the beginning of the next such call.
    pub(super) fn interrupt(&self, step: ScriptedCall, work: impl FnOnce() + Send + 'static) {
        let before = self.next.lock().replace((step, Box::new(work)));
        assert!(before.is_none(), "the interruption before has not come");
    }

    /// Returns `true` if the last interruption has come.
    pub(super) fn was_interrupted(&self) -> bool {
        self.next.lock().is_none()
    }

    /// Forgets an interruption that has not come.
    pub(super) fn go_on(&self) {
        *self.next.lock() = None;
    }

    /// Begins or ends a time in which the store has not read its index.
    pub(super) fn recover(&self, is_under_way: bool) {
        *self.is_recovering.lock() = is_under_way;
    }

    pub(super) fn empty(&self) {
        self.objects.lock().clear();
    }

    pub(super) fn disk(self: &Arc<Self>, name: &str) -> (DiskSpec, DiskOpener) {
        let medium = Arc::clone(self);
        let opener: DiskOpener = Arc::new(move || {
            medium.reach(ScriptedCall::Open);
            let store = ScriptedStore {
                medium: Arc::clone(&medium),
                late: Mutex::default(),
                is_released: Mutex::default(),
            };
            Ok(Arc::new(Handle(Arc::new(store))) as Arc<dyn Store>)
        });
        (DiskSpec { path: name.into(), bytes: 1 << 20 }, opener)
    }

    fn reach(&self, step: ScriptedCall) {
        let work = {
            let mut next = self.next.lock();
            if next.as_ref().is_some_and(|(at, _)| *at == step) { next.take() } else { None }
        };
        if let Some((_, work)) = work {
            work();
        }
    }
}

impl ScriptedStore {
    fn with<T>(&self, work: impl FnOnce(&mut Objects) -> T) -> T {
        let mut late = self.late.lock();
        match &mut *late {
            Some(objects) => work(objects),
            None => work(&mut self.medium.objects.lock()),
        }
    }

    fn end(&self) {
        let mut late = self.late.lock();
        if late.is_none() {
            *late = Some(self.medium.objects.lock().clone());
        }
    }
}

/// The store as its disk holds it.
struct Handle(Arc<ScriptedStore>);

impl Store for Handle {
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        let found = self.0.with(|objects| objects.get(key).cloned());
        let found = found.filter(|_| self.index_is_complete());
        Ok(found.map(|(metadata, body)| OpenObject { metadata, body: Arc::new(ScriptedBody(body)) }))
    }

    fn insert(&self, key: &ObjectKey, metadata: &[u8], _: Option<u64>) -> Result<Box<dyn Insert>, Error> {
        self.0.medium.reach(ScriptedCall::BeginInsert);
        let (store, metadata) = (Arc::clone(&self.0), Bytes::copy_from_slice(metadata));
        Ok(Box::new(ScriptedInsert { store, key: key.clone(), metadata, body: Vec::new() }))
    }

    fn update_metadata(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        Ok(self.0.with(|objects| match objects.get_mut(key) {
            Some((old, _)) if replaces(old) => {
                *old = Bytes::copy_from_slice(metadata);
                true
            }
            _ => false,
        }))
    }

    fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        self.0.medium.reach(ScriptedCall::Remove);
        Ok(self.0.with(|objects| objects.remove(key).is_some()))
    }

    fn close(&self) -> Result<(), Error> {
        self.0.end();
        Ok(())
    }
}

impl PromptStore for Handle {}

impl StoreView for Handle {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn may_contain(&self, key: &ObjectKey) -> bool {
        self.0.medium.reach(ScriptedCall::Look);
        self.index_is_complete() && self.0.with(|objects| objects.contains_key(key))
    }

    fn index_is_complete(&self) -> bool {
        !*self.0.medium.is_recovering.lock()
    }

    fn usage(&self) -> Usage {
        let objects = self.0.with(|objects| objects.len() as u64);
        Usage { objects, bytes_max: 1 << 20, ..Usage::default() }
    }
}

impl StoreUpkeep for Handle {
    fn release(&self) -> Result<(), Error> {
        self.0.end();
        *self.0.is_released.lock() = true;
        Ok(())
    }

    fn walk(&self, place: u64) -> Result<Option<WalkedPart>, Error> {
        let object = |key: &ObjectKey| WalkedObject { key: key.clone(), bytes: 10, is_wanted: true };
        let objects = self.0.with(|objects| objects.keys().map(object).collect());
        Ok((place == 0).then(|| WalkedPart { objects, next: 1, end: 1, ..WalkedPart::default() }))
    }

    fn confine(&self, _: u64) -> Result<Option<u64>, Error> {
        Ok(Some(0))
    }
}

impl Peek for Handle {
    fn peek(&self, key: &ObjectKey) -> Result<Option<ObjectSummary>, Error> {
        Ok(self.open(key)?.map(Into::into))
    }
}

impl Insert for ScriptedInsert {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        Arc::new(ScriptedBody(Bytes::copy_from_slice(&self.body)))
    }

    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error> {
        if *self.store.is_released.lock() {
            return Err(Error::Declined(InsertRefusal::OutOfService));
        }
        let metadata = metadata.map_or_else(|| self.metadata.clone(), Bytes::copy_from_slice);
        self.store.with(|objects| objects.insert(self.key.clone(), (metadata, self.body.clone().into())));
        Ok(())
    }
}

impl StoredBody for ScriptedBody {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        let start = (offset as usize).min(self.0.len());
        Ok(self.0.slice(start..start.saturating_add(limit).min(self.0.len())))
    }
}

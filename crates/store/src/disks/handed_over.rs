//! Hand-over of the disks to another process, and back.
//!
//! ```text
//! in service ─► released: read here, written by the other process ─► gone with this process
//!      ▲                            │
//!      └────── opened again ◄───────┘ the other process does not come up
//! ```
//!
//! A released disk serves hits and takes nothing. Objects that would be inserted are given to an
//! [`Heir`](super::Heir). Objects that were inserted, replaced or removed are hidden here, and
//! remembered: when this process opens the disk again, they are removed from it. A store that two
//! processes cannot read at once goes out of service instead.

use super::disk::Disk;
use super::serving::OpenStore;
use super::{Disks, DisksState, Heir, Ready, ServiceState, may_come};
use crate::patience::all_within;
use crate::{Error, Store};
use parking_lot::{Condvar, Mutex};
use shoal_core::ObjectKey;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

impl Disks {
    /// Writes everything and lets another process open the disks. `heir` gets all that comes too
    /// late. If a disk cannot be released, all are in service as before. Blocks, for at most 10 s
    /// (`RELEASE_WAIT_MAX`).
    ///
    /// # Errors
    /// The first disk's failure.
    pub fn release(&self, heir: Arc<dyn Heir>) -> Result<(), Error> {
        *self.shared.heir.write() = Some(heir);
        let release = |at: usize| {
            let shared = Arc::clone(&self.shared);
            move || shared.disks[at].release()
        };
        let jobs = (0..self.shared.disks.len()).map(release).collect();
        let released = all_within(RELEASE_WAIT_MAX, "shoal-release", jobs);
        let late = || Error::Unusable("a disk does not answer and cannot be handed over".into());
        let outcome = released.into_iter().try_for_each(|done| done.unwrap_or_else(|| Err(late())));
        if outcome.is_err() {
            self.take_back(&(Arc::new(|| Ok(())) as Ready));
        }
        outcome
    }

    /// Opens the released disks again. A disk that cannot be opened is out of service until it is
    /// [opened again](Self::open_again). Calls `ready` once a store is open, before it serves.
    pub fn take_back(&self, ready: &Ready) {
        *self.shared.heir.write() = None;
        for disk in self.shared.disks.iter().filter(|disk| disk.is_away()) {
            match disk.take_back(self.shared.gave_up.get(), &**ready) {
                Ok(()) => info!(disk = disk.path(), "the disk is in service again"),
                Err(error) => warn!(disk = disk.path(), %error, "the disk cannot be used yet"),
            }
        }
    }
}

impl DisksState {
    /// Returns the disk in service that has this key, if this process may write to it.
    pub(super) fn writable(&self, key: &ObjectKey) -> Option<(usize, Arc<OpenStore>)> {
        self.disk_for(key.hash()).filter(|(at, _)| !self.disks[*at].is_released())
    }

    /// Removes an object from a released disk: it is hidden here. Returns `true` if it may have
    /// been there.
    pub(super) fn remove_released(&self, at: usize, store: &dyn Store, key: &ObjectKey) -> bool {
        may_come(store, key) && self.disks[at].store_for(key).is_some()
    }
}

impl Disk {
    /// Lets another process open the disk. A disk that is out of service stays so.
    pub(super) fn release(&self) -> Result<(), Error> {
        let Some(store) = self.store() else { return Ok(()) };
        assert!(!self.is_released(), "a disk that is released twice");
        self.set_released(true);
        // Objects of these inserts are written with the others.
        self.wait_for_inserts(INSERTS_WAIT_MAX);
        match store.release() {
            Ok(()) => Ok(()),
            Err(Error::Unusable(_)) => {
                self.stay(&store);
                self.release_whole(store)
            }
            Err(error) => {
                self.stay(&store);
                Err(error)
            }
        }
    }

    /// Takes a disk out of service for another process, once nobody reads it.
    fn release_whole(&self, store: Arc<OpenStore>) -> Result<(), Error> {
        let (pause, unheard, mut looks) = (Mutex::new(()), Condvar::new(), 0);
        // The disk and this function hold the store too.
        while Arc::strong_count(&store) > 2 {
            looks += 1;
            if looks > READER_LOOKS_MAX {
                let (path, readers) = (self.path(), Arc::strong_count(&store) - 2);
                return Err(Error::Unusable(format!(
                    "{path} is in use by {readers} requests, and {} lets no second process read it; ask again when \
                     they have ended",
                    store.name()
                )));
            }
            // Nobody tells when a reader leaves.
            let _ = unheard.wait_for(&mut pause.lock(), READER_LOOK_PAUSE);
        }
        debug_assert!(!self.is_released(), "changes would be lost");
        drop(store);
        let Some(store) = self.take_offline(ServiceState::Released, "another process has it") else {
            return Ok(());
        };
        let closed = store.close();
        drop(store);
        closed?;
        self.wait_until_it_is_free()
    }

    /// Returns `true` if another process has the disk.
    fn is_away(&self) -> bool {
        self.is_released() || self.is_out_as(ServiceState::Released)
    }

    pub(super) fn take_back(
        &self,
        gave_up: Option<&crate::EvictionCallback>,
        ready: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _coming = self.coming()?;
        if self.is_released() {
            assert!(self.is_in_service(), "a released disk is read");
            // Readers keep the earlier store, which has let its lock go.
            drop(self.leave(ServiceState::Released, "another process has it"));
            self.set_released(false);
        }
        assert!(!self.is_released() && !self.is_in_service());
        let come = self.come(gave_up, ready, Some(ServiceState::Released)).map(drop);
        if let Err(error) = &come {
            self.retry_later(ServiceState::Released, &error.to_string());
        }
        come
    }
}

/// Longest wait for inserts that have begun: for those of small objects, not for arriving bodies.
const INSERTS_WAIT_MAX: Duration = Duration::from_millis(100);
/// Looks for readers of a disk that two processes cannot read at once.
const READER_LOOKS_MAX: u32 = 400;
/// Pause between two looks; the looks take 2 s in all.
const READER_LOOK_PAUSE: Duration = Duration::from_millis(5);
/// Longest wait for all disks to write everything.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::{DiskOpener, DiskSpec, Disks, LATE_BODY_MAX, LateObject};
    use crate::{InsertRefusal, OpenOptions, StoreView};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    const OBJECTS: u32 = 60;

    #[derive(Default)]
    struct Told {
        objects: Mutex<Vec<LateObject>>,
        removed: Mutex<Vec<ObjectKey>>,
        is_full: AtomicBool,
    }

    impl Heir for Told {
        fn insert(&self, object: LateObject) -> bool {
            let is_taken = !self.is_full.load(SeqCst);
            is_taken.then(|| self.objects.lock().push(object)).is_some()
        }

        fn remove(&self, key: &ObjectKey) {
            self.removed.lock().push(key.clone());
        }
    }

    fn heir() -> Arc<dyn Heir> {
        Arc::new(Told::default())
    }

    fn disks(folder: &Path, architecture: &'static str) -> Disks {
        let open = |name: &str| {
            let options = OpenOptions {
                architecture: architecture.into(),
                directory: folder.join(name),
                disk_bytes: 16 << 20,
                ..OpenOptions::default()
            };
            let opener: DiskOpener = Arc::new(move || crate::open(&options));
            (DiskSpec { path: name.into(), bytes: 16 << 20 }, opener)
        };
        Disks::open(["one", "two"].map(open))
    }

    fn key(number: u32) -> ObjectKey {
        ObjectKey::new(format!("http://a.example/{number}").into_bytes())
    }

    fn put(disks: &Disks, number: u32, version: u32) -> Result<(), Error> {
        let body = body(number, version);
        let mut insert = disks.insert(&key(number), b"meta", Some(body.len() as u64))?;
        insert.append(&body)?;
        insert.commit(None)
    }

    fn body(number: u32, version: u32) -> Vec<u8> {
        format!("{version} of {number} ").into_bytes().repeat(3000)
    }

    fn found(disks: &Disks, number: u32) -> Option<u32> {
        let stored = disks.open(&key(number)).expect("sound")?;
        let read = stored.body.read(0, 1 << 20).expect("sound");
        (0..10).find(|version| body(number, *version).starts_with(&read))
    }

    fn take_back(disks: &Disks) {
        disks.take_back(&(Arc::new(|| Ok(())) as Ready));
    }

    #[test]
    fn released_volume_is_read_by_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let old = disks(folder.path(), "volume");
        (0..OBJECTS).for_each(|number| put(&old, number, 0).expect("stored"));
        let bodies: Vec<_> = (0..OBJECTS).map(|number| old.open(&key(number)).expect("sound")).collect();
        let told = Arc::new(Told::default());
        old.release(Arc::clone(&told) as Arc<dyn Heir>).expect("everything is written");
        let new = disks(folder.path(), "volume");
        assert!(
            new.states().iter().all(|disk| disk.service == ServiceState::InService && !disk.is_recovering)
        );
        for number in 0..OBJECTS {
            assert_eq!((found(&old, number), found(&new, number)), (Some(0), Some(0)), "{number}");
        }
        // The old process takes nothing, and hides changed objects.
        put(&old, 1, 1).expect("the other process gets it");
        let late = LateObject { key: key(1), metadata: b"meta".as_slice().into(), body: body(1, 1).into() };
        assert_eq!(std::mem::take(&mut *told.objects.lock()), [late]);
        told.is_full.store(true, SeqCst);
        let refusal = put(&old, 1, 1).expect_err("too many wait");
        assert!(matches!(refusal, Error::Declined(InsertRefusal::OutOfService)), "{refusal}");
        let large = old.insert(&key(5), b"meta", Some(LATE_BODY_MAX + 1)).map(drop);
        assert!(matches!(large, Err(Error::Declined(InsertRefusal::OutOfService))));
        assert_eq!((found(&old, 1), found(&old, 2)), (None, Some(0)));
        assert_eq!(*told.removed.lock(), []);
        assert!(old.remove(&key(2)).expect("hidden") && !old.remove(&key(2)).expect("hidden"));
        assert!(found(&old, 2).is_none() && !old.may_contain(&key(2)));
        assert_eq!(*told.removed.lock(), [key(2), key(2)]);
        assert_eq!(found(&new, 2), Some(0), "the other process learns of it from its caller");
        put(&new, 3, 7).expect("the new process writes");
        assert_eq!(found(&new, 3), Some(7));
        for (number, stored) in bodies.into_iter().enumerate() {
            let read = stored.expect("opened before").body.read(0, 1 << 20).expect("still there");
            assert!(body(number as u32, 0).starts_with(&read));
        }
        old.close().expect("there is nothing to close");
        drop(old);
        new.close().expect("written");
        drop(new);
        let third = disks(folder.path(), "volume");
        assert_eq!((found(&third, 3), found(&third, 4)), (Some(7), Some(0)));
    }

    #[test]
    fn disks_taken_back_lack_removed_objects() {
        for architecture in ["volume", "squid"] {
            let folder = tempfile::tempdir().expect("a folder");
            let old = disks(folder.path(), architecture);
            (0..OBJECTS).for_each(|number| put(&old, number, 0).expect("stored"));
            for round in 0..3 {
                old.release(heir()).expect("everything is written");
                drop(old.remove(&key(round)));
                drop(put(&old, 10 + round, 1));
                {
                    let new = disks(folder.path(), architecture);
                    assert_eq!(found(&new, 30), Some(0), "{architecture}: the new process has them");
                    assert!(
                        new.states().iter().all(|disk| disk.service == ServiceState::InService),
                        "{architecture}"
                    );
                }
                take_back(&old);
                let states = old.states();
                assert!(states.iter().all(|disk| disk.service == ServiceState::InService), "{states:?}");
                assert_eq!((found(&old, round), found(&old, 10 + round)), (None, None), "{architecture}");
                assert_eq!(found(&old, 30), Some(0), "{architecture}");
                put(&old, 10 + round, 2).expect("it writes again");
                assert_eq!(found(&old, 10 + round), Some(2), "{architecture}");
            }
        }
    }

    #[test]
    fn disk_that_another_process_keeps_is_retried() {
        let folder = tempfile::tempdir().expect("a folder");
        let old = disks(folder.path(), "volume");
        (0..OBJECTS).for_each(|number| put(&old, number, 0).expect("stored"));
        old.release(heir()).expect("everything is written");
        let new = disks(folder.path(), "volume");
        take_back(&old);
        assert!(old.states().iter().all(|disk| disk.service == ServiceState::Unopened));
        drop(new);
        let ready: Ready = Arc::new(|| Ok(()));
        assert!(old.open_again("one", &ready).expect("free") && old.open_again("two", &ready).expect("free"));
        assert_eq!(found(&old, 5), Some(0));
    }

    #[test]
    fn squid_in_use_is_not_released() {
        let folder = tempfile::tempdir().expect("a folder");
        let old = disks(folder.path(), "squid");
        (0..OBJECTS).for_each(|number| put(&old, number, 0).expect("stored"));
        let reading = old.open(&key(1)).expect("sound").expect("there");
        let refusal = old.release(heir()).expect_err("a body is read").to_string();
        assert!(refusal.contains("in use by 1 requests"), "{refusal}");
        assert_eq!((0..OBJECTS).filter(|number| found(&old, *number) == Some(0)).count(), OBJECTS as usize);
        drop(reading);
        old.release(heir()).expect("nobody reads");
        take_back(&old);
        assert_eq!(found(&old, 1), Some(0));
    }
}

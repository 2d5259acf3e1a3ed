//! Changes of a key that meet a change of its disk: no earlier version is found afterwards.
//!
//! Each test interrupts one call at a place where an earlier version could come back.

use super::scripted::{Medium, ScriptedCall};
use super::*;
use crate::{InsertRefusal, Peek, Store, StoreView};
use parking_lot::Mutex;

struct Pair {
    disks: Arc<Disks>,
    one: Arc<Medium>,
    two: Arc<Medium>,
}

impl Pair {
    fn new() -> Self {
        let (one, two): (Arc<Medium>, Arc<Medium>) = Default::default();
        let disks = Arc::new(Disks::open([one.disk("one"), two.disk("two")]));
        Self { disks, one, two }
    }

    /// Returns a key of the first disk, with version 1 stored there.
    fn key(&self) -> ObjectKey {
        let keys = (0..100).map(|number| ObjectKey::new(format!("http://a.example/{number}").into_bytes()));
        let mut keys = keys.filter(|key| self.disks.disk_index(key.hash()) == 0);
        let key = keys.next().expect("one of two");
        put(&self.disks, &key, 1).expect("stored");
        key
    }
}

fn single() -> (Arc<Disks>, Arc<Medium>, ObjectKey) {
    let medium = Arc::<Medium>::default();
    let disks = Arc::new(Disks::open([medium.disk("one")]));
    let key = ObjectKey::new(*b"http://a.example/");
    put(&disks, &key, 1).expect("stored");
    (disks, medium, key)
}

fn put(disks: &Disks, key: &ObjectKey, version: u8) -> Result<(), Error> {
    let mut insert = disks.insert(key, b"meta", Some(1))?;
    insert.append(&[version])?;
    insert.commit(None)
}

fn found(disks: &Disks, key: &ObjectKey) -> Option<u8> {
    let stored = disks.open(key).expect("sound")?;
    stored.body.read(0, 1).expect("sound").first().copied()
}

fn ready() -> Ready {
    Arc::new(|| Ok(()))
}

fn drain(disks: &Disks, path: &str) {
    assert_eq!(disks.drain_step(path, 0).expect("sound").next, None);
}

/// Resize: a change during the opening is applied to the new store while lookups ask the old one.
#[test]
fn resize_hides_changes_until_it_ends() {
    let (disks, medium, key) = single();
    let (inner, at_opening, other) = (Arc::clone(&disks), Arc::clone(&medium), key.clone());
    medium.interrupt(ScriptedCall::Open, move || {
        let refused = put(&inner, &other, 2);
        assert!(matches!(refused, Err(Error::Declined(InsertRefusal::OutOfService))));
        inner.remove(&other).expect("noted");
        assert_eq!(found(&inner, &other), None);
        let (inner, other) = (Arc::clone(&inner), other.clone());
        at_opening.interrupt(ScriptedCall::Remove, move || {
            assert_eq!(found(&inner, &other), None, "not yet removed")
        });
    });
    let (spec, opener) = medium.disk("one");
    disks.resize(&spec, opener, &ready()).expect("resized");
    assert!(medium.was_interrupted());
    assert_eq!(found(&disks, &key), None);
    put(&disks, &key, 3).expect("stored");
    assert_eq!(found(&disks, &key), Some(3));
}

/// Resize: a lookup has taken the old store when the new one takes its place.
#[test]
fn lookup_across_a_resize_misses_changed_key() {
    let pair = Pair::new();
    let key = pair.key();
    pair.disks.shared.disks[0].release().expect("released");
    pair.disks.remove(&key).expect("noted");
    let inner = Arc::clone(&pair.disks);
    let replace = move || inner.shared.disks[0].replace_released(None, &|| Ok(())).expect("opened");
    pair.one.interrupt(ScriptedCall::Look, replace);
    assert_eq!(found(&pair.disks, &key), None);
    pair.one.go_on();
}

/// Release that fails: the disk stays in service, and its store learns of each change.
#[test]
fn failed_release_loses_no_removal() {
    for is_noted_before in [false, true] {
        let (disks, medium, key) = single();
        let disk = &disks.shared.disks[0];
        let store = disk.store().expect("in service");
        disk.set_released(true);
        let (inner, other) = (Arc::clone(&disks), key.clone());
        if is_noted_before {
            disks.remove(&key).expect("noted");
            medium.interrupt(ScriptedCall::Remove, move || assert_eq!(found(&inner, &other), None));
            disk.stay(&store);
        } else {
            let at_look = Arc::clone(&store);
            medium.interrupt(ScriptedCall::Look, move || inner.shared.disks[0].stay(&at_look));
            disks.remove(&key).expect("removed");
        }
        assert!(medium.was_interrupted());
        assert_eq!(found(&disks, &key), None);
    }
}

#[test]
fn note_is_refused_by_a_disk_in_service() {
    let (disks, _, key) = single();
    let disk = &disks.shared.disks[0];
    assert!(!disk.note_if_out(&key, true), "the store must be told");
    disk.set_released(true);
    assert!(disk.note_if_out(&key, true) && disk.store_for(&key).is_none());
}

/// Move, remove: the disk is released between the read of an object and its copy.
#[test]
fn released_disk_gives_no_copy() {
    let pair = Pair::new();
    let key = pair.key();
    pair.disks.begin_leaving("one").expect("known");
    let (inner, other) = (Arc::clone(&pair.disks), key.clone());
    pair.two.interrupt(ScriptedCall::BeginInsert, move || {
        inner.shared.disks[0].release().expect("released");
        inner.remove(&other).expect("noted");
    });
    drain(&pair.disks, "one");
    assert!(pair.two.was_interrupted());
    assert_eq!(found(&pair.disks, &key), None);
}

/// Move, remove: the disk is opened anew between the read of an object and its copy.
#[test]
fn replaced_store_gives_no_copy() {
    let pair = Pair::new();
    let key = pair.key();
    pair.disks.begin_leaving("one").expect("known");
    let (inner, other) = (Arc::clone(&pair.disks), key.clone());
    pair.two.interrupt(ScriptedCall::BeginInsert, move || {
        inner.shared.disks[0].release().expect("released");
        inner.shared.disks[0].replace_released(None, &|| Ok(())).expect("opened");
        inner.remove(&other).expect("removed");
    });
    drain(&pair.disks, "one");
    assert!(pair.two.was_interrupted());
    assert_eq!(found(&pair.disks, &key), None);
}

/// Shrink: a new version looks like the old one, by metadata and length.
#[test]
fn copy_yields_to_a_new_version_that_looks_alike() {
    let (disks, medium, key) = single();
    disks.begin_shrinking("one", 1 << 19).expect("it can be smaller");
    let (inner, other) = (Arc::clone(&disks), key.clone());
    medium.interrupt(ScriptedCall::BeginInsert, move || put(&inner, &other, 2).expect("stored"));
    drain(&disks, "one");
    assert!(medium.was_interrupted());
    assert_eq!(found(&disks, &key), Some(2));
}

/// Remove that is taken back: the original and its copy get the new metadata, or one of them goes.
#[test]
fn updated_metadata_leaves_no_older_copy() {
    let pair = Pair::new();
    let key = pair.key();
    pair.disks.begin_leaving("one").expect("known");
    drain(&pair.disks, "one");
    assert!(pair.disks.update_metadata(&key, b"later", &|_| true).expect("sound"));
    let metadata = || pair.disks.peek(&key).expect("sound").map(|found| found.metadata);
    assert_eq!(metadata().as_deref(), Some(b"later".as_slice()));
    let (spec, opener) = pair.one.disk("one");
    pair.disks.add(spec, opener, &ready(), &|_| Ok(())).expect("it stays");
    assert_eq!(metadata().as_deref(), Some(b"later".as_slice()), "from the first disk");
}

/// Move: the copy is made after the lookup has asked its disk, and the original goes before.
#[test]
fn lookup_follows_an_object_that_moves() {
    let pair = Pair::new();
    let key = pair.key();
    pair.disks.begin_leaving("one").expect("known");
    let inner = Arc::clone(&pair.disks);
    pair.two.interrupt(ScriptedCall::Look, move || {
        drain(&inner, "one");
        inner.end_leaving("one").expect("nobody reads");
    });
    assert_eq!(found(&pair.disks, &key), Some(1));
    assert!(pair.two.was_interrupted());
}

/// Resize or start: the key's own disk has not read its index, and the object is on another.
#[test]
fn recovering_home_hides_no_other_disk() {
    let pair = Pair::new();
    let key = pair.key();
    pair.disks.take_offline("one").expect("known");
    put(&pair.disks, &key, 2).expect("stored on the second disk");
    pair.disks.bring_online("one").expect("opened");
    assert_eq!(found(&pair.disks, &key), Some(2), "version 1 was replaced meanwhile");
    pair.one.recover(true);
    assert_eq!(found(&pair.disks, &key), Some(2), "the second disk has it");
    // A disk that may yet find a removal of the object does not answer for the home.
    pair.two.recover(true);
    assert_eq!(found(&pair.disks, &key), None);
    pair.two.recover(false);
    pair.one.recover(false);
    assert_eq!(found(&pair.disks, &key), Some(2));
}

/// Offline and online: an insert ends on a store that has written its index.
#[test]
fn insert_ending_on_a_closed_store_is_dropped() {
    let (disks, _, key) = single();
    let mut insert = disks.insert(&key, b"meta", Some(1)).expect("taken");
    insert.append(&[2]).expect("taken");
    disks.take_offline("one").expect("known");
    insert.commit(None).expect("late");
    disks.bring_online("one").expect("opened");
    assert_eq!(found(&disks, &key), None);
}

/// Remove and add: nobody has emptied the disk in between.
#[test]
fn removed_disk_returns_only_empty() {
    let pair = Pair::new();
    let key = pair.key();
    pair.disks.begin_leaving("one").expect("known");
    drain(&pair.disks, "one");
    pair.disks.end_leaving("one").expect("nobody reads");
    put(&pair.disks, &key, 2).expect("stored");
    let add = || {
        let (spec, opener) = pair.one.disk("one");
        pair.disks.add(spec, opener, &ready(), &|_| Ok(()))
    };
    assert!(add().is_err(), "it has version 1");
    assert_eq!(found(&pair.disks, &key), Some(2));
    pair.one.empty();
    add().expect("it is empty");
    assert_eq!(found(&pair.disks, &key), Some(2));
}

#[derive(Default)]
struct RemovalList(Mutex<Vec<ObjectKey>>);

impl Heir for RemovalList {
    fn insert(&self, _: LateObject) -> bool {
        true
    }

    fn remove(&self, key: &ObjectKey) {
        self.0.lock().push(key.clone());
    }
}

/// Upgrade: the disk is released when a removal has begun.
#[test]
fn removal_across_a_release_reaches_the_heir() {
    let (disks, medium, key) = single();
    let (inner, told) = (Arc::clone(&disks), Arc::new(RemovalList::default()));
    let heir = Arc::clone(&told);
    medium.interrupt(ScriptedCall::Remove, move || inner.release(heir).expect("released"));
    disks.remove(&key).expect("removed");
    assert!(medium.was_interrupted());
    assert_eq!(*told.0.lock(), std::slice::from_ref(&key));
    assert_eq!(found(&disks, &key), None);
}

/// Upgrade: the home of a key is released before the disk that holds an older object.
#[test]
fn late_object_is_refused_beside_an_older_one() {
    let pair = Pair::new();
    let key = pair.key();
    pair.disks.begin_leaving("one").expect("known");
    drain(&pair.disks, "one");
    let (spec, opener) = pair.one.disk("one");
    pair.disks.add(spec, opener, &ready(), &|_| Ok(())).expect("it stays");
    *pair.disks.shared.heir.write() = Some(Arc::new(RemovalList::default()));
    pair.disks.shared.disks[0].release().expect("released");
    let refused = put(&pair.disks, &key, 2);
    assert!(matches!(refused, Err(Error::Declined(InsertRefusal::OutOfService))), "the second disk has it");
    pair.disks.remove(&key).expect("as the cache does");
    put(&pair.disks, &key, 2).expect("the other process gets it");
    assert_eq!(found(&pair.disks, &key), None);
}

//! Stores and the secret of their keys: stores of earlier versions and of other nodes remain
//! usable.

use super::super::signature::{self, Keys, Signature};
use super::super::{ARCHITECTURES, StoreEnv, open_store};
use super::world::World;
use crate::{Error, Store};
use shoal_core::{KeySecret, ObjectKey};
use std::sync::Arc;

/// Returns the architectures that find objects by their keys' hashes.
fn keyed() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|row| row.name).filter(|name| *name != "cern")
}

fn open(world: &World) -> Result<Arc<dyn Store>, Error> {
    let parts = StoreEnv {
        files: world.files.clone(),
        index: Box::new(world.home.clone()),
        boot: world.boot,
        lock: None,
        transient: None,
        background: false,
    };
    open_store(world.architecture, &world.settings, parts)
}

fn put(store: &dyn Store, key: &ObjectKey, text: &str) {
    let mut insert = store.insert(key, b"head", Some(text.len() as u64)).expect("room");
    insert.append(text.as_bytes()).expect("it is written");
    insert.commit(None).expect("it is kept");
}

fn get(store: &dyn Store, key: &ObjectKey) -> Option<String> {
    let stored = store.open(key).expect("a sound disk")?;
    let bytes = stored.body.read(0, 1 << 16).expect("a sound body");
    Some(String::from_utf8(bytes.to_vec()).expect("text"))
}

fn object(number: u32) -> ObjectKey {
    ObjectKey::new(format!("http://a.test/{number}").into_bytes())
}

/// Makes a store as an earlier version leaves it: unkeyed hashes, and a signature without a secret.
fn earlier(architecture: &'static str) -> World {
    let world = World::new(architecture, 64 << 20, 1000);
    let store = open(&world).expect("a new store");
    for number in 0..20 {
        put(&*store, &object(number).earlier(), "earlier");
    }
    store.close().expect("closed in order");
    drop(store);
    world.files.tamper(signature::PATH, |bytes| {
        let end = bytes.iter().position(|byte| *byte == b'\n').expect("a line");
        bytes.truncate(end + 1);
    });
    world
}

#[test]
fn earlier_store_keeps_its_objects() {
    for architecture in keyed() {
        let world = earlier(architecture);
        // Twice: the second time the store already has a secret.
        for _ in 0..2 {
            let store = open(&world).expect("it opens");
            for number in 0..20 {
                assert!(store.may_contain(&object(number)), "{architecture}");
                assert_eq!(get(&*store, &object(number)).as_deref(), Some("earlier"), "{architecture}");
            }
            assert!(get(&*store, &object(20)).is_none());
            store.close().expect("closed in order");
        }
    }
}

#[test]
fn newer_object_takes_the_place_of_an_earlier_one() {
    for architecture in keyed() {
        let world = earlier(architecture);
        let store = open(&world).expect("it opens");
        put(&*store, &object(1), "newer");
        assert_eq!(get(&*store, &object(1)).as_deref(), Some("newer"), "{architecture}");
        assert!(store.remove(&object(1)).expect("a sound disk"), "{architecture}");
        assert_eq!(get(&*store, &object(1)), None, "{architecture}: the earlier one came back");
        assert!(store.remove(&object(2)).expect("a sound disk"), "{architecture}");
        store.close().expect("closed in order");
        drop(store);
        let store = open(&world).expect("it opens");
        assert_eq!(get(&*store, &object(1)), None, "{architecture}");
        assert_eq!(get(&*store, &object(2)), None, "{architecture}");
        assert_eq!(get(&*store, &object(3)).as_deref(), Some("earlier"), "{architecture}");
    }
}

#[test]
fn store_of_another_node_keeps_its_objects() {
    for architecture in keyed() {
        let (world, secret) = (World::new(architecture, 64 << 20, 1000), KeySecret::new([7; 16]));
        open(&world).expect("a new store").close().expect("closed in order");
        let read = Signature::read(&*world.files).expect("it is read").expect("it is there");
        let keys = Some(Keys { secret, came_later: false });
        Signature { keys, ..read }.write(&*world.files).expect("room");
        let store = open(&world).expect("it opens");
        for number in 0..20 {
            put(&*store, &object(number), "another's");
        }
        store.close().expect("closed in order");
        drop(store);
        for _ in 0..2 {
            let store = open(&world).expect("it opens");
            assert_eq!(get(&*store, &object(1)).as_deref(), Some("another's"), "{architecture}");
            put(&*store, &object(2), "newer");
            assert_eq!(get(&*store, &object(2)).as_deref(), Some("newer"), "{architecture}");
            store.remove(&object(3)).expect("a sound disk");
            assert_eq!(get(&*store, &object(3)), None, "{architecture}");
            store.close().expect("closed in order");
        }
    }
}

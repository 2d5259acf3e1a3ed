//! Inspection of a volume, sound and damaged, stopped and running.

use super::*;
use crate::StoreView;
use crate::architectures::volume::format::{HEAD_BYTES, PIECE_BYTES, decode_table};
use crate::architectures::volume::inspect_volume;
use crate::fs::OverlayFs;
use crate::inspect::Inspect;
use shoal_core::KeySecret;
use std::collections::BTreeMap;

const LARGE: u32 = 90;
const OBJECTS: u32 = 100;

fn view(world: &World, is_live: bool) -> Box<dyn Inspect> {
    let door = OverlayFs::new(world.files.clone(), 1 << 30);
    inspect_volume(Arc::new(door), is_live, Some(KeySecret::installed())).expect("it can be looked at")
}

/// Makes small objects and some in pieces, one of each removed and one replaced.
fn filled(world: &World) -> VolumeStore {
    let store = world.open();
    for number in 0..OBJECTS {
        let length = if number < LARGE { 500 + number as usize * 97 } else { 200_000 };
        put(&store, number, 0, length).expect("it is stored");
    }
    store.write_all();
    put(&store, 1, 1, 700).expect("it is replaced");
    [2, LARGE].into_iter().for_each(|number| assert!(store.remove(&key(number)).expect("removed")));
    store.write_all();
    store
}

/// Returns bodies and positions by key.
fn listed(view: &dyn Inspect, newest_first: bool) -> BTreeMap<Vec<u8>, (u64, u64)> {
    let mut found = BTreeMap::new();
    let mut visit = |listed: &crate::inspect::ListedObject<'_>| {
        assert!(listed.metadata.starts_with(b"version "));
        let before = found.insert(listed.key.to_vec(), (listed.body_bytes, listed.position));
        assert!(before.is_none(), "an object is listed once");
        true
    };
    view.list(newest_first, &mut visit).expect("a disk in RAM can be read");
    found
}

fn content(world: &World) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for path in world.files.files() {
        world.files.tamper(&path, |bytes| all.push(bytes.clone()));
    }
    all
}

fn check(world: &World, is_live: bool) {
    let before = content(world);
    let view = view(world, is_live);
    let objects = u64::from(OBJECTS) - 2;
    let found = listed(&*view, false);
    assert_eq!(found, listed(&*view, true));
    assert_eq!(found.len() as u64, objects);
    assert_eq!(found[key(1).full()].0, 700);
    assert!(!found.contains_key(key(2).full()) && !found.contains_key(key(LARGE).full()));
    let verified = view.verify(&mut |done, all| assert!(done <= all));
    assert_eq!((verified.objects, verified.damaged), (objects, 0), "{verified:?}");
    assert_eq!(verified.body_bytes, found.values().map(|(bytes, _)| bytes).sum::<u64>());
    assert_eq!(verified.stripes, u64::from(view.facts().written_stripes));
    assert_eq!((view.facts().objects, view.facts().is_live), (objects, is_live));
    let stored = view.find(&key(95)).expect("the disk is sound").expect("it is there");
    assert_eq!(stored.body.read(0, 65_536).expect("whole"), body_of(95, 0, 200_000)[..65_536]);
    assert!(content(world) == before, "nothing has been changed");
}

#[test]
fn inspection_shows_store_and_changes_nothing() {
    let world = World::new(16 << 20);
    let store = filled(&world);
    check(&world, true);
    assert!(!view(&world, true).facts().is_clean);
    store.close().expect("closed");
    drop(store);
    check(&world, false);
    assert!(view(&world, false).facts().is_clean);
    world.files.unlink(INDEX).expect("there");
    check(&world, false);
}

#[test]
fn every_damaged_object_is_found_and_no_other() {
    let world = World::new(16 << 20);
    filled(&world).close().expect("closed");
    let objects = listed(&*view(&world, false), false);
    for (full, (body_bytes, position)) in &objects {
        // The head, the key, and the body if it begins that early: a large object's metadata is
        // followed by spare room.
        let body: &[usize] = if *body_bytes < 65_536 { &[300] } else { &[] };
        for at in [&[20, 100], body].concat() {
            let flip = |bytes: &mut Vec<u8>| bytes[*position as usize + at] ^= 4;
            world.files.tamper(DATA, flip);
            let verified = view(&world, false).verify(&mut |_, _| {});
            assert_eq!(verified.damaged, 1, "{at} of {:?}: {verified:?}", String::from_utf8_lossy(full));
            assert_eq!(verified.damage[0].position, *position);
            assert_eq!(verified.objects, objects.len() as u64 - 1);
            world.files.tamper(DATA, flip);
        }
    }
    assert_eq!(view(&world, false).verify(&mut |_, _| {}).damaged, 0);
}

/// The body's table is too long for its record, so the table is in pieces itself.
#[test]
fn damaged_table_piece_costs_its_object_only() {
    let world = World::new(400 << 20);
    let mut store = world.open();
    // Volumes accept such a body only with four times its length; this volume has room for it.
    Arc::get_mut(&mut store.volume).expect("nobody else has it").object_max_bytes = 1 << 30;
    put(&store, 1, 0, 200_000).expect("it is stored");
    let length: usize = (PIECE_BYTES / 16 + 1) * PIECE_BYTES;
    let mut insert = store.insert(&key(2), b"meta", Some(length as u64)).expect("it is taken");
    let part = vec![7; PIECE_BYTES];
    (0..length / PIECE_BYTES).for_each(|_| insert.append(&part).expect("it is written"));
    insert.commit(None).expect("it is stored");
    store.write_all();
    let tables = {
        let found = store.volume.find(&key(2)).expect("sound").expect("it is there");
        decode_table(found.head.payload(&found.record).expect("a table"))
    };
    assert_eq!(tables.len(), 2, "the table takes two pieces");
    store.close().expect("closed");
    assert_eq!(view(&world, false).verify(&mut |_, _| {}).objects, 2);
    for table in tables {
        let flip = |bytes: &mut Vec<u8>| bytes[table.position as usize + HEAD_BYTES + 7] ^= 4;
        world.files.tamper(DATA, flip);
        let verified = view(&world, false).verify(&mut |_, _| {});
        let parts: Vec<_> = verified.damage.iter().map(|damage| damage.part).collect();
        assert_eq!((verified.objects, verified.damaged, parts), (1, 1, vec!["table of pieces"]));
        let store = world.open();
        assert!(store.open(&key(2)).expect("the disk is sound").is_none());
        assert_eq!((store.usage().corrupt, version_of(&store, 1)), (1, Some(0)));
        drop(store);
        world.files.tamper(DATA, flip);
    }
}

#[test]
fn verify_survives_flipped_bits_and_finds_most() {
    let world = World::new(16 << 20);
    filled(&world).close().expect("closed");
    let facts = view(&world, false).facts();
    let objects = facts.objects;
    let mut random = Random(77);
    let mut found = 0;
    for _ in 0..200 {
        let last = u64::from(facts.cursor) * facts.stripe_bytes + facts.cursor_bytes;
        let at = (64 << 10) + random.below(last);
        let flip = |bytes: &mut Vec<u8>| bytes[at as usize] ^= 1 << (at % 8);
        world.files.tamper(DATA, flip);
        let verified = view(&world, false).verify(&mut |_, _| {});
        assert!(verified.objects <= objects && verified.damaged <= 2, "{verified:?}");
        found += u32::from(verified.damaged > 0);
        world.files.tamper(DATA, flip);
    }
    // Removed and replaced objects, and the unused rest of each stripe, belong to no object.
    assert!(found > 120, "{found} of 200");
}

#[test]
fn non_volume_is_refused_with_reason() {
    let world = World::new(16 << 20);
    filled(&world).close().expect("closed");
    let refusal = |world: &World| {
        let door = Arc::new(OverlayFs::new(world.files.clone(), 1 << 30));
        inspect_volume(door, false, None).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let other_version = |bytes: &mut Vec<u8>| [9, 4096 + 9].into_iter().for_each(|at: usize| bytes[at] ^= 1);
    world.files.tamper(DATA, other_version);
    assert!(refusal(&world).contains("of another version"), "{}", refusal(&world));
    world.files.tamper(DATA, |bytes| {
        other_version(bytes);
        bytes.truncate(1 << 20);
    });
    assert!(refusal(&world).contains("it was cut off"), "{}", refusal(&world));
    world.files.tamper(DATA, |bytes| bytes.fill(0));
    assert!(refusal(&world).contains("never been finished"), "{}", refusal(&world));
}

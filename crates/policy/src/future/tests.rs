//! Placement table against a slow version after the paper's text, and its promises.

use super::*;
use crate::testing::Random;

/// Three steps of the paper, with lists only. Returns for each object its offset and the object
/// that it replaces.
fn slow_table(requests: &[(u32, u64)], file_bytes: u64) -> Vec<Option<(u64, Option<u32>)>> {
    let objects = requests.iter().map(|(object, _)| object + 1).max().unwrap_or(0);
    let times =
        |object: u32| -> Vec<usize> { (0..requests.len()).filter(|at| requests[*at].0 == object).collect() };
    let span = |object: u32| (times(object)[0], times(object)[times(object).len() - 1]);
    let bytes = |object: u32| requests.iter().filter(|of| of.0 == object).map(|of| of.1).max().unwrap_or(0);
    let class = |object: u32| SegmentClass::for_bytes(bytes(object));

    let mut popular: Vec<u32> = (0..objects).filter(|object| times(*object).len() > 1).collect();
    popular.retain(|object| class(*object).is_some());
    popular.sort_by_key(|object| (Reverse(times(*object).len()), times(*object)[0]));

    let (mut packer, mut offsets) = (Packer::default(), vec![None; objects as usize]);
    let (mut packed, mut left_over) = (Vec::new(), Vec::new());
    for object in popular {
        offsets[object as usize] = packer.place_within(class(object).unwrap(), file_bytes);
        if offsets[object as usize].is_some() { packed.push(object) } else { left_over.push(object) }
    }
    for object in left_over {
        let (first, last) = span(object);
        let sharers =
            |at: Option<u64>| (0..objects).filter(|other| offsets[*other as usize] == at).collect::<Vec<_>>();
        let is_apart = |other: &u32| span(*other).1 < first || last < span(*other).0;
        let target = packed.iter().find(|target| {
            class(**target) == class(object) && sharers(offsets[**target as usize]).iter().all(is_apart)
        });
        offsets[object as usize] = target.and_then(|target| offsets[*target as usize]);
    }
    let before = |object: u32| {
        let here = (0..objects).filter(|other| offsets[*other as usize] == offsets[object as usize]);
        here.filter(|other| span(*other).1 < span(object).0).max_by_key(|other| span(*other).1)
    };
    (0..objects).map(|object| Some((offsets[object as usize]?, before(object)))).collect()
}

fn random_requests(seed: u64) -> (Vec<(u32, u64)>, u64) {
    let mut random = Random(seed);
    let (objects, length) = (1 + random.below(60), random.below(300));
    // Objects come and go: a number is near the time, or one of a popular few.
    let requests = (0..length).map(|at| {
        let object = match random.below(4) {
            0 => random.below(objects.min(4)),
            _ => (at * objects / length.max(1) + random.below(6)).min(objects),
        };
        let bytes = if object % 7 == 6 { 9000 } else { 300 << (object % 5) };
        (object as u32, bytes - random.below(2))
    });
    let requests = requests.collect();
    (requests, random.below(5) * 8192)
}

#[test]
fn agrees_with_the_slow_version() {
    let (mut replacing, mut declined) = (0, 0);
    for seed in 0..150 {
        let (requests, file_bytes) = random_requests(seed);
        let table = PlacementTable::of(requests.iter().copied(), file_bytes);
        for (object, expected) in (0..).zip(slow_table(&requests, file_bytes)) {
            let found = table.place(object).map(|place| (place.offset, place.replaces));
            assert_eq!(found, expected, "seed {seed}, object {object}");
            replacing += u32::from(expected.is_some_and(|(_, replaces)| replaces.is_some()));
            declined += u32::from(expected.is_none());
        }
    }
    assert!(
        replacing > 100 && declined > 100,
        "{replacing} replace, {declined} are declined: the traces say something"
    );
}

#[test]
fn hit_finds_last_written_object() {
    for seed in 0..150 {
        let (requests, file_bytes) = random_requests(seed);
        let table = PlacementTable::of(requests.iter().copied(), file_bytes);
        let mut file = vec![None; (file_bytes / 512) as usize];
        for (number, (object, _)) in (0..).zip(&requests) {
            let segment = |place: FuturePlace| {
                assert!(place.offset + place.class.bytes() <= file_bytes);
                (place.offset / 512) as usize..((place.offset + place.class.bytes()) / 512) as usize
            };
            match table.look_up(number, *object) {
                FutureOutcome::Admitted(place) => {
                    assert!(file[segment(place)].iter().all(|lies| *lies == place.replaces), "seed {seed}");
                    file[segment(place)].fill(Some(*object));
                }
                FutureOutcome::Hit(place) => {
                    assert!(file[segment(place)].iter().all(|lies| *lies == Some(*object)), "seed {seed}");
                }
                FutureOutcome::Declined => assert_eq!(table.place(*object), None),
            }
        }
    }
}

#[test]
fn the_three_steps_by_hand() {
    // One page. Object 0 is the most popular, 1 fills the page. 2 comes before 1 and 3 after it, 4
    // overlaps with both. 5 is requested once, 6 is of another size, 7 is too large.
    let kilobytes = [4, 4, 4, 4, 4, 4, 1, 9];
    let order = [0, 2, 2, 4, 0, 6, 7, 1, 1, 1, 0, 4, 5, 3, 3, 0, 6, 7];
    let requests = order.map(|object: u32| (object, kilobytes[object as usize] * 1024));
    let table = PlacementTable::of(requests, 8192);
    let found = |object: u32| {
        table.place(object).map(|place| (place.offset, place.first, place.last, place.replaces))
    };
    assert_eq!(found(0), Some((0, 0, 15, None)));
    assert_eq!(found(1), Some((4096, 7, 9, Some(2))));
    assert_eq!(found(2), Some((4096, 1, 2, None)));
    assert_eq!(found(3), Some((4096, 13, 14, Some(1))));
    assert!((4..9).all(|object| found(object).is_none()));
    assert_eq!(table.look_up(7, 1), FutureOutcome::Admitted(table.place(1).unwrap()));
    assert_eq!(table.look_up(9, 1), FutureOutcome::Hit(table.place(1).unwrap()));
    assert_eq!(table.look_up(12, 5), FutureOutcome::Declined);
    assert_eq!(PlacementTable::of([], 8192).place(0), None);
}

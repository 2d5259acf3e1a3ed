//! Tests of the index by itself: against a map, under collisions, across sessions.

use super::*;
use shoal_policy::Clock;
use std::collections::HashSet;

const OBJECTS: u32 = 50;
const LIMIT: u64 = 400;

fn home() -> RamWords {
    home_for(OBJECTS)
}

fn home_for(objects: u32) -> RamWords {
    let geometry = geometry_for(objects, false);
    let words = RamWords::new(geometry.words());
    Index::format(&words, &geometry);
    words
}

fn shape() -> IndexShape<'static> {
    IndexShape {
        architecture: "squid",
        max_objects: OBJECTS,
        block_bytes: 4096,
        parameters: [1, 1, 0, 0],
        sides: false,
        numbers: Numbers::Any,
    }
}

fn geometry_for(max_objects: u32, sides: bool) -> IndexGeometry {
    IndexGeometry::new(&IndexShape { max_objects, sides, ..shape() })
}

fn open(words: &RamWords, boot: u64) -> (Index, Condition) {
    Index::open(Box::new(words.clone()), Numbers::Any, &Clock, boot, LIMIT).expect("an index")
}

fn key(n: u64) -> Key {
    Key::of(&n.to_le_bytes())
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

fn charge(index: &Index, number: u32, blocks: u32) -> Charge {
    match index.charge(number, blocks) {
        Charge::AtCeiling => {
            index.raise_ceiling(u64::from(blocks)).unwrap();
            index.charge(number, blocks)
        }
        charge => charge,
    }
}

/// Claims, charges and commits; frees the hand's victims if there is no room.
fn insert(index: &Index, key: Key, blocks: u32, mut given_up: impl FnMut(u32)) -> Option<u32> {
    let mut make_room = || loop {
        match index.sweep(|_| false) {
            HandStep::Victim(number) => {
                given_up(number);
                index.free(number, None);
                return true;
            }
            HandStep::Reclaimed => return true,
            HandStep::Passed(0) => return false,
            HandStep::Passed(_) => {}
        }
    };
    let number = loop {
        match index.claim(0) {
            Claim::Number(number) => break number,
            Claim::Exhausted if make_room() => {}
            _ => return None,
        }
    };
    while charge(index, number, blocks) == Charge::Full {
        if !make_room() {
            index.free(number, None);
            return None;
        }
    }
    for older in index.commit(number, key, blocks, None, None).expect("chains are short") {
        given_up(older);
        index.free(older, None);
    }
    Some(number)
}

/// Compares with the slow, obvious version: a map of each key's number.
#[test]
fn agrees_with_a_map_over_many_sessions() {
    for seed in 0..20 {
        let words = home();
        let mut random = Random(seed);
        let mut map: HashMap<u64, (u32, u32)> = HashMap::new();
        for session in 0..10 {
            let (index, condition) = open(&words, 1);
            assert_eq!(condition, Condition::Sound);
            for _ in 0..100 {
                let n = random.below(80);
                match random.below(5) {
                    0 => {
                        let retired = index.retire_key(key(n));
                        assert_eq!(retired.first().copied(), map.remove(&n).map(|(number, _)| number));
                        retired.into_iter().for_each(|number| index.free(number, None));
                    }
                    1 => drop(index.hit(key(n), |_| {})),
                    _ => {
                        let blocks = 1 + random.below(30) as u32;
                        let mut gone = HashSet::new();
                        let number = insert(&index, key(n), blocks, |number| {
                            gone.insert(number);
                        });
                        map.retain(|_, (number, _)| !gone.contains(number));
                        map.insert(n, (number.expect("room can be made"), blocks));
                    }
                }
                let blocks = map.values().map(|(_, blocks)| u64::from(*blocks)).sum();
                assert_eq!(index.totals(), IndexTotals { objects: map.len() as u64, blocks }, "seed {seed}");
                assert!(blocks <= LIMIT);
            }
            for n in 0..80 {
                let found = index.peek(key(n), |_| {}).map(|found| (found.number, found.blocks));
                assert_eq!(found, map.get(&n).copied(), "seed {seed}, session {session}, key {n}");
                assert_eq!(index.may_contain(key(n)), map.contains_key(&n));
            }
            index.invariants();
        }
    }
}

#[test]
fn colliding_keys_are_refused_and_harm_no_others() {
    let words = home_for(500);
    let (index, _) = Index::open(Box::new(words), Numbers::Any, &Clock, 1, LIMIT).unwrap();
    let colliding = |n: u8| Key::from_bytes([n, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
    let outcomes: Vec<bool> = (0..100)
        .map(|n| {
            let Claim::Number(number) = index.claim(0) else { panic!("there are numbers") };
            let committed = index.commit(number, colliding(n), 0, None, None).is_ok();
            if !committed {
                index.free(number, None);
            }
            committed
        })
        .collect();
    let taken = outcomes.iter().take_while(|committed| **committed).count();
    assert_eq!(taken, chain::CHAIN_MAX - 1);
    assert!(outcomes[taken..].iter().all(|committed| !committed));
    assert!((0..taken as u8).all(|n| index.may_contain(colliding(n))));
    assert!(!index.is_damaged());
    insert(&index, key(1), 1, |_| {}).unwrap();
    (0..taken as u8).rev().for_each(|n| assert_eq!(index.retire_key(colliding(n)).len(), 1));
    assert!(index.may_contain(key(1)));
    index.invariants();
}

#[test]
fn the_numbers_and_berths_for_transitions_are_bounded() {
    let words = home();
    let (index, _) = open(&words, 1);
    let claimed = std::iter::repeat_with(|| index.claim(0)).take_while(|claim| *claim != Claim::Crowded);
    let numbers: Vec<Claim> = claimed.take(1000).collect();
    let unique: HashSet<String> = numbers.iter().map(|claim| format!("{claim:?}")).collect();
    assert_eq!(unique.len(), numbers.len(), "no number twice");
    assert_eq!(numbers.len(), 48, "three quarters of the 64 berths");
    let (again, _) = open(&words.after_kill(), 1);
    assert_eq!(again.left_busy().len(), 48, "the next session knows what to clean up");
}

#[test]
fn hand_finds_removals_without_berth_next_session() {
    let words = home_for(500);
    let reopen =
        |words: &RamWords| Index::open(Box::new(words.clone()), Numbers::Any, &Clock, 1, LIMIT).unwrap().0;
    let index = reopen(&words);
    (0..200).for_each(|n| assert!(insert(&index, key(n), 1, |_| {}).is_some()));
    let removed: HashSet<u32> = (0..100).flat_map(|n| index.retire_key(key(n))).collect();
    let index = reopen(&words.after_kill());
    let berthed: HashSet<u32> = index.left_busy().into_iter().collect();
    assert_eq!((berthed.len(), removed.len()), (64, 100));
    berthed.iter().for_each(|number| index.free(*number, None));
    let mut swept = HashSet::new();
    while swept.len() < 36 {
        let HandStep::Victim(number) = index.sweep(|_| false) else { panic!("36 are left") };
        index.free(number, None);
        swept.insert(number);
    }
    assert_eq!(swept, &removed - &berthed);
    assert_eq!(index.totals(), IndexTotals { objects: 100, blocks: 100 });
    index.invariants();
}

#[test]
fn the_ceiling_is_on_disk_before_charges_rise_to_it() {
    let words = home();
    let (index, _) = open(&words, 1);
    insert(&index, key(1), 200, |_| {}).unwrap();
    // Only synced words are left, as if power were lost before any write-back.
    let lost = words.after_power_loss(|_| 0);
    let (after, condition) = open(&lost, 2);
    assert_eq!(condition, Condition::Suspect);
    assert!(after.totals().blocks >= 200, "{:?}", after.totals());
}

#[test]
fn unclosed_index_of_another_boot_is_suspect() {
    let words = home();
    let (index, _) = open(&words, 1);
    insert(&index, key(1), 1, |_| {}).unwrap();
    assert_eq!(open(&words.after_kill(), 1).1, Condition::Sound);
    assert_eq!(open(&words.after_kill(), 2).1, Condition::Suspect);
    index.close().unwrap();
    assert_eq!(open(&words.after_kill(), 2).1, Condition::Sound);
    insert(&index, key(2), 1, |_| {}).unwrap();
    assert_eq!(open(&words.after_kill(), 2).1, Condition::Suspect);
}

#[test]
fn commit_instead_of_gone_object_is_refused() {
    let words = home();
    let (index, _) = open(&words, 1);
    insert(&index, key(1), 1, |_| {}).unwrap();
    let old = index.peek(key(1), |_| {}).unwrap();
    let Claim::Number(number) = index.claim(0) else { panic!("there are numbers") };
    insert(&index, key(1), 2, |_| {}).unwrap();
    assert_eq!(index.commit(number, key(1), 0, Some(old), None), Err(CommitRefusal::Superseded));
    assert_eq!(index.peek(key(1), |_| {}).unwrap().blocks, 2);
    assert!(!index.is_current(old));
    index.invariants();
}

fn with_sides() -> RamWords {
    let geometry = geometry_for(OBJECTS, true);
    let words = RamWords::new(geometry.words());
    Index::format(&words, &geometry);
    words
}

#[test]
fn side_words_come_with_claim_and_commit() {
    let words = with_sides();
    let (index, _) = open(&words, 1);
    let Claim::Number(number) = index.claim(11) else { panic!("there are numbers") };
    assert_eq!(index.side(number), 11);
    index.commit(number, key(1), 0, None, None).unwrap();
    assert_eq!(index.hit(key(1), |_| {}).unwrap().side, 11);
    let Claim::Number(second) = index.claim(12) else { panic!("there are numbers") };
    index.commit(second, key(2), 0, None, Some(13)).unwrap();
    let found = index.peek(key(2), |_| {}).unwrap();
    assert_eq!(found.side, 13);
    assert!(index.update_side(found, 14));
    assert!(!index.update_side(found, 15), "it is another word now");
    let (again, _) = open(&words.after_kill(), 1);
    assert_eq!(again.peek(key(2), |_| {}).unwrap().side, 14);
    assert_eq!(again.retire_key(key(2)), [second]);
    assert!(!again.update_side(IndexedObject { side: 14, ..found }, 16), "the object is gone");
    assert_eq!(again.side(second), 14, "who removes the file needs to know");
    again.invariants();
}

#[test]
fn kill_at_any_store_keeps_side_word_and_claim_equal() {
    let mut outcomes = HashSet::new();
    for stores in 0.. {
        let words = with_sides();
        let crash = crate::fs::CrashPoint::after(stores);
        let (index, _) = open(&words.crashing_at(crash.clone()), 1);
        if let Claim::Number(number) = index.claim(11) {
            index.commit(number, key(1), 0, None, Some(12)).unwrap();
        }
        let (left, _) = open(&words.after_kill(), 1);
        let found = left.peek(key(1), |_| {}).map(|found| found.side);
        let busy: Vec<u64> = left.left_busy().into_iter().map(|number| left.side(number)).collect();
        assert!(matches!((found, &busy[..]), (None, [] | [11]) | (Some(12), [])), "{found:?} {busy:?}");
        outcomes.insert((found, busy));
        if !crash.has_come() {
            break;
        }
    }
    assert_eq!(outcomes.len(), 3);
}

fn with_map(numbers: Numbers) -> (RamWords, Index) {
    let geometry = IndexGeometry::new(&IndexShape { numbers, ..shape() });
    let words = RamWords::new(geometry.words());
    Index::format(&words, &geometry);
    let (index, _) = Index::open(Box::new(words.clone()), numbers, &Clock, 1, LIMIT).unwrap();
    (words, index)
}

#[test]
fn claim_takes_lowest_or_next_free_number() {
    for (numbers, expected) in [(Numbers::Lowest, [3, 7, 20, 21]), (Numbers::Next, [20, 21, 22, 23])] {
        let (words, index) = with_map(numbers);
        (0..20).for_each(|n| assert_eq!(insert(&index, key(n), 1, |_| {}), Some(n as u32)));
        for n in [7, 3] {
            index.retire_key(key(n)).into_iter().for_each(|number| index.free(number, None));
        }
        let (index, _) = Index::open(Box::new(words.after_kill()), numbers, &Clock, 1, LIMIT).unwrap();
        let given = [100, 101, 102, 103].map(|n| insert(&index, key(n), 1, |_| {}).unwrap());
        assert_eq!(given, expected, "{numbers:?}");
        let rest = (200..).map_while(|n| match index.claim(0) {
            Claim::Number(number) => {
                index.commit(number, key(n), 0, None, None).unwrap();
                Some(number)
            }
            claim => {
                assert_eq!(claim, Claim::Exhausted);
                None
            }
        });
        let rest: Vec<u32> = rest.collect();
        let wrapped: &[u32] = if numbers == Numbers::Next { &[3, 7] } else { &[] };
        let counted: Vec<u32> = (expected[3] + 1..OBJECTS).chain(wrapped.iter().copied()).collect();
        assert_eq!(rest, counted, "{numbers:?}: all there are, in order");
        index.invariants();
    }
}

#[test]
fn stale_map_gives_no_number_twice() {
    let (words, index) = with_map(Numbers::Lowest);
    (0..20).for_each(|n| assert!(insert(&index, key(n), 1, |_| {}).is_some()));
    let at = index.geometry().free_map().unwrap();
    words.store(at, 0);
    assert_eq!(insert(&index, key(100), 1, |_| {}), Some(20));
    assert!(index.is_damaged());
    // The opposite case: the hand brings back free numbers that are marked in use.
    words.store(at, u64::MAX);
    let number = insert(&index, key(101), 1, |_| {}).unwrap();
    assert!(number < 21, "what the hand gave up or found: {number}");
}

#[test]
fn number_called_free_keeps_its_one_berth() {
    let words = home();
    let (index, _) = open(&words, 1);
    let Claim::Number(number) = index.claim(0) else { panic!("all numbers are free") };
    // Damage: the entry of a number in transition reads as free, in no list.
    let entry = index.geometry.entry(number);
    (entry..entry + 4).for_each(|at| words.store(at, 0));
    index.store_sealed(FREE_LIST_AT, 7);
    assert!(index.claim_number(number, 0));
    let berths = index.geometry.berths as usize;
    assert_eq!(index.live.read().free_berths.len(), berths - 1);
    index.free(number, None);
    assert_eq!(index.live.read().free_berths.len(), berths);
}

//! MIN against a search of all possible decisions, and against a slow version on longer traces.

use super::*;
use crate::testing::{Random, misses, misses_by_weight, name, random_string};
use crate::{Fifo, LfuDa, Lru, S3Fifo, Sieve, Slru, WTinyLfu};
use std::collections::HashMap;

/// Returns the misses of MIN on a string, with room for `room` objects.
fn min_misses(string: &str, room: u64) -> usize {
    misses(Belady::new(NextUses::of(string.chars().map(name))), string, room)
}

/// Textbook string (Silberschatz, Galvin, Gagne) and Belady's own.
#[test]
fn misses_match_hand_calculation() {
    assert_eq!(min_misses("70120304230321201701", 3), 9);
    assert_eq!(min_misses("123412512345", 3), 7);
    assert_eq!(min_misses("123412512345", 4), 6);
}

/// Returns the fewest misses from here on, by trying every victim.
fn least(string: &[char], at: usize, present: &mut Vec<char>, room: usize, known: &mut Known) -> usize {
    let Some(object) = string.get(at) else { return 0 };
    if present.contains(object) {
        return least(string, at + 1, present, room, known);
    }
    present.sort_unstable();
    if let Some(misses) = known.get(&(at, present.clone())) {
        return *misses;
    }
    let situation = (at, present.clone());
    let mut best = usize::MAX;
    if present.len() < room {
        present.push(*object);
        best = least(string, at + 1, present, room, known);
        present.retain(|other| other != object);
    } else {
        for victim in present.clone() {
            let mut after = present.clone();
            after.retain(|other| *other != victim);
            after.push(*object);
            best = best.min(least(string, at + 1, &mut after, room, known));
        }
    }
    known.insert(situation, best + 1);
    best + 1
}

/// Situations with the fewest misses that follow.
type Known = HashMap<(usize, Vec<char>), usize>;

#[test]
fn nothing_that_could_be_done_misses_less() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let string: Vec<char> = (0..24).map(|_| char::from(b'a' + random.below(7) as u8)).collect();
        let text: String = string.iter().collect();
        for room in 1..=5 {
            let expected = least(&string, 0, &mut Vec::new(), room, &mut Known::new());
            assert_eq!(min_misses(&text, room as u64), expected, "seed {seed}, room {room}: {text}");
        }
    }
}

#[test]
fn no_policy_misses_less() {
    for seed in 0..10 {
        let text: String = random_string(seed, 2000).iter().collect();
        for room in [2, 5, 12] {
            let least = min_misses(&text, room);
            for other in [
                misses(Fifo::new(), &text, room),
                misses(Lru::new(), &text, room),
                misses(Slru::<Key, 4>::new(), &text, room),
                misses(LfuDa::new(), &text, room),
                misses(Sieve::new(), &text, room),
                misses(S3Fifo::new(), &text, room),
                misses(WTinyLfu::new(), &text, room),
            ] {
                assert!(least <= other, "seed {seed}, room {room}: {least} {other}");
            }
        }
    }
}

#[test]
fn removed_and_declined_keep_time_right() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let string = random_string(seed, 3000);
        let mut policy = Belady::new(NextUses::of(string.iter().map(|object| name(*object))));
        let mut handles: HashMap<char, Handle> = HashMap::new();
        let next =
            |at: usize, object: char| string[at..].iter().position(|o| *o == object).unwrap_or(usize::MAX);
        for (at, object) in string.iter().copied().enumerate() {
            match (handles.get(&object), random.below(8)) {
                (Some(handle), 0) => {
                    policy.remove(*handle);
                    handles.remove(&object);
                    policy.declined(name(object));
                }
                (Some(handle), _) => policy.hit(*handle),
                (None, 0) => policy.declined(name(object)),
                (None, _) => {
                    if handles.len() == 9 {
                        let victim = policy.evict().unwrap().key;
                        let victim = *handles.keys().find(|object| name(**object) == victim).unwrap();
                        let last = handles.keys().map(|object| next(at, *object)).max().unwrap();
                        assert_eq!(next(at, victim), last, "seed {seed}, request {at}");
                        handles.remove(&victim);
                    }
                    handles.insert(object, policy.insert(name(object), 1));
                }
            }
        }
        assert!(policy.uses.len() <= 2 * policy.len() + SWEEP_MIN + 1, "void entries are bounded");
    }
}

#[test]
fn sizes_do_not_disturb_it() {
    let requests: Vec<_> =
        random_string(3, 1000).into_iter().map(|o| (name(o), u64::from(o as u32 % 7))).collect();
    let future = NextUses::of(requests.iter().map(|(key, _)| *key));
    let least = misses_by_weight(Belady::new(future), &requests, 30);
    assert!(least < misses_by_weight(Lru::new(), &requests, 30));
}

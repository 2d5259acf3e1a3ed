//! FBC against a slow version after the paper's text, and its bounds.

use super::*;
use crate::testing::Random;

/// Algorithm of the paper's 3.6, with counts that are halved at once; the smallest of a lap when
/// all are popular.
struct SlowFbc {
    counts: [Vec<u32>; 5],
    pointers: [usize; 5],
    c_max: u32,
    a_max: u64,
}

impl SlowFbc {
    fn age(&mut self) {
        loop {
            let counts: Vec<u64> = self.counts.iter().flatten().map(|count| u64::from(*count)).collect();
            let objects = counts.iter().filter(|count| **count > 0).count() as u64;
            if counts.iter().sum::<u64>() <= self.a_max * objects {
                return;
            }
            self.counts.iter_mut().flatten().for_each(|count| *count = count.div_ceil(2));
        }
    }

    fn set(&mut self, class: usize, slot: usize, count: u32) {
        if self.counts[class].len() <= slot && count > 0 {
            self.counts[class].resize(slot + 1, 0);
        }
        if let Some(place) = self.counts[class].get_mut(slot) {
            *place = count;
        }
    }

    fn victim(&mut self, class: usize, may_go: impl Fn(u32) -> bool) -> Option<u32> {
        let counts = &self.counts[class];
        let slots = counts.len();
        let lap = (0..slots).map(|step| (self.pointers[class] + step) % slots);
        let lap: Vec<usize> = lap.filter(|slot| counts[*slot] > 0 && may_go(*slot as u32)).collect();
        let unpopular = lap.iter().find(|slot| counts[**slot] < self.c_max);
        let slot = *unpopular.or(lap.iter().min_by_key(|slot| counts[**slot]))?;
        self.pointers[class] = (slot + 1) % slots;
        Some(slot as u32)
    }
}

fn class(index: usize) -> SegmentClass {
    SegmentClass::ALL[index]
}

#[test]
fn agrees_with_the_slow_version() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (c_max, a_max) =
            ([1, 2, 3, 5, 30][random.below(5) as usize], [1, 2, 3, 10][random.below(4) as usize]);
        let mut fbc = Fbc::new(c_max, a_max);
        // Some start close to the end of the epochs.
        fbc.counts.set_epoch(if seed % 3 == 0 { u32::MAX - 3 } else { 0 });
        let counts = Default::default();
        let mut slow = SlowFbc { counts, pointers: [0; 5], c_max, a_max: u64::from(a_max) };
        for step in 0..600 {
            let at = format!("seed {seed}, step {step}");
            let (index, slot) = (random.below(3) as usize, random.below(12) as u32);
            let is_there = slow.counts[index].get(slot as usize).is_some_and(|count| *count > 0);
            match random.below(20) {
                0..=2 => {
                    fbc.filled(class(index), slot);
                    slow.set(index, slot as usize, 1);
                    slow.age();
                }
                3 => {
                    fbc.emptied(class(index), slot);
                    slow.set(index, slot as usize, 0);
                }
                4 => {
                    let count = random.below(40) as u32;
                    fbc.restored(class(index), slot, count);
                    slow.set(index, slot as usize, count);
                }
                5..=8 => {
                    let pinned = random.below(13) as u32;
                    let found = fbc.victim(class(index), |slot| slot != pinned);
                    assert_eq!(found, slow.victim(index, |slot| slot != pinned), "{at}");
                }
                _ => {
                    fbc.hit(class(index), slot);
                    if is_there {
                        slow.counts[index][slot as usize] += 1;
                    }
                    slow.age();
                }
            }
            for (index, counts) in slow.counts.iter().enumerate() {
                for (slot, count) in (0..).zip(counts) {
                    assert_eq!(fbc.count(class(index), slot), *count, "{at}, slot {slot}");
                }
            }
            let all = || slow.counts.iter().flatten().filter(|count| **count > 0);
            assert_eq!(
                fbc.totals(),
                (all().count() as u64, all().map(|count| u64::from(*count)).sum()),
                "{at}"
            );
        }
    }
}

/// Makes a class with slots of these counts.
fn with_counts(c_max: u32, counts: &[u32]) -> Fbc {
    let mut fbc = Fbc::new(c_max, 100);
    for (slot, count) in (0..).zip(counts) {
        fbc.restored(class(0), slot, *count);
    }
    fbc
}

fn victims(fbc: &mut Fbc, count: usize) -> Vec<Option<u32>> {
    (0..count).map(|_| fbc.victim(class(0), |_| true)).collect()
}

#[test]
fn the_pointer_goes_round_and_passes_over_the_popular() {
    let mut fbc = with_counts(3, &[1, 3, 2, 9, 1]);
    assert_eq!(victims(&mut fbc, 4), [Some(0), Some(2), Some(4), Some(0)]);
    assert_eq!(fbc.pointers(), [1, 0, 0, 0, 0]);
}

#[test]
fn a_lap_of_popular_objects_gives_up_the_least() {
    let mut fbc = with_counts(3, &[5, 4, 7, 4]);
    assert_eq!(victims(&mut fbc, 3), [Some(1), Some(3), Some(1)]);
    assert_eq!(fbc.victim(class(0), |slot| slot % 2 == 0), Some(0), "the least that may go");
}

#[test]
fn nothing_is_given_up_where_nothing_may_go() {
    let mut fbc = with_counts(3, &[1, 0, 7]);
    assert_eq!(fbc.victim(class(0), |_| false), None);
    assert_eq!(fbc.victim(class(0), |slot| slot == 1), None, "an empty slot has no object to give up");
    assert_eq!(fbc.victim(class(1), |_| true), None);
    assert_eq!(fbc.pointers(), [0; 5], "and the pointer stays");
}

#[test]
fn the_sum_stays_between_half_the_bound_and_the_bound() {
    let (objects, a_max) = (1000, 10);
    let mut fbc = Fbc::new(3, a_max);
    (0..objects).for_each(|slot| fbc.filled(class(2), slot));
    let mut random = Random(3);
    let (bound, mut is_steady) = (u64::from(objects * a_max), false);
    for _ in 0..100_000 {
        // Skewed: low numbers more often.
        let slot = random.below(u64::from(objects)) * random.below(u64::from(objects)) / u64::from(objects);
        fbc.hit(class(2), slot as u32);
        let (_, sum) = fbc.totals();
        is_steady |= sum > bound / 2;
        assert!(sum <= bound && (!is_steady || sum >= bound / 2), "{sum}");
    }
    assert!(is_steady);
}

#[test]
fn counts_stay_at_the_largest() {
    let mut fbc = Fbc::new(3, u32::MAX);
    fbc.restored(class(0), 0, u32::MAX);
    assert_eq!(fbc.count(class(0), 0), 1 << 31);
    fbc.hit(class(0), 0);
    assert_eq!((fbc.count(class(0), 0), fbc.totals()), (1 << 31, (1, 1 << 31)));
}

#[test]
fn a_pointer_behind_the_last_slot_stands_at_the_first() {
    let mut fbc = with_counts(3, &[1, 1, 1]);
    fbc.set_pointers([2, 0, 0, 0, 0]);
    assert_eq!(victims(&mut fbc, 2), [Some(2), Some(0)]);
    fbc.set_pointers([u32::MAX; 5]);
    assert_eq!(victims(&mut fbc, 1), [Some(0)]);
}

#[test]
fn resident_victims_come_first_within_the_window() {
    let resident = |slot: u32| slot == 0 || slot == 3 || slot == 5;
    let fbc = with_counts(3, &[9, 1, 9, 9, 1, 1, 1]);
    // FBC would choose 1, 4, 5 and 6; only 5, the third, is resident.
    for (window, expected, pointer) in [(1, 1, 2), (2, 1, 2), (3, 5, 6), (50, 5, 6)] {
        let mut fbc = fbc.clone();
        let found = fbc.victim_resident(class(0), window, |_| true, resident);
        assert_eq!((found, fbc.pointers()[0]), (Some(expected), pointer), "window {window}");
    }
    let mut pinned = fbc.clone();
    assert_eq!(pinned.victim_resident(class(0), 50, |slot| slot != 5, resident), Some(1));
    let mut popular = with_counts(3, &[5, 4, 7]);
    assert_eq!(popular.victim_resident(class(0), 50, |_| true, |_| true), Some(1), "the least of a lap");
}

#[test]
fn a_slot_just_filled_is_not_the_next_resident_victim() {
    let mut fbc = with_counts(3, &[1; 100]);
    let mut resident = [false; 100];
    resident[..20].fill(true);
    let mut seen = Vec::new();
    for _ in 0..20 {
        let slot =
            fbc.victim_resident(class(0), 64, |_| true, |slot| resident[slot as usize]).expect("all may go");
        fbc.filled(class(0), slot);
        resident[slot as usize] = true;
        seen.push(slot);
    }
    assert_eq!(seen, (0..20).collect::<Vec<u32>>());
}

/// One pointer over a list of all slots by offset, in which a search takes up where the last one of
/// any class ended.
#[test]
fn one_pointer_agrees_with_a_walk_over_the_file() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut fbc = Fbc::with_one_pointer(3, 100);
        let (mut file, mut offset, mut slots) = (Vec::new(), 0, [0; 5]);
        for _ in 0..60 {
            let class = class(random.below(5) as usize);
            let slot = slots[class.index()];
            slots[class.index()] += 1;
            fbc.cut(class, slot, offset);
            fbc.filled(class, slot);
            file.push((class, slot, 1));
            offset += class.bytes();
        }
        let mut pointer = 0;
        for _ in 0..500 {
            let at = random.below(60) as usize;
            let (class, slot, count) = &mut file[at];
            if random.below(3) > 0 {
                fbc.hit(*class, *slot);
                *count += 1;
                continue;
            }
            let class = *class;
            let lap = (0..60).map(|step| (pointer + step) % 60).filter(|at| file[*at].0 == class);
            let lap: Vec<usize> = lap.collect();
            let unpopular = lap.iter().find(|at| file[**at].2 < 3);
            let victim = *unpopular.or(lap.iter().min_by_key(|at| file[**at].2)).expect("its own slot");
            assert_eq!(fbc.victim(class, |_| true), Some(file[victim].1), "seed {seed}");
            fbc.filled(class, file[victim].1);
            file[victim].2 = 1;
            pointer = (victim + 1) % 60;
        }
    }
}

#[test]
fn halvings_are_counted() {
    let mut fbc = Fbc::new(3, 2);
    (0..4).for_each(|slot| fbc.filled(class(0), slot));
    assert_eq!(fbc.halvings(), 0);
    (0..5).for_each(|_| fbc.hit(class(0), 0));
    assert_eq!((fbc.halvings(), fbc.totals()), (1, (4, 6)), "6, 1, 1, 1 becomes 3, 1, 1, 1");
}

//! Spans stay dense under any load, bodies keep their bytes, and held bodies keep their place.

use super::*;
use crate::sys::page_arena::REFUSED;
use crate::tests::{Article, key};
use crate::{ENTRY_OVERHEAD_BYTES, LENT_MIN, MemoryBudget};
use bytes::Bytes;
use std::collections::VecDeque;
use std::thread;

type Tier = Arc<MemoryTier<Article>>;

fn tier(bytes: u64) -> Tier {
    MemoryTier::new(MemoryBudget::new(bytes), 4)
}

/// Returns a number that looks random.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Returns the body of an article, made from its number and edition. Most are short, few long.
fn content(number: u64, edition: u64) -> Vec<u8> {
    let chance = mixed(number * 31 + edition);
    let length = (chance >> 8) % (100 << (chance % 10));
    (0..length).map(|at| (at + number + edition * 7) as u8).collect()
}

fn put(tier: &Tier, number: u64, edition: u64) -> u64 {
    let body = content(number, edition);
    let length = body.len() as u64;
    let body = tier.place(key(number), body.into());
    assert!(tier.insert(key(number), Arc::new(Article { number, edition, body }), length), "there is room");
    length
}

fn check(article: &Article) {
    assert_eq!(article.body[..], content(article.number, article.edition), "article {}", article.number);
}

/// Returns the bytes of the bodies in the tier, each rounded up to a multiple of eight.
fn live(tier: &Tier, numbers: u64) -> u64 {
    let bodies = (0..numbers).filter_map(|number| tier.peek(key(number)));
    bodies.map(|article| (article.body.len() as u64).next_multiple_of(8)).sum()
}

#[test]
fn spans_stay_dense_whatever_comes_and_goes() {
    const NUMBERS: u64 = 20_000;
    let tier = tier(32 << 20);
    let mut come = 0;
    for step in 0..80_000_u64 {
        // Some numbers are asked for much more often than others, and stay.
        let chance = mixed(step);
        let number = if chance.is_multiple_of(2) { mixed(chance) % (NUMBERS / 20) } else { chance % NUMBERS };
        match tier.get(key(number)) {
            Some(article) => assert_eq!(article.number, number),
            None => come += put(&tier, number, step),
        }
        if step % 5000 == 4999 {
            let (usage, live) = (tier.usage(), live(&tier, NUMBERS));
            let allowed = live + live / 16 + (2 << 20);
            assert!(usage.span_bytes <= allowed, "{} in spans, {live} live, at {step}", usage.span_bytes);
        }
    }
    let usage = tier.usage();
    assert!(usage.evictions > 10_000, "objects came and went: {usage:?}");
    assert!(
        usage.moved_bytes > 0 && usage.moved_bytes < 4 * come,
        "{} moved, {come} come",
        usage.moved_bytes
    );
    (0..NUMBERS).filter_map(|number| tier.peek(key(number))).for_each(|article| check(&article));
}

#[test]
fn work_of_long_bodies_is_shared_out() {
    const SMALL: u64 = 4 << 10;
    // Long bodies without pages stand among the program's allocations.
    REFUSED.set(true);
    let tier = tier(32 << 20);
    let put = |number: u64, length: u64| {
        let before = tier.emptying.moved_bytes();
        let body = tier.place(key(number), vec![1; length as usize].into());
        let article = Article { number, edition: 0, body };
        assert!(tier.insert(key(number), Arc::new(article), length), "there is room");
        tier.emptying.moved_bytes() - before
    };
    // Each long body evicts a hundred small ones.
    let moved: Vec<u64> =
        (0..40_000).map(|at| put(at, if at % 200 == 199 { 100 * SMALL } else { SMALL })).collect();
    let (most, total) = (moved.iter().max().copied().unwrap_or(0), moved.iter().sum::<u64>());
    // Room for one body takes a few rounds.
    assert!(most <= 4 * (SHARE_MAX + SMALL), "{most} bytes moved for one body");
    assert!(total > 100 * SHARE_MAX, "{total} bytes moved at all");
    let (live, waiting) = (tier.spans.live_bytes(), OWED_MAX / PACE + 2 * SPAN_BYTES_MIN);
    assert!(tier.spans.taken_bytes() <= live + live / 16 + waiting, "dead bytes do not pile up");
}

#[test]
fn held_body_is_unchanged_and_keeps_little_memory() {
    let tier = tier(8 << 20);
    let mut held: VecDeque<(u64, Bytes)> = VecDeque::new();
    for number in 0..8_000 {
        put(&tier, number, 0);
        if number % 40 == 0 {
            held.push_back((number, tier.peek(key(number)).expect("it has just come").body.bytes()));
        }
        if held.len() > 50 {
            let (number, bytes) = held.pop_front().expect("many");
            assert_eq!(bytes, content(number, 0));
        }
    }
    let live: u64 = live(&tier, 8_000);
    // A held body may keep two pages of which it has a part.
    let allowed = live + live / 16 + (2 << 20) + held.len() as u64 * 8192;
    let taken = tier.usage().span_bytes;
    assert!(taken <= allowed, "{taken} in spans, {live} live");
    for (number, bytes) in held {
        assert_eq!(bytes, content(number, 0));
    }
}

#[test]
fn removed_bodies_leave_nothing_in_spans() {
    let tier = tier(16 << 20);
    for number in 0..1_500 {
        put(&tier, number, 0);
    }
    for number in 0..1_500 {
        tier.remove(key(number));
    }
    let taken = tier.usage().span_bytes;
    assert!(taken < 4 << 20, "{taken} bytes in spans of which none are live");
    // Removed objects linger until a caller asks for room.
    assert!(tier.insert_empty(2_000));
    assert_eq!(tier.spans.live_bytes(), 0);
    for number in 0..200 {
        put(&tier, number, 1);
    }
    assert!(tier.usage().span_bytes < 4 << 20, "{}", tier.usage().span_bytes);
}

#[test]
fn arrived_bodies_not_kept_leave_nothing() {
    let tier = tier(16 << 20);
    for number in 0..3_000 {
        let mut arriving = tier.room(key(number), 30_000).expect("memory");
        drop(arriving.push(&[1; 1000]));
    }
    for number in 0..3_000 {
        drop(tier.place(key(number), vec![1; 30_000].into()));
    }
    assert!(tier.usage().span_bytes < 4 << 20, "{} bytes in spans", tier.usage().span_bytes);
}

#[test]
fn spans_make_room_for_other_reservations() {
    let tier = tier(16 << 20);
    for number in 0..3_000 {
        put(&tier, number, 0);
    }
    let before = tier.usage().span_bytes;
    let reserved: Vec<_> = (0..15).filter_map(|_| tier.ledger.try_reserve(1 << 20)).collect();
    assert_eq!(reserved.len(), 15);
    let after = tier.usage().span_bytes;
    // Spans that take bodies may be full of dead ones.
    assert!(after < 5 << 20, "{after} bytes in spans, {before} before");
}

#[test]
fn immovable_spans_are_tried_again_without_others() {
    const NUMBERS: u64 = 200;
    let tier = tier(8 << 20);
    let put_one = |number| {
        let body = tier.place(key(number), vec![number as u8; 30_000].into());
        assert!(tier.insert(key(number), Arc::new(Article { number, edition: 0, body }), 30_000));
    };
    (0..NUMBERS).for_each(put_one);
    let held: Vec<Bytes> = (0..NUMBERS)
        .filter(|number| number % 5 != 0)
        .map(|number| tier.peek(key(number)).expect("there is room").body.bytes())
        .collect();
    for number in 0..NUMBERS {
        tier.remove(key(number));
    }
    (0..20).for_each(|_| assert!(tier.insert_empty(1_000)));
    drop(held);
    (0..200).for_each(|_| assert!(tier.insert_empty(1_000)));
    let taken = tier.usage().span_bytes;
    assert!(taken < 2 << 20, "{taken} bytes in spans of which none are live");
}

#[test]
fn immovable_bodies_are_not_owed() {
    let tier = tier(8 << 20);
    let put_one = |number| {
        let body = tier.place(key(number), vec![1; 1_000].into());
        assert!(tier.insert(key(number), Arc::new(Article { number, edition: 0, body }), 1_000));
    };
    (0..4_000).for_each(put_one);
    // Each page keeps a held body, so that no page goes back either.
    let held: Vec<Bytes> = (0..4_000)
        .step_by(4)
        .filter_map(|number| tier.peek(key(number)))
        .map(|one| one.body.bytes())
        .collect();
    (0..4_000).for_each(|number| assert!(tier.remove(key(number))));
    (0..100).for_each(|_| tier.empty_spans(1 << 20));
    assert!(held.len() > 500 && tier.spans.are_wasteful());
    let owed = tier.emptying.work.lock().owed_bytes;
    assert!(owed <= OWED_MAX, "one thread would have to move {owed} bytes later");
}

trait Empty {
    fn insert_empty(&self, number: u64) -> bool;
}

impl Empty for Tier {
    fn insert_empty(&self, number: u64) -> bool {
        let reserved = self.ledger.try_reserve(self.ledger.limit());
        drop(reserved);
        self.insert(key(number), Arc::new(Article { number, edition: 0, body: Bytes::new().into() }), 0)
    }
}

#[test]
fn large_and_empty_bodies_stand_elsewhere() {
    let tier = tier(8 << 20);
    for length in [0, LENT_MIN, LENT_MIN + 1] {
        assert_eq!(*tier.place(key(1), vec![1; length].into()), vec![1; length]);
        let mut room = tier.room(key(1), length as u64);
        let part = room.as_mut().map(|room| room.push(&vec![1; length]));
        assert_eq!((room.is_some(), part.map_or(0, |part| part.len())), (length > 0, length));
        assert_eq!(tier.usage().span_bytes, 0);
    }
    assert_eq!(tier.place(key(1), vec![1; LENT_MIN - 1].into()).len(), LENT_MIN - 1);
    assert_eq!(tier.usage().span_bytes, (LENT_MIN as u64).next_multiple_of(8));
}

#[test]
fn large_bodies_without_pages_go_into_spans() {
    let tier = tier(8 << 20);
    REFUSED.set(true);
    for (length, is_spanned) in [(LENT_MIN, true), (2 * LENT_MIN, true), (2 * LENT_MIN + 1, false)] {
        let before = tier.usage().span_bytes;
        let arriving = tier.room(key(1), length as u64);
        assert_eq!((arriving.is_some(), tier.usage().span_bytes > before), (is_spanned, is_spanned));
        let body = tier.place(key(1), vec![3; length].into());
        assert!(*body == vec![3; length][..] && body.room_bytes() == length as u64, "{length}");
    }
    REFUSED.set(false);
}

#[test]
fn concurrent_threads_see_whole_bodies_only() {
    const NUMBERS: u64 = 600;
    let ledger = MemoryBudget::new(2 << 20);
    let tier: Tier = MemoryTier::new(Arc::clone(&ledger), 4);
    thread::scope(|scope| {
        for worker in 0..4_u64 {
            let tier = &tier;
            scope.spawn(move || {
                let mut held: VecDeque<(u64, u64, Bytes)> = VecDeque::new();
                for step in 0..15_000_u64 {
                    let chance = mixed(step * 4 + worker);
                    let number = chance % NUMBERS;
                    match tier.get(key(number)) {
                        Some(article) => {
                            check(&article);
                            match chance >> 32 & 15 {
                                0 => held.push_back((number, article.edition, article.body.bytes())),
                                1 => drop(tier.remove(key(number))),
                                2 => renew(tier, &article),
                                _ => {}
                            }
                        }
                        None => drop(put_if_room(tier, number, step)),
                    }
                    if held.len() > 8 {
                        let (number, edition, bytes) = held.pop_front().expect("nine");
                        assert_eq!(bytes, content(number, edition));
                    }
                }
            });
        }
    });
    assert!(tier.usage().moved_bytes > 0 && tier.usage().evictions > 0, "{:?}", tier.usage());
    drop(tier);
    assert_eq!(ledger.used(), 0);
}

fn put_if_room(tier: &Tier, number: u64, edition: u64) -> bool {
    let body = content(number, edition);
    let length = body.len() as u64;
    let body = tier.place(key(number), body.into());
    tier.insert(key(number), Arc::new(Article { number, edition, body }), length)
}

/// Replaces an article with a successor that has the same body, as a validation does.
fn renew(tier: &Tier, article: &Article) {
    let next = Article { body: article.body.clone(), ..*article };
    let length = next.body.len() as u64;
    tier.replace_if(key(article.number), Arc::new(next), length, |now| now.edition == article.edition);
}

#[test]
fn charge_covers_room_of_body_in_span() {
    // Rounding to eight bytes, and the key in the span's list.
    assert!(ENTRY_OVERHEAD_BYTES > 8 + 2 * size_of::<Key>() as u64);
}

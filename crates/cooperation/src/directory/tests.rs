//! Digests against sets, and directories that lose, repeat and reorder messages.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn key(number: u64) -> Key {
    Key::unkeyed(&number.to_le_bytes())
}

/// Formula (1 − e^(−h/b))^h (Fan et al. 2000, section V.A): for h = 4, 2.4% at 8 bits a key and
/// 0.24% at 16.
#[test]
fn strange_keys_are_found_as_seldom_as_the_formula_says() {
    for (bits_per_key, expected) in [(8, 0.024), (16, 0.0024)] {
        let mut own = CountingFilter::new(DigestShape::new(20_000, bits_per_key, 4));
        (0..20_000).for_each(|number| own.insert(key(number)));
        assert!((0..20_000).all(|number| own.digest.contains(key(number))), "what is in is found");
        let found = (20_000..220_000).filter(|number| own.digest.contains(key(*number))).count() as f64 / 2e5;
        assert!((found / expected - 1.0).abs() < 0.15, "{bits_per_key}: {found}");
        let filled = 1.0 - (-4.0 / f64::from(bits_per_key)).exp();
        assert!((own.digest.filled() - filled).abs() < 0.005);
        (0..20_000).for_each(|number| own.remove(key(number)));
        assert!(own.digest.filled() < 1e-4, "counters of four bits hardly ever stick");
    }
}

#[test]
fn updates_wait_for_the_threshold_and_take_the_shorter_form() {
    let mut node = Directory::new(DigestShape::new(1000, 8, 4), 0.02, 1);
    assert_eq!(node.update(), None);
    (0..1000).for_each(|number| node.stored(key(number)));
    let whole = node.update().expect("everything is new");
    assert!(matches!(whole.body, UpdateBody::Whole(_)) && whole.bytes() == 16 + 1000);
    for number in 1000..1020 {
        node.stored(key(number));
        assert_eq!(node.update(), None, "{number}");
    }
    node.stored(key(1020));
    let few = node.update().expect("two in a hundred are new");
    assert!(matches!(&few.body, UpdateBody::Flips(flips) if (40..=84).contains(&flips.len())));
    assert!(few.bytes() < whole.bytes() && few.sequence == 2);
    assert_eq!((node.held(), node.update()), (1021, None));
}

#[test]
fn a_lost_update_makes_the_peer_unknown_until_it_sends_all() {
    let shape = DigestShape::new(10_000, 8, 4);
    let (mut a, mut b, from) = (Directory::new(shape, 0.0, 1), Directory::new(shape, 0.0, 2), NodeId(1));
    let mut told = |number| {
        a.stored(key(number));
        a.update().expect("a threshold of nothing")
    };
    let (first, second, third) = (told(1), told(2), told(3));
    assert_eq!(b.receive(from, first.clone()), UpdateOutcome::Gap, "the peer was never known");
    assert_eq!(
        b.receive(from, Update { life: 1, sequence: 0, body: UpdateBody::Whole(Digest::new(shape)) }),
        UpdateOutcome::Applied
    );
    assert_eq!(b.receive(from, first.clone()), UpdateOutcome::Applied);
    assert_eq!(b.receive(from, first), UpdateOutcome::Old);
    assert_eq!(b.holders(key(1)).collect::<Vec<_>>(), [from]);
    assert_eq!(b.receive(from, third), UpdateOutcome::Gap);
    assert_eq!(b.holders(key(1)).count(), 0, "nothing is known any more");
    assert_eq!(b.receive(from, a.whole()), UpdateOutcome::Applied);
    assert_eq!(b.receive(from, second), UpdateOutcome::Old);
    assert!([1, 2, 3].iter().all(|number| b.holders(key(*number)).count() == 1));
    b.forget(from);
    assert_eq!(b.holders(key(1)).count(), 0);
}

#[test]
fn a_peer_that_began_anew_is_unknown_until_it_sends_all() {
    let (shape, from) = (DigestShape::new(10_000, 8, 4), NodeId(1));
    let live = |life| {
        let mut node = Directory::new(shape, 0.0, life);
        let updates: Vec<Update> = (0..4)
            .map(|number| {
                node.stored(key(life * 10 + number));
                node.update().expect("a threshold of nothing")
            })
            .collect();
        (node, updates)
    };
    let ((before, mut told), (after, mut told_anew)) = (live(1), live(2));
    let mut b = Directory::new(shape, 0.0, 9);
    let _ = b.receive(from, before.whole());
    let (last, next) = (told.pop().expect("four"), told_anew.pop().expect("four"));
    assert_eq!(b.receive(from, last), UpdateOutcome::Old);
    assert_eq!(
        b.receive(from, Update { sequence: 5, ..next.clone() }),
        UpdateOutcome::Gap,
        "the next by number alone"
    );
    assert_eq!(b.holders(key(10)).count(), 0);
    let _ = b.receive(from, before.whole());
    assert_eq!(
        b.receive(from, told_anew.remove(0)),
        UpdateOutcome::Gap,
        "what it lost is not believed for four updates more"
    );
    assert_eq!(b.receive(from, after.whole()), UpdateOutcome::Applied);
    assert_eq!((b.holders(key(13)).count(), b.holders(key(23)).count()), (0, 1));
}

#[test]
fn bits_that_a_digest_does_not_have_are_a_gap() {
    let (shape, from) = (DigestShape::new(8, 8, 4), NodeId(1));
    let (a, mut b) = (Directory::new(shape, 0.0, 1), Directory::new(shape, 0.0, 2));
    for (bit, expected) in
        [(63, UpdateOutcome::Applied), (64, UpdateOutcome::Gap), (u32::MAX, UpdateOutcome::Gap)]
    {
        let _ = b.receive(from, a.whole());
        assert_eq!(
            b.receive(from, Update { life: 1, sequence: 1, body: UpdateBody::Flips(vec![bit]) }),
            expected
        );
        b.forget(from);
    }
    let last = Update { sequence: u64::MAX, ..a.whole() };
    let _ = b.receive(from, last.clone());
    assert_eq!(
        b.receive(from, Update { sequence: 0, body: UpdateBody::Flips(vec![]), ..last }),
        UpdateOutcome::Old
    );
}

proptest! {
    /// Tries any keys, and messages lost or repeated. After all updates of a node have arrived, a
    /// peer finds every key in them.
    #[test]
    fn what_was_told_is_found(steps in prop::collection::vec((0u64..60, 0u8..8), 1..200)) {
        let shape = DigestShape::new(64, 8, 3);
        let (mut a, mut b) = (Directory::new(shape, 0.2, 1), Directory::new(shape, 0.2, 2));
        let (mut held, mut told) = (HashSet::new(), HashSet::new());
        let _ = b.receive(NodeId(7), a.whole());
        for (number, fate) in steps {
            if held.remove(&number) { a.removed(key(number)) } else { held.insert(number); a.stored(key(number)) }
            let Some(update) = a.update() else { continue };
            told.clone_from(&held);
            let received = if fate == 0 { UpdateOutcome::Gap } else { b.receive(NodeId(7), update.clone()) };
            if fate == 1 {
                let again = b.receive(NodeId(7), update);
                prop_assert!(again != UpdateOutcome::Gap);
            }
            if received == UpdateOutcome::Gap {
                prop_assert_eq!(b.receive(NodeId(7), a.whole()), UpdateOutcome::Applied);
            }
            for number in &told {
                prop_assert!(b.holders(key(*number)).count() == 1);
            }
        }
    }

    #[test]
    fn any_shape_and_any_bit_is_taken(keys in any::<u64>(), bits in any::<u32>(), hashes in any::<u32>(), flip in any::<u32>()) {
        let shape = DigestShape::new(keys % 10_000, bits, hashes);
        let mut digest = Digest::new(shape);
        digest.flip(flip);
        prop_assert!(digest.filled() <= 1.0 && !digest.contains(key(1)) || shape.bits() < 65);
    }
}

//! Digests against sets, and directories that lose, repeat and reorder messages.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;

fn key(number: u64) -> Key {
    Key::unkeyed(&number.to_le_bytes())
}

/// Formula (1 − e^(−h/b))^h (Fan et al. 2000, section V.A): for h = 4, 2.4% at 8 bits a key and
/// 0.24% at 16.
#[test]
fn false_positives_match_formula() {
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
fn update_waits_for_threshold_and_is_short() {
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
fn lost_update_drops_peer_until_whole_digest() {
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
fn restarted_peer_is_unknown_until_whole_digest() {
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
    fn directory_finds_every_delivered_key(steps in prop::collection::vec((0u64..60, 0u8..8), 1..200)) {
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

/// Tries an answer after it has gone over the wire.
fn sent(answer: &DigestAnswer) -> DigestAnswer {
    let bytes = answer.encode();
    assert!(bytes.len() <= ANSWER_BYTES_MAX);
    let read = DigestAnswer::decode(&bytes).expect("what is written can be read");
    assert!(read == *answer && read.encode() == bytes);
    for cut in [0, 1, bytes.len() - 1] {
        assert_eq!(DigestAnswer::decode(&bytes[..cut]), None);
    }
    assert_eq!(DigestAnswer::decode(&[&bytes[..], b"!"].concat()), None);
    read
}

fn publish(digest: &mut PublishedDigest, keys: &HashSet<u64>) {
    digest.publish(keys.iter().map(|number| key(*number)));
}

#[test]
fn published_digest_is_sized_for_its_count() {
    for count in [0u64, 1, 1_000, 3_000, 1_100_000] {
        let (mut own, mut known) = (PublishedDigest::new(1), KnownDigests::default());
        own.publish((0..count as u32).map(|number| key(u64::from(number))));
        let kept = count.min(DIGEST_KEYS_MAX);
        assert_eq!(own.keys(), kept);
        let whole = sent(&own.since(DigestVersion::default()));
        let bytes = whole.encode().len() as u64;
        assert!(bytes <= (kept * 2).max(1024) + 64, "{count}: {bytes}");
        assert_eq!(known.receive(NodeId(1), whole, Duration::ZERO), DigestReceipt::Changed);
        let is_known = |number| known.holders(key(number), |_| Some(0))[0].is_some();
        assert!((0..kept.min(10_000)).all(is_known), "no false misses");
        let foreign = (0..100_000).filter(|number| is_known(10_000_000 + number)).count();
        assert!(foreign <= 2_700, "{count}: at most 2.4% of foreign keys, {foreign}");
    }
}

#[test]
fn holders_are_few_and_the_nearest_first() {
    let mut known = KnownDigests::default();
    let mut own = PublishedDigest::new(1);
    publish(&mut own, &HashSet::from([1]));
    for node in 1..=5 {
        assert_eq!(
            known.receive(NodeId(node), own.since(DigestVersion::default()), Duration::ZERO),
            DigestReceipt::Changed
        );
    }
    let far = |node: NodeId| (node.0 != 4).then_some(10 - node.0);
    assert_eq!(known.holders(key(1), far), [Some(NodeId(5)), Some(NodeId(3))]);
    assert_eq!(known.holders(key(2), far), [None, None]);
    known.keep(Duration::from_secs(10), |node| node.0 > 3);
    assert_eq!(known.holders(key(1), far), [Some(NodeId(5)), None]);
    assert_eq!(known.age(Duration::from_secs(10)), Duration::from_secs(10));
    known.keep(Duration::from_secs(301), |_| true);
    assert!(known.is_empty(), "nobody has confirmed it");
}

#[test]
fn digest_of_everything_is_refused() {
    let mut known = KnownDigests::default();
    let full = Digest::of_words(DigestShape::of_words(16, 4).expect("sound"), vec![u64::MAX; 16]);
    let version = DigestVersion { life: 1, number: 1 };
    let whole = DigestAnswer::Whole(WholeDigest { version, keys: 1, digest: full });
    assert_eq!(known.receive(NodeId(1), whole, Duration::ZERO), DigestReceipt::Refused);
    let (sound, shape) = (vec![0; 16], DigestShape::of_words(16, 4).expect("sound"));
    let digest = Digest::of_words(shape, sound);
    let whole = DigestAnswer::Whole(WholeDigest { version, keys: 1, digest });
    assert_eq!(known.receive(NodeId(1), whole, Duration::ZERO), DigestReceipt::Changed);
    let flips: Vec<u32> = (0..1024).collect();
    let sum = Digest::of_words(shape, vec![u64::MAX; 16]).sum();
    let delta = DigestDelta { life: 1, from: 1, to: 2, keys: 1, sum, flips };
    assert_eq!(known.receive(NodeId(1), DigestAnswer::Delta(delta), Duration::ZERO), DigestReceipt::Gap);
    assert!(known.is_empty());
}

proptest! {
    /// Tries any changes, with answers lost and repeated, and restarts. An applied answer gives the
    /// newest digest; a delta that does not fit ends in a whole transfer.
    #[test]
    fn delta_to_a_version_gives_the_newest(
        steps in prop::collection::vec((0u64..3000, 1u64..40, 0u8..8), 1..60),
    ) {
        let (mut own, mut known) = (PublishedDigest::new(1), KnownDigests::default());
        let (mut keys, mut lives, node) = (HashSet::new(), 1, NodeId(7));
        let mut old = None;
        for (first, count, fate) in steps {
            for number in first..first + count {
                if !keys.remove(&number) { keys.insert(number); }
            }
            if fate == 7 {
                lives += 1;
                own = PublishedDigest::new(lives);
            }
            publish(&mut own, &keys);
            if fate == 0 { continue; }
            let answer = sent(&own.since(known.version(node)));
            let repeated = old.replace(answer.clone());
            if let Some(repeated) = repeated.filter(|_| fate == 1)
                && known.receive(node, repeated, Duration::ZERO) == DigestReceipt::Gap {
                prop_assert_eq!(known.version(node), DigestVersion::default());
            }
            if known.receive(node, answer, Duration::ZERO) == DigestReceipt::Gap {
                let whole = own.since(known.version(node));
                prop_assert!(matches!(whole, DigestAnswer::Whole(_)));
                prop_assert_eq!(known.receive(node, whole, Duration::ZERO), DigestReceipt::Changed);
            }
            if known.version(node) == own.version() {
                for number in &keys {
                    prop_assert!(known.holders(key(*number), |_| Some(0))[0] == Some(node));
                }
                prop_assert_eq!(own.since(known.version(node)), DigestAnswer::Same);
            }
        }
    }

    #[test]
    fn arbitrary_answers_are_refused_or_sound(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..6) {
        let bytes = [&[1, kind][..], &bytes].concat();
        if let Some(answer) = DigestAnswer::decode(&bytes) {
            prop_assert_eq!(answer.encode(), bytes);
            let _ = KnownDigests::default().receive(NodeId(1), answer, Duration::ZERO);
        }
    }
}

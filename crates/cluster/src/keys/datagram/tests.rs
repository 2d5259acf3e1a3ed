//! Datagrams that were forged, replayed, reordered, cut or made too long.

use super::*;
use crate::keys::KeyFile;
use proptest::prelude::*;

fn ring(name: &str, byte: u8) -> KeyRing {
    KeyRing { cluster: name.into(), keys: vec![ClusterKey::new([byte; 32])], placement: None }
}

fn sealer(ring: &KeyRing, life: u64) -> Sealer {
    Sealer::new(ring, NodeId(1), life, 0)
}

fn opener(ring: &KeyRing) -> Opener {
    Opener::new(ring, NodeId(2))
}

fn open(opener: &mut Opener, datagram: &[u8]) -> Result<Vec<u8>, DatagramFault> {
    opener.open(&mut datagram.to_vec()).map(|opened| opened.body.to_vec())
}

#[test]
fn body_comes_out_as_sealed() {
    for ring in [ring("a", 1), KeyRing::keyless("a")] {
        let (mut sealer, mut opener) = (sealer(&ring, 5), opener(&ring));
        for body in [&b""[..], b"x", &[7; DATAGRAM_BYTES_MAX - SEAL_BYTES]] {
            let mut datagram = sealer.seal(body);
            assert_eq!(datagram.len(), body.len() + SEAL_BYTES);
            let opened = opener.open(&mut datagram).expect("sealed by a member");
            assert_eq!(opened, PlainDatagram { sender: NodeId(1), life: 5, body });
        }
    }
    let sealed = sealer(&ring("a", 1), 5).seal(b"plain words");
    assert!(!sealed.windows(5).any(|window| window == b"plain"), "nobody outside can read it");
}

#[test]
fn hostile_datagrams_are_dropped_by_reason() {
    let ours = ring("a", 1);
    let good = sealer(&ours, 5).seal(b"body");
    let changed = |at: usize| {
        let mut datagram = good.clone();
        datagram[at] ^= 1;
        datagram
    };
    let own = Sealer::new(&ours, NodeId(2), 5, 0).seal(b"body");
    for (datagram, fault) in [
        (vec![0; DATAGRAM_BYTES_MAX + 1], DatagramFault::TooLong),
        (Vec::new(), DatagramFault::TooShort),
        (good[..HEAD_BYTES + TAG_BYTES - 1].to_vec(), DatagramFault::TooShort),
        (vec![0; 100], DatagramFault::Foreign),
        (changed(1), DatagramFault::Version),
        (changed(2), DatagramFault::UnknownKey),
        (changed(6), DatagramFault::Forged),
        (changed(14), DatagramFault::Forged),
        (changed(22), DatagramFault::Forged),
        (changed(HEAD_BYTES), DatagramFault::Forged),
        (changed(good.len() - 1), DatagramFault::Forged),
        (good[..good.len() - 1].to_vec(), DatagramFault::Forged),
        ([&good[..], b"x"].concat(), DatagramFault::Forged),
        (sealer(&KeyRing::keyless("a"), 5).seal(b"body"), DatagramFault::Unsealed),
        (sealer(&ring("a", 2), 5).seal(b"body"), DatagramFault::UnknownKey),
        (sealer(&ring("b", 1), 5).seal(b"body"), DatagramFault::UnknownKey),
        (own, DatagramFault::OwnName),
    ] {
        let mut opener = opener(&ours);
        assert_eq!(open(&mut opener, &datagram), Err(fault));
        assert!(opener.senders.is_empty(), "a refused datagram leaves no trace");
        assert_eq!(open(&mut opener, &good), Ok(b"body".to_vec()));
    }
    let mut keyless = opener(&KeyRing::keyless("a"));
    assert_eq!(open(&mut keyless, &good), Err(DatagramFault::UnknownKey));
    let other = sealer(&KeyRing::keyless("b"), 5).seal(b"body");
    assert_eq!(open(&mut keyless, &other), Err(DatagramFault::Forged));
}

#[test]
fn replays_are_dropped_and_reordering_is_not() {
    let ring = ring("a", 1);
    let (mut sealer, mut opener) = (sealer(&ring, 5), opener(&ring));
    let datagrams: Vec<_> = (0..200u8).map(|number| sealer.seal(&[number])).collect();
    for at in [1, 0, 3, 2, 60] {
        assert!(open(&mut opener, &datagrams[at]).is_ok(), "{at}");
        assert_eq!(open(&mut opener, &datagrams[at]), Err(DatagramFault::Replayed), "{at}");
    }
    assert!(open(&mut opener, &datagrams[199]).is_ok());
    assert_eq!(open(&mut opener, &datagrams[70]), Err(DatagramFault::Replayed), "too old to know");
}

#[test]
fn earlier_life_is_dropped_once_a_later_is_known() {
    let ring = ring("a", 1);
    let mut opener = opener(&ring);
    let (old, new) = (sealer(&ring, 5).seal(b"old"), sealer(&ring, 6).seal(b"new"));
    assert!(open(&mut opener, &old).is_ok() && open(&mut opener, &new).is_ok());
    let old = sealer(&ring, 5).renewed(&ring, 5).seal(b"old");
    assert_eq!(open(&mut opener, &old), Err(DatagramFault::OldLife));
}

#[test]
fn rotation_opens_at_each_step() {
    let old = KeyFile::generate().expect("randomness");
    let added = old.clone().with_key_added().expect("randomness");
    let turned = added.clone().with_second_first().expect("two keys");
    let last = turned.clone().with_first_alone().expect("two keys");
    let rings = [old, added, turned, last].map(|file| KeyRing::new("a", &file));
    let (mut sealer, mut opener) = (sealer(&rings[0], 5), opener(&rings[0]));
    for ring in &rings[1..] {
        opener.set_ring(ring);
        assert!(open(&mut opener, &sealer.seal(b"x")).is_ok(), "this node is a step ahead");
        sealer = sealer.renewed(ring, 5);
        assert!(open(&mut opener, &sealer.seal(b"x")).is_ok());
    }
    let unknown = sealer.renewed(&rings[0], 5).seal(b"x");
    assert_eq!(open(&mut opener, &unknown), Err(DatagramFault::UnknownKey));
}

proptest! {
    #[test]
    fn changed_datagram_never_opens(at in 0..60usize, bit in 0..8u8, cut in 0..60usize) {
        let ring = ring("a", 1);
        let good = sealer(&ring, 5).seal(b"fourteen bytes");
        let mut changed = good.clone();
        changed[at] ^= 1 << bit;
        prop_assert!(open(&mut opener(&ring), &changed).is_err());
        prop_assert!(open(&mut opener(&ring), &good[..cut]).is_err());
    }

    #[test]
    fn any_bytes_are_dropped(bytes in proptest::collection::vec(any::<u8>(), 0..1300)) {
        prop_assert!(open(&mut opener(&ring("a", 1)), &bytes).is_err());
    }
}

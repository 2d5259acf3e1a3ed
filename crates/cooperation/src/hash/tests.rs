//! Every rule: even loads, kept weights, and moves of a lost node's keys only.

use super::*;

fn keys() -> impl Iterator<Item = Key> {
    (0..20_000u32).map(|number| Key::unkeyed(&number.to_le_bytes()))
}

fn nodes(count: u64) -> impl Iterator<Item = NodeId> {
    (1..=count).map(NodeId)
}

fn loads(homes: &dyn HashPlacement, count: usize) -> Vec<usize> {
    let mut loads = vec![0; count];
    for key in keys() {
        loads[homes.home(key).expect("there are nodes").0 as usize - 1] += 1;
    }
    loads
}

/// Checks evenness to a share of the mean, and the keys that a loss and a return move.
fn check(homes: &mut dyn HashPlacement, name: &str, uneven: f64) {
    nodes(10).for_each(|node| homes.insert(node, 1.0));
    for load in loads(homes, 10) {
        assert!((load as f64 / 2000.0 - 1.0).abs() < uneven, "{name}: {load}");
    }
    let before: Vec<_> = keys().map(|key| homes.home(key)).collect();
    homes.remove(NodeId(4));
    for (key, home) in keys().zip(&before) {
        let now = homes.home(key);
        assert!(now != Some(NodeId(4)), "{name}");
        assert!(*home == Some(NodeId(4)) || now == *home, "{name}: only the lost node's keys move");
    }
    homes.insert(NodeId(4), 1.0);
    assert!(keys().zip(&before).all(|(key, home)| homes.home(key) == *home), "{name}: and come back");
    nodes(10).for_each(|node| homes.remove(node));
    assert_eq!(homes.home(Key::unkeyed(b"x")), None, "{name}");
}

#[test]
fn loss_moves_lost_keys_only_and_stays_even() {
    check(&mut Rendezvous::default(), "rendezvous", 0.1);
    check(&mut Ring::default(), "ring", 0.3);
    check(&mut Carp::default(), "carp", 0.25);
}

#[test]
fn weights_are_kept() {
    let mut rules: [(Box<dyn HashPlacement>, f64); 3] =
        [(Box::<Rendezvous>::default(), 0.05), (Box::<Ring>::default(), 0.15), (Box::<Carp>::default(), 0.2)];
    for (homes, off) in &mut rules {
        for (node, weight) in nodes(4).zip([1.0, 2.0, 3.0, 4.0]) {
            homes.insert(node, weight);
        }
        for (load, weight) in loads(&**homes, 4).into_iter().zip(1..) {
            let expected = 2000.0 * f64::from(weight);
            assert!((load as f64 / expected - 1.0).abs() < *off, "{load} for {expected}");
        }
        for weight in [0.0, -1.0, f64::NAN] {
            homes.insert(NodeId(9), weight);
            assert!(keys().take(1000).all(|key| homes.home(key) != Some(NodeId(9))), "weight {weight}");
        }
    }
}

#[test]
fn a_node_of_little_weight_has_a_part() {
    for homes in &mut [
        Box::<Rendezvous>::default() as Box<dyn HashPlacement>,
        Box::<Ring>::default(),
        Box::<Carp>::default(),
    ] {
        homes.insert(NodeId(7), 1e-4);
        assert_eq!(homes.home(Key::unkeyed(b"x")), Some(NodeId(7)), "it is the only one");
    }
}

/// The draft's functions, worked out by hand: h = 97 for "a"; "ab" adds the rotation by 19 and 98.
#[test]
fn carp_hashes_as_the_draft_says() {
    let named = [(NodeId(1), "proxy1", 1.0), (NodeId(2), "proxy2", 1.0)];
    let array = Carp::of(named);
    let hash = |text: &str| {
        let mut hash = 0u32;
        for byte in text.bytes() {
            let rotated = hash.rotate_right(13);
            hash = hash.wrapping_add(rotated).wrapping_add(u32::from(byte));
        }
        hash
    };
    assert_eq!((hash("a"), hash("ab")), (97, 97 + (97 << 19) + 98));
    let scramble = |hash: u32| {
        let hash = hash.wrapping_add(hash.wrapping_mul(0x62531965));
        hash.rotate_right(11)
    };
    for number in 0..200 {
        let url = format!("http://example.org/{number}");
        let score = |name| scramble(hash(&url) ^ scramble(hash(name)));
        let expected = if score("proxy1") > score("proxy2") { NodeId(1) } else { NodeId(2) };
        assert_eq!(array.home_of(&url), Some(expected), "{url}");
    }
}

#[test]
fn tiers_go_from_the_nearest_group_to_the_widest() {
    // Four cities of ten, two states of two cities, one coast.
    let places = |node: u64| vec![node / 10, node / 20, 0];
    let mut tiers = Tiers::new((0..40).map(|node| (NodeId(node), places(node))));
    let mut path = Vec::new();
    let (mut firsts, mut lengths) = (std::collections::BTreeSet::new(), 0);
    for key in keys().take(2000) {
        tiers.path(NodeId(13), key, &mut path);
        assert!((10..20).contains(&path[0].0) && path.iter().all(|node| node.0 < 40));
        assert!(
            path.len() < 2 || path[1].0 < 20 || path.len() == 2,
            "the state's home, or the coast's: {path:?}"
        );
        firsts.insert(path[0]);
        lengths += path.len();
        let mut other = Vec::new();
        tiers.path(NodeId(33), key, &mut other);
        assert_eq!(path.last(), other.last(), "the widest home is the same for all");
    }
    assert_eq!(firsts.len(), 10);
    // A home of the state is also that of the city with probability 1/2. The same holds for coast
    // and state.
    assert!((lengths as f64 / 2000.0 - 2.0).abs() < 0.1, "{lengths}");
    tiers.lose(NodeId(13));
    tiers.path(NodeId(13), Key::unkeyed(b"x"), &mut path);
    assert!(path.is_empty(), "who is gone has no path");
    assert!(keys().take(500).all(|key| {
        tiers.path(NodeId(12), key, &mut path);
        !path.contains(&NodeId(13))
    }));
}

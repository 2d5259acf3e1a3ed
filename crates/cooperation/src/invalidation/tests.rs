//! Tests of vectors, logs and messages, with purges in any order, lost and repeated.

use super::*;
use proptest::prelude::*;
use shoal_core::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

const LIMITS: LogLimits = LogLimits { entries: 1000, bytes: 1 << 20, age: Duration::from_secs(3600) };
const NOW: Timestamp = Timestamp::from_seconds(1_000);

fn ledger(node: u64, life: u64) -> PurgeLedger {
    PurgeLedger::new(NodeId(node), life, Vector::default(), PurgeLog::default(), LIMITS)
}

fn tag(number: u64) -> Scope {
    Scope::Tag(format!("t{number}"))
}

/// Issues `count` purges and records them.
fn issue(ledger: &mut PurgeLedger, count: u64, is_caught_up: bool) -> Vec<Purge> {
    let purges: Vec<Purge> = (0..count).flat_map(|number| ledger.issue(tag(number), is_caught_up)).collect();
    assert_eq!(ledger.record(purges.clone(), NOW), VectorChange::Advanced);
    purges
}

/// Applies purges that arrive. Returns those that were due.
fn take(ledger: &mut PurgeLedger, purges: &[Purge]) -> Vec<Purge> {
    let due = ledger.admit(purges.to_vec());
    let _ = ledger.record(due.clone(), NOW);
    due
}

/// Starts the node of a ledger again, with the state that it has written down.
fn restarted(before: &PurgeLedger) -> PurgeLedger {
    let (node, life) = (before.node(), before.life() + 1);
    PurgeLedger::new(node, life, before.vector().clone(), before.log().clone(), LIMITS)
}

/// Applies the purges that a peer lacks. Returns `false` if it has to take the whole vector.
fn repair(from: &PurgeLedger, to: &mut PurgeLedger) -> bool {
    loop {
        match from.repair(to.vector(), 200) {
            Repair::Entries { purges, has_more } => {
                take(to, &purges);
                if !has_more {
                    return true;
                }
            }
            Repair::Whole(vector) => {
                to.take_whole(&vector);
                return false;
            }
        }
    }
}

#[test]
fn gap_is_never_acknowledged() {
    let (mut origin, mut peer) = (ledger(1, 5), ledger(2, 9));
    let purges = issue(&mut origin, 4, true);
    assert_eq!(purges.len(), 5, "the life's start comes first");
    assert_eq!(take(&mut peer, &purges[2..]), []);
    assert_eq!(peer.vector().number(NodeId(1), 5), 0);
    assert_eq!(take(&mut peer, &purges[..1]), purges[..1]);
    assert_eq!(peer.vector().number(NodeId(1), 5), 1);
    assert_eq!(take(&mut peer, &purges[1..2]), purges[1..], "held back until now");
    assert_eq!(take(&mut peer, &purges), []);
    assert_eq!(peer.vector(), origin.vector());
    assert_eq!(peer.log().len(), 5, "what was held back can be handed on");
}

#[test]
fn ended_life_is_retired_once_complete() {
    let (mut origin, mut peer, mut late) = (ledger(1, 5), ledger(2, 9), ledger(3, 1));
    let old = issue(&mut origin, 3, true);
    let _ = peer.record(old.clone(), NOW);
    let _ = late.record(old[..2].to_vec(), NOW);
    let mut origin = restarted(&origin);
    let new = issue(&mut origin, 1, true);
    for node in [&mut peer, &mut late] {
        let _ = node.record(new.clone(), NOW);
    }
    assert!(peer.vector().is_retired(NodeId(1), 5) && origin.vector().is_retired(NodeId(1), 5));
    assert_eq!(peer.vector(), origin.vector());
    assert!(!late.vector().is_retired(NodeId(1), 5));
    assert!(!late.vector().covers(peer.vector()), "it lacks the end of the retired life");
    assert!(peer.vector().covers(late.vector()));
    assert!(repair(&peer, &mut late));
    assert_eq!(late.vector(), peer.vector());
}

#[test]
fn start_before_comparing_ends_no_life() {
    let (mut origin, mut peer) = (ledger(1, 5), ledger(2, 9));
    let old = issue(&mut origin, 3, true);
    let _ = peer.record(old, NOW);
    // Its file is lost: it would name too low an end.
    let mut origin = ledger(1, 6);
    let new = issue(&mut origin, 1, false);
    let _ = peer.record(new, NOW);
    assert!(!peer.vector().is_retired(NodeId(1), 5));
    assert!(!origin.vector().covers(peer.vector()));
    assert!(repair(&peer, &mut origin));
    assert_eq!(origin.vector(), peer.vector());
}

#[test]
fn too_many_unended_lives_are_told_as_uncertain() {
    let mut peer = ledger(2, 9);
    for life in 0..LIVES_MAX as u64 {
        let mut origin = ledger(1, 100 + life);
        let purges = issue(&mut origin, 2, false);
        assert_eq!(peer.record(purges, NOW), VectorChange::Advanced);
    }
    let mut origin = ledger(1, 200);
    let purges = origin.issue(tag(0), false);
    assert_eq!(peer.record(purges, NOW), VectorChange::Uncertain);
}

#[test]
fn trimmed_log_makes_a_peer_take_the_whole() {
    let limits = LogLimits { entries: 4, ..LIMITS };
    let mut origin = PurgeLedger::new(NodeId(1), 5, Vector::default(), PurgeLog::default(), limits);
    let (mut near, mut far) = (ledger(2, 1), ledger(3, 1));
    for round in 0..10 {
        let purges = origin.issue(tag(round), true);
        let _ = origin.record(purges.clone(), NOW);
        if round < 8 {
            let _ = near.record(purges, NOW);
        }
    }
    assert!(repair(&origin, &mut near));
    assert!(!repair(&origin, &mut far));
    assert_eq!(far.vector(), origin.vector());
    // A node that took the whole cannot repair others from its log.
    let mut third = ledger(4, 1);
    assert!(!repair(&far, &mut third));
    assert_eq!(third.vector(), origin.vector());
    let own = issue(&mut far, 1, true);
    assert!(repair(&far, &mut near) && own.iter().all(|purge| near.vector().has(purge.id)));
}

#[test]
fn restored_log_repairs_as_far_as_it_reaches() {
    let mut origin = ledger(1, 5);
    let purges = issue(&mut origin, 9, true);
    let log = PurgeLog::restored(origin.vector(), purges[4..].to_vec(), NOW);
    let again = PurgeLedger::new(NodeId(1), 6, origin.vector().clone(), log, LIMITS);
    let (mut near, mut far) = (ledger(2, 1), ledger(3, 1));
    take(&mut near, &purges[..5]);
    take(&mut far, &purges[..3]);
    assert!(repair(&again, &mut near) && !repair(&again, &mut far));
    assert_eq!(near.vector(), far.vector());
}

#[test]
fn log_lets_go_by_age_and_bytes() {
    let mut origin = ledger(1, 5);
    issue(&mut origin, 3, true);
    origin.trim(Timestamp::from_seconds(1_000 + 3_600));
    assert_eq!(origin.log().len(), 4);
    origin.trim(Timestamp::from_seconds(1_001 + 3_600));
    assert!(origin.log().is_empty());
    assert!(matches!(origin.repair(&Vector::default(), 1 << 20), Repair::Whole(_)));
    let limits = LogLimits { bytes: 100, ..LIMITS };
    let mut origin = PurgeLedger::new(NodeId(1), 5, Vector::default(), PurgeLog::default(), limits);
    issue(&mut origin, 20, true);
    assert!(origin.log().len() <= 100 / 27);
}

#[test]
fn forged_purges_of_our_own_life_are_not_recorded() {
    let mut node = ledger(1, 5);
    issue(&mut node, 1, true);
    for (life, number) in [(5, 3), (6, 1), (u64::MAX, 1)] {
        let id = PurgeId { origin: NodeId(1), life, number };
        assert_eq!(take(&mut node, &[Purge { id, scope: Scope::All }]), []);
    }
    let mut other = ledger(1, 5);
    issue(&mut other, 50, true);
    node.take_whole(other.vector());
    assert_eq!(node.vector().number(NodeId(1), 5), 2);
    issue(&mut node, 1, true);
    assert_eq!(node.vector().number(NodeId(1), 5), 3);
}

#[test]
fn vector_and_held_purges_are_bounded() {
    let mut node = ledger(1, 5);
    let purge =
        |origin, number| Purge { id: PurgeId { origin: NodeId(origin), life: 1, number }, scope: Scope::All };
    for origin in 0..2 * ORIGINS_MAX as u64 {
        assert_eq!(take(&mut node, &[purge(origin + 10, 1)]).len(), 1, "it is applied all the same");
    }
    assert!(!node.vector().has_room(NodeId(9)));
    for number in 0..10_000 {
        assert_eq!(take(&mut node, &[purge(10, 3 + number)]), []);
    }
    assert_eq!(node.vector().number(NodeId(10), 1), 1);
    let due = take(&mut node, &[purge(10, 2)]).len();
    assert!((2..10_000).contains(&due), "{due} purges were held back");
}

#[test]
fn former_vectors_are_covered() {
    let (mut node, mut peer) = (ledger(1, 5), ledger(2, 5));
    let empty = peer.vector().hash();
    let purges = issue(&mut node, 2, true);
    assert_eq!(node.coverage(empty), Coverage::Covered);
    assert_eq!(peer.coverage(node.vector().hash()), Coverage::CatchUp);
    let _ = peer.record(purges, NOW);
    assert_eq!(peer.coverage(node.vector().hash()), Coverage::Covered);
}

#[test]
fn share_limits_bursts_and_refills() {
    let mut share = PurgeShare::new(100, 10);
    let at = |millis: u64| Timestamp::from_millis(1_000_000 + millis);
    assert_eq!(share.take(NodeId(1), 70, at(0)), 70);
    assert_eq!(share.take(NodeId(1), 70, at(0)), 30);
    assert_eq!(share.take(NodeId(2), 70, at(0)), 70, "each member has its own");
    assert_eq!(share.take(NodeId(1), 70, at(550)), 5);
    assert_eq!(share.take(NodeId(1), 1000, at(1_000_000_000)), 100);
    assert_eq!(share.take(NodeId(1), 1, at(5)), 0, "a clock that goes back gives nothing");
}

#[test]
fn lease_needs_a_majority() {
    let mut lease = Lease::new(Duration::from_secs(5));
    let others = [NodeId(2), NodeId(3), NodeId(4)];
    let at = Timestamp::from_seconds;
    assert!(lease.holds([], at(1)) && !lease.holds(others, at(1)));
    lease.hear(NodeId(2), at(10));
    assert!(!lease.holds(others, at(10)), "two of four are half");
    lease.hear(NodeId(3), at(12));
    assert!(lease.holds(others, at(15)) && !lease.holds(others, at(16)));
    assert!(!lease.holds(others, at(9)), "a clock that went back");
}

#[test]
fn absence_is_judged_by_own_clock() {
    let (age, at) = (Duration::from_secs(60), Timestamp::from_seconds);
    for (last, now, expected) in [
        (None, 100, true),
        (Some(100), 100, false),
        (Some(100), 160, false),
        (Some(100), 161, true),
        (Some(100), 99, true),
    ] {
        assert_eq!(absence_needs_validation(last.map(at), at(now), age), expected, "{last:?} {now}");
    }
}

fn scope() -> impl Strategy<Value = Scope> {
    let modes = prop_oneof![Just(Modes::Reverse), Just(Modes::Forward), Just(Modes::Both)];
    prop_oneof![
        ("[a-z:/.é]{1,40}", modes).prop_map(|(url, modes)| Scope::Url { url, modes }),
        "[ -~]{1,40}".prop_map(Scope::Tag),
        "[ -~]{1,40}".prop_map(Scope::Host),
        ("[ -~]{1,20}", "[ -~]{1,20}", any::<bool>())
            .prop_map(|(origin, group, is_operators)| Scope::Group { origin, group, is_operators }),
        Just(Scope::All),
    ]
}

/// Purges of several nodes and lives, in the order of their issue.
fn issued() -> impl Strategy<Value = Vec<Purge>> {
    prop::collection::vec((0..3u64, scope(), 0..12u8), 1..60).prop_map(|steps| {
        let mut nodes: Vec<PurgeLedger> = (0..3).map(|node| ledger(node, 1)).collect();
        let mut all = Vec::new();
        for (node, scope, restart) in steps {
            let node = &mut nodes[node as usize];
            if restart == 0 {
                *node = restarted(node);
            }
            let purges = node.issue(scope, true);
            let _ = node.record(purges.clone(), NOW);
            all.extend(purges);
        }
        all
    })
}

proptest! {
    #[test]
    fn any_order_and_repetition_give_one_vector(
        purges in issued(),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
    ) {
        let (mut straight, mut mixed) = (ledger(9, 1), ledger(9, 1));
        let _ = straight.record(purges.clone(), NOW);
        let mut seen = BTreeSet::new();
        for at in order {
            let purge = at.get(&purges).clone();
            for due in take(&mut mixed, &[purge]) {
                prop_assert!(seen.insert(due.id), "applied twice");
            }
            // Everything that the vector acknowledges has been applied.
            for purge in &purges {
                prop_assert!(!mixed.vector().has(purge.id) || seen.contains(&purge.id));
            }
        }
        let reversed: Vec<Purge> = purges.iter().rev().cloned().collect();
        take(&mut mixed, &reversed);
        prop_assert_eq!(mixed.vector(), straight.vector());
        prop_assert_eq!(mixed.vector().hash(), straight.vector().hash());
    }

    #[test]
    fn repair_gives_lost_purges(purges in issued(), lost in any::<u64>()) {
        let (mut full, mut peer) = (ledger(9, 1), ledger(8, 1));
        let _ = full.record(purges.clone(), NOW);
        let arrived = purges.iter().enumerate().filter(|(at, _)| lost >> (at % 64) & 1 == 0);
        take(&mut peer, &arrived.map(|(_, purge)| purge.clone()).collect::<Vec<_>>());
        prop_assert!(full.vector().covers(peer.vector()));
        prop_assert!(repair(&full, &mut peer));
        prop_assert!(peer.vector().covers(full.vector()));
        prop_assert_eq!(peer.vector(), full.vector());
    }

    #[test]
    fn covering_means_having_each_purge(purges in issued(), ours in any::<u64>(), theirs in any::<u64>()) {
        let part = |mask: u64| {
            let mut node = ledger(9, 1);
            let taken = purges.iter().enumerate().filter(|(at, _)| mask >> (at % 64) & 1 == 0);
            take(&mut node, &taken.map(|(_, purge)| purge.clone()).collect::<Vec<_>>());
            node
        };
        let (a, b) = (part(ours), part(theirs));
        let has_all = purges.iter().all(|purge| !b.vector().has(purge.id) || a.vector().has(purge.id));
        if a.vector().covers(b.vector()) {
            prop_assert!(has_all);
        }
        let mut merged = a.vector().clone();
        let _ = merged.merge(b.vector());
        prop_assert!(merged.covers(a.vector()) && merged.covers(b.vector()));
    }

    #[test]
    fn messages_read_back(purges in issued(), hash in any::<u64>(), flag in any::<bool>()) {
        let from = NodeId(hash);
        let mut node = ledger(9, 1);
        let _ = node.record(purges.clone(), NOW);
        let vector = node.vector().clone();
        prop_assert_eq!(Vector::of_bytes(&{
            let mut bytes = Vec::new();
            vector.encode(&mut bytes);
            bytes
        }), Some(vector.clone()));
        for message in [
            Message::Apply { from, purges: purges.clone() },
            Message::Applied { number: hash, is_busy: flag },
            Message::Compare { from, hash },
            Message::Same,
            Message::Current { from, vector: vector.clone() },
            Message::Repaired(Repair::Entries { purges, has_more: flag }),
            Message::Repaired(Repair::Whole(vector)),
        ] {
            let bytes = message.encode();
            prop_assert_eq!(Message::decode(&bytes), Some(message));
            prop_assert_eq!(Message::decode(&[&bytes[..], b"x"].concat()), None);
            for cut in (0..bytes.len()).step_by(1 + bytes.len() / 40) {
                prop_assert_eq!(Message::decode(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(message) = Message::decode(&bytes) {
            prop_assert_eq!(message.encode(), bytes);
        }
    }
}
